"""Pictures of who told whom what: the flow of messages as Mermaid, DOT or PNG, and recorded calls as lines of text.

The messages of an item are taken from the first of these that it has: the `message` in its metadata (or `sent_from`,
`send_to` and `cause_by` there); `source` and `target` of a conversation record; for text that a node wrote, the node
and whom its inputs came from; `speaker` of an imported utterance.
"""

from __future__ import annotations

import re
import shutil
import subprocess
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Final

from pydantic import JsonValue

from devmem.errors import ExportError
from devmem.model.filters import event_key
from devmem.model.interactions import Interaction, InteractionKind, in_order
from devmem.model.items import MemoryItem
from devmem.model.message import ROUTE_ALL, ROUTE_NONE, ROUTE_SELF
from devmem.text.analysis import shorten
from devmem.text.devall_frames import strip_frames
from devmem.text.display import one_line

if TYPE_CHECKING:
    from devmem.workflow.plan import WorkflowPlan


_LABEL_LENGTH: Final = 60
"""Characters of a name, a cause or a message in a label."""
# Mermaid reads #, ;, quotes, brackets, backticks and % as syntax in places that differ by diagram; never their numbers.
_PLAIN: Final = re.compile(r"[^\W_]|[ .,_/()?!+=*'-]")
_SECONDS: Final = 120.0
SHOWN: Final = 200
"""Characters of a content that are shown where nothing else is asked for."""


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
    """Return the messages that the items hold, in the order of `Order.EVENT`; one for each receiver.

    Args:
        items: in the order of storing, by which those of one time follow one another that have no other order.
    """
    kept = sorted(items, key=event_key)
    answered = {(item.scope.run, name) for item in kept for name in _names(item.metadata.get("received_from"))}
    return [transfer for item in kept for transfer in _transfers(item, answered)]


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


def mermaid_text(text: str) -> str:
    """Return a text for any Mermaid label: a character that could be syntax becomes `#NUMBER;`."""
    return "".join(c if _PLAIN.fullmatch(c) else f"#{ord(c)};" for c in one_line(text))


def dot_text(text: str) -> str:
    """Return a text as a quoted DOT string that Graphviz shows unchanged."""
    safe = one_line(text).replace("\\", "\\\\").replace('"', '\\"').replace("&", "&amp;")
    return f'"{safe}"'


def name_label(name: str) -> str:
    """Return the label of a participant."""
    return "everyone" if name == ROUTE_ALL else _short(name)


def edge_label(edge: FlowEdge) -> str:
    """Return the cause, without its module, and the number of times it occurred."""
    cause = _short(_action(edge.cause))
    times = f"{edge.count}x" if edge.count > 1 else ""
    return f"{cause} {times}".strip() or "1x"


def _action(cause: str) -> str:
    return cause.rsplit(".", 1)[-1] if re.fullmatch(r"\w+(\.\w+)+", cause) else cause


def _short(text: str) -> str:
    return shorten(one_line(text), _LABEL_LENGTH)


def mermaid_flowchart(edges: Sequence[FlowEdge]) -> Iterator[str]:
    """Yield the lines of a diagram with every participant, and an arrow for each cause with its count."""
    ids = _ids(edges)
    yield "flowchart LR\n"
    for name, node in ids.items():
        yield f'    {node}["{mermaid_text(name_label(name))}"]\n'
    for edge in edges:
        yield f'    {ids[edge.sender]} -->|"{mermaid_text(edge_label(edge))}"| {ids[edge.receiver]}\n'


def mermaid_sequence(transfers: Sequence[Transfer]) -> Iterator[str]:
    """Yield the lines of a diagram with every message in order, by its first words and its cause."""
    ids = _ids(transfers)
    yield "sequenceDiagram\n"
    for name, node in ids.items():
        yield f"    participant {node} as {mermaid_text(name_label(name))}\n"
    for one in transfers:
        cause = f" ({_short(_action(one.cause))})" if one.cause else ""
        label = mermaid_text(_short(one.text) + cause) or "#8230;"
        yield f"    {ids[one.sender]}->>{ids[one.receiver]}: {label}\n"


def mermaid_plan(plan: WorkflowPlan) -> Iterator[str]:
    """Yield the lines of a diagram with the agents, their stores, and the places that data is sent to."""
    agents = {name: f"a{at}" for at, name in enumerate(dict.fromkeys(one.agent for one in plan.accesses))}
    stores = {store.name: f"s{at}" for at, store in enumerate(plan.stores)}
    yield "flowchart LR\n"
    for name, node in agents.items():
        yield f'    {node}["{mermaid_text(_short(name))}"]\n'
    for store in plan.stores:
        yield f'    {stores[store.name]}[("{mermaid_text(_short(store.name))}<br>{mermaid_text(store.type)}")]\n'
    for one in plan.accesses:
        agent, kept = agents[one.agent], stores[one.store]
        if one.reads_at:
            yield f'    {kept} -->|"{", ".join(one.reads_at)}"| {agent}\n'
        if one.writes_at:
            yield f'    {agent} -.->|"{", ".join(one.writes_at)}"| {kept}\n'
    for at, place in enumerate(plan.destinations):
        about = "; ".join(map(_short, place.data))
        side = "another machine" if place.leaves else "this machine"
        yield f'    d{at}>"{mermaid_text(place.address)}<br>{side}: {mermaid_text(about)}"]\n'


