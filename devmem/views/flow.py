"""Message flow: sender, receiver and cause of the messages that items hold.

They are taken from the first of these that an item has: the `message` in its metadata (or `sent_from`, `send_to`
and `cause_by` there); `source` and `target` of a conversation record; for text that a node wrote, the node and whom its
inputs came from; `speaker` of an imported utterance.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from pydantic import JsonValue

from devmem.messages import ROUTE_ALL, ROUTE_NONE, ROUTE_SELF
from devmem.model.items import MemoryItem
from devmem.text.frames import strip_frames


@dataclass(frozen=True, slots=True, kw_only=True)
class Transfer:
    """One message from one sender to one receiver."""

    sender: str
    receiver: str
    """A name, or `<all>`."""
    cause: str = ""
    """The reason for sending it: an action, a type of message, the ids of other items; empty when it is not known."""
    text: str
    time: float
    """Seconds since the epoch, UTC."""
    item_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class FlowEdge:
    """All messages of one sender to one receiver for one cause."""

    sender: str
    receiver: str
    cause: str
    count: int


def transfers_of(items: Iterable[MemoryItem]) -> list[Transfer]:
    """Return the messages that the items hold, in the order of time; one for each receiver."""
    kept = list(items)
    answered = {(item.scope.run, name) for item in kept for name in _names(item.metadata.get("received_from"))}
    found = [transfer for item in kept for transfer in _transfers(item, answered)]
    return sorted(found, key=lambda transfer: transfer.time)


def edges_of(transfers: Iterable[Transfer]) -> list[FlowEdge]:
    """Return the number of messages by sender, receiver and cause, in the order of their first messages."""
    counts = Counter((one.sender, one.receiver, one.cause) for one in transfers)
    return [FlowEdge(sender=s, receiver=r, cause=c, count=count) for (s, r, c), count in counts.items()]


def participants_of(edges: Iterable[FlowEdge | Transfer]) -> list[str]:
    """Return every name, in order of appearance."""
    return list(dict.fromkeys(name for edge in edges for name in (edge.sender, edge.receiver)))


def _transfers(item: MemoryItem, answered: set[tuple[str | None, str]]) -> Iterator[Transfer]:
    metadata = item.metadata
    form = metadata.get("message")
    if isinstance(form, Mapping) or any(_names(metadata.get(key)) for key in ("sent_from", "send_to")):
        yield from _message(item, form if isinstance(form, Mapping) else metadata)
    elif _name(metadata.get("source")) and _name(metadata.get("target")):
        yield from _sent(item, _name(metadata["source"]), [_name(metadata["target"])], _name(metadata.get("type")))
    elif received := _names(metadata.get("received_from")):
        yield from _exchanged(item, received, answered)
    else:
        yield from _sent(item, _speaker(item), [ROUTE_ALL], "")


def _message(item: MemoryItem, form: Mapping[str, JsonValue]) -> Iterator[Transfer]:
    sender = _name(form.get("source")) or _name(form.get("sent_from")) or _name(form.get("role")) or _speaker(item)
    yield from _sent(item, sender, sorted(_names(form.get("send_to"))) or [ROUTE_ALL], _name(form.get("cause_by")))


def _speaker(item: MemoryItem) -> str:
    return _name(item.metadata.get("speaker")) or item.provenance.name or item.provenance.kind.value


def _sent(item: MemoryItem, sender: str, receivers: Sequence[str], cause: str) -> Iterator[Transfer]:
    for receiver in receivers:
        if receiver != ROUTE_NONE:
            yield _transfer(item, sender, sender if receiver == ROUTE_SELF else receiver, cause, _text(item))


def _exchanged(item: MemoryItem, received: Sequence[str], answered: set[tuple[str | None, str]]) -> Iterator[Transfer]:
    """Yield the inputs of a node, and its answer unless another item names the receiver of that."""
    node = item.provenance.name or item.provenance.kind.value
    asked = item.metadata.get("input_preview")
    for sender in received:
        yield _transfer(item, sender, node, "", asked if isinstance(asked, str) else _text(item))
    answer = item.output_snapshot.text if item.output_snapshot else ""
    if answer.strip() and (item.scope.run, node) not in answered:
        yield _transfer(item, node, ROUTE_ALL, "", answer)


def _transfer(item: MemoryItem, sender: str, receiver: str, cause: str, text: str) -> Transfer:
    return Transfer(
        sender=sender,
        receiver=receiver,
        cause=cause or ", ".join(item.provenance.parents),
        text=strip_frames(text).strip(),
        time=item.created_at if item.event_time is None else item.event_time,
        item_id=item.id,
    )


def _text(item: MemoryItem) -> str:
    return item.output_snapshot.text if item.output_snapshot and item.output_snapshot.text else item.content_summary


def _name(value: JsonValue | None) -> str:
    return value.strip() if isinstance(value, str) else ""


def _names(value: JsonValue | None) -> list[str]:
    each = value if isinstance(value, list) else [value]
    return list(dict.fromkeys(name for one in each if (name := _name(one))))