def dot_graph(edges: Sequence[FlowEdge]) -> Iterator[str]:
    """Yield the lines of a diagram with every participant, and an arrow for each cause with its count."""
    ids = _ids(edges)
    yield "digraph flow {\n    rankdir=LR;\n    node [shape=box, style=rounded];\n"
    for name, node in ids.items():
        yield f"    {node} [label={dot_text(name_label(name))}];\n"
    for edge in edges:
        yield f"    {ids[edge.sender]} -> {ids[edge.receiver]} [label={dot_text(edge_label(edge))}];\n"
    yield "}\n"


def _ids(edges: Sequence[FlowEdge | Transfer]) -> dict[str, str]:
    return {name: f"n{at}" for at, name in enumerate(participants_of(edges))}


def png_picture(edges: Sequence[FlowEdge]) -> bytes:
    """Return a picture of the flow as a PNG file; raises `ExportError` where Graphviz is missing or cannot draw it."""
    program = shutil.which("dot")
    if program is None:
        raise ExportError(
            "a picture is drawn by Graphviz, which is not installed (`apt install graphviz`); `--format dot` and "
            "`--format mermaid` write what other programs draw."
        )
    try:
        done = subprocess.run(  # noqa: S603 - the program is Graphviz, and the text is its input
            [program, "-Tpng"], input="".join(dot_graph(edges)).encode(), capture_output=True, timeout=_SECONDS
        )
        said = done.stderr.decode("utf-8", "replace").strip() or f"exit code {done.returncode}, no picture"
        if not done.returncode and done.stdout.startswith(b"\x89PNG"):
            return done.stdout
    except (OSError, subprocess.TimeoutExpired) as error:
        said = str(error)
    raise ExportError(f"Graphviz ({program}) cannot draw the flow: {said}. `--format dot` writes what it was given.")


@dataclass(slots=True, kw_only=True)
class CallNode:
    """A call and the calls that were made from within it."""

    call: Interaction
    answer: Interaction | None = None
    """Output or error; None while the call goes on, or where its end was not recorded."""
    calls: list[CallNode] = field(default_factory=list)

    @property
    def seconds(self) -> float | None:
        """How long the call took."""
        return self.answer.event_time - self.call.event_time if self.answer else None


def call_tree(records: Iterable[Interaction]) -> list[CallNode]:
    """Return the calls of a trace as trees, in the order of their beginnings; one without its parent is a root.

    An answer whose question is not among the records, as one that an agent's attachment stored, stands by itself.
    """
    ordered = in_order(records)
    nodes = {one.id: CallNode(call=one) for one in ordered if one.kind is InteractionKind.INPUT}
    by_pair = {node.call.pair_id: node for node in nodes.values()}
    roots: list[CallNode] = []
    for one in ordered:
        if one.kind is not InteractionKind.INPUT and (node := by_pair.get(one.pair_id)) is not None:
            node.answer = one
        elif one.kind is not InteractionKind.SUMMARY:
            parent = nodes.get(one.parent_id or "")
            (parent.calls if parent else roots).append(nodes.get(one.id) or CallNode(call=one))
    return roots


def tree_lines(roots: Iterable[CallNode], indent: str = "", *, length: int | None = SHOWN) -> Iterator[str]:
    """Return the lines of a tree of calls.

    Args:
        roots: the outermost calls.
        indent: begins every line.
        length: maximum number of characters of a content; None shows all of them.
    """
    for node in roots:
        took = "" if node.seconds is None else f" ({node.seconds:.3f} s)"
        call, answer = node.call, node.answer
        sides = f"{_line(call.source.name)} -> {call.target.type.value} {_line(call.target.name)}"
        yield f"{indent}{sides}{took}: {_line(call.content, length)}"
        yield from tree_lines(node.calls, indent + "  ", length=length)
        if answer is not None:
            mark = "!" if answer.kind is InteractionKind.ERROR else "="
            yield f"{indent}  {mark} {_line(answer.content, length)}"


def timeline_lines(records: Iterable[Interaction], *, length: int | None = SHOWN) -> Iterator[str]:
    """Return a line a record: when, who to whom, and what.

    Args:
        records: the records, in any order.
        length: maximum number of characters of a content; None shows all of them.
    """
    for one in in_order(records):
        when = datetime.fromtimestamp(one.event_time).strftime("%Y-%m-%d %H:%M:%S")
        sides = f"{_line(one.source.name)} -> {_line(one.target.name)}"
        yield f"{when}  {sides}  {one.kind.value}: {_line(one.content, length)}"


def _line(text: str, length: int | None = None) -> str:
    # Names as well as contents: a line feed in one would begin a line that looks like a record.
    line = " ".join(text.split())
    return line if length is None or len(line) <= length else f"{line[: length - 1]}…"
