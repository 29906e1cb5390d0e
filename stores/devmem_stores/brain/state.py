"""The state of one conversation: the messages since the last summary, the summaries before them, and knowledge."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import cache
from typing import Annotated, Final

from pydantic import PlainSerializer, PlainValidator, TypeAdapter

from devmem import WriteOutcome
from devmem.errors import MessageError
from devmem.messages import Message, dump_message, load_message
from devmem.models import SummaryMethod
from devmem.stores import LEAST_TRUST, WriteStatus, skipped
from devmem.text import indented, one_line

HEARD: Final = ":heard"
"""End of the id of a message that a node got from another agent."""
_REMOVED: Final = 2_000

Read = Callable[[Iterable[str]], Iterable["StoredMessage"]]
"""Returns the messages that items keep, in order."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredMessage:
    """A message, and the item that keeps it in the store."""

    message: Annotated[Message, PlainValidator(load_message), PlainSerializer(dump_message)]
    item_id: str
    """The two messages of one exchange share an item."""
    trust: float = 1.0
    """That of the item; see `MemoryItem.trust`."""
    expires_at: float | None = None
    """When the item expires, and the message with it: seconds since the epoch; None for never."""

    @property
    def key(self) -> tuple[str, str]:
        """Ids of the item and of the message."""
        return self.item_id, self.message.id


@dataclass(frozen=True, slots=True, kw_only=True)
class Summary:
    """A summary of older messages."""

    id: str
    text: str
    level: int
    """1 is made of messages, 2 of summaries of level 1, and so on."""
    start: float
    """When the first of the messages was said: seconds since the epoch, UTC."""
    end: float
    """When the last of them was said."""
    messages: int
    """Number of these messages."""
    sources: tuple[str, ...]
    """Ids of the items that keep these messages, in their order."""
    method: SummaryMethod = "model"
    """`model` and `extract` (by choosing sentences) wrote it; `whole`: it is short enough; `given` by the caller."""
    trust: float = 1.0
    """The least trust of the items that keep its messages."""
    expiring: tuple[tuple[str, float], ...] = ()
    """The sources that expire, each with the time; the summary goes with the first of them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BrainState:
    """The state of one conversation; immutable, every change makes a new one."""

    entries: tuple[StoredMessage, ...] = ()
    knowledge_entries: tuple[StoredMessage, ...] = ()
    summaries: tuple[Summary, ...] = ()
    """In the order of the messages that they summarize."""
    last_history_id: str = ""
    """Id of the message added last."""
    last_number: int = -1
    """Largest id that was a number."""
    last_talk: str | None = None
    """Last message of the user, until it is taken."""
    removed: tuple[str, ...] = ()
    """Ids of the latest forgotten items, so that a copy of the state that has them still does not bring them back."""
    version: int = 0
    """Grows with every change."""

    @property
    def history(self) -> list[Message]:
        """The messages that are not summarized."""
        return [entry.message for entry in self.entries]

    @property
    def knowledge(self) -> list[Message]:
        """Messages that add knowledge beside the conversation."""
        return [entry.message for entry in self.knowledge_entries]

    @property
    def historical_summary(self) -> str:
        """The summaries of everything before the history, a line each; empty when there are none."""
        return "\n".join(summary.text for summary in self.summaries)

    def whole_text(self) -> str:
        """Return the summaries and the whole history, a line each, every message with who said it."""
        parts = [self.historical_summary, *(spoken(entry.message) for entry in self.entries)]
        return "\n".join(part for part in parts if part)

    @property
    def is_empty(self) -> bool:
        """Whether nothing is left of the conversation but what is known of forgotten messages."""
        return not (self.entries or self.knowledge_entries or self.summaries or self.last_talk)

    def summarized_items(self) -> set[str]:
        """Return the ids of all summarized items."""
        return {source for summary in self.summaries for source in summary.sources}

    def known_items(self) -> set[str]:
        """Return the ids of all items in the history, the knowledge and the summaries."""
        return {entry.item_id for entry in (*self.entries, *self.knowledge_entries)} | self.summarized_items()

    def expired_items(self, now: float) -> set[str]:
        """Return the ids of all items that expired until `now` (seconds since the epoch)."""
        expiring = expiring_sources((*self.entries, *self.knowledge_entries), self.summaries)
        return {item for item, time in expiring if time <= now}


def least_trust(entries: Iterable[StoredMessage], summaries: Iterable[Summary]) -> float:
    """Return the trust of what is made of messages and summaries: that of the least trusted."""
    return min([1.0, *(entry.trust for entry in entries), *(summary.trust for summary in summaries)])


def expiring_sources(entries: Iterable[StoredMessage], summaries: Iterable[Summary]) -> tuple[tuple[str, float], ...]:
    """Return the items behind messages and summaries that expire, each with the time."""
    own = ((entry.item_id, entry.expires_at) for entry in entries if entry.expires_at is not None)
    return tuple(dict([*own, *(one for summary in summaries for one in summary.expiring)]).items())


def spoken(message: Message) -> str:
    """Return a message after its speaker; only that stands at the left edge, so that no text forges a turn."""
    return f"{one_line(message.source) or message.role.value}: {indented(message.text())}"


def sequence_number(message_id: str) -> int | None:
    """Return an id that numbers messages as a number; None for any other id.

    An id of 32 hex digits that happens to have no letter is not a number: the maximum is 19 digits.
    """
    return int(message_id) if message_id.isascii() and message_id.isdigit() and len(message_id) <= 19 else None


def refusal(state: BrainState, message: Message, item_id: str) -> WriteOutcome | None:
    """Return the reason why a message is not taken into the history; None when it is.

    Numbered messages come in order; a message with any other id is taken once.
    """
    if item_id in {entry.item_id for entry in state.entries} | state.summarized_items():
        reason = f"message {message.id} is there already"
        return WriteOutcome(status=WriteStatus.DUPLICATE, item_id=item_id, reason=reason)
    number = sequence_number(message.id)
    if number is not None and number <= state.last_number:
        return skipped(f"message {message.id} does not come after message {state.last_number}")
    return None


def with_entries(state: BrainState, entries: Iterable[StoredMessage]) -> BrainState:
    """Append messages; one that is there already, also as its agent's own answer, is not appended again."""
    known, summarized = {entry.key for entry in state.entries}, state.summarized_items()
    history = list(state.entries)
    for entry in entries:
        if entry.key not in known and entry.item_id not in summarized and not _was_answered(entry.message, history):
            history.append(entry)
    fresh = history[len(state.entries) :]
    if not fresh:
        return state
    again = {entry.item_id for entry in fresh}
    return replace(
        state,
        entries=tuple(history),
        removed=tuple(item for item in state.removed if item not in again),
        last_history_id=fresh[-1].message.id,
        last_number=max(state.last_number, *(sequence_number(entry.message.id) or -1 for entry in fresh)),
    )


def _was_answered(heard: Message, history: Sequence[StoredMessage]) -> bool:
    """Whether a message from another agent is in the history as that agent's own answer."""
    said = (entry.message for entry in history if not entry.message.id.endswith(HEARD))
    return heard.id.endswith(HEARD) and any(own.source == heard.source and own.content == heard.content for own in said)


def with_knowledge(state: BrainState, entry: StoredMessage) -> BrainState:
    """Append a message to the knowledge, unless its item is there already."""
    if any(old.item_id == entry.item_id for old in state.knowledge_entries):
        return state
    return replace(state, knowledge_entries=(*state.knowledge_entries, entry))


def without(state: BrainState, items: Iterable[str], read: Read) -> BrainState:
    """Return the state without items: summaries made of one are dropped, and their other messages are history again."""
    gone = set(items)
    if gone.isdisjoint(state.known_items()):
        return state
    kept = [summary for summary in state.summaries if gone.isdisjoint(summary.sources)]
    out = gone | {source for summary in kept for source in summary.sources}
    dropped = [summary for summary in state.summaries if summary not in kept]
    loose = dict.fromkeys(source for summary in dropped for source in summary.sources if source not in out)
    entries = [*read(loose), *(entry for entry in state.entries if entry.item_id not in gone)]
    entries.sort(key=lambda entry: entry.message.created_at)
    return replace(
        state,
        entries=tuple(entries),
        knowledge_entries=tuple(entry for entry in state.knowledge_entries if entry.item_id not in gone),
        summaries=tuple(kept),
        last_talk=state.last_talk if any(entry.message.content == state.last_talk for entry in entries) else None,
        removed=tuple(dict.fromkeys([*state.removed, *sorted(gone)]))[-_REMOVED:],
    )


def retrusted(state: BrainState, items: Mapping[str, float], read: Read) -> BrainState:
    """Return the state with another trust of some items: what is made of them is trusted no more than they are.

    Those in quarantine leave it, as by `without`.
    """
    state = without(state, [item for item, trust in items.items() if trust < LEAST_TRUST], read)
    entries, knowledge = (
        tuple(replace(entry, trust=items.get(entry.item_id, entry.trust)) for entry in listed)
        for listed in (state.entries, state.knowledge_entries)
    )
    summaries = tuple(
        replace(summary, trust=min([summary.trust, *(items[source] for source in summary.sources if source in items)]))
        for summary in state.summaries
    )
    return replace(state, entries=entries, knowledge_entries=knowledge, summaries=summaries)


def emptied(state: BrainState) -> BrainState:
    """Return an empty state, in which everything counts as forgotten."""
    removed = tuple(dict.fromkeys([*state.removed, *sorted(state.known_items())]))[-_REMOVED:]
    return BrainState(version=state.version, removed=removed)


_FIELDS: Final = frozenset(field.name for field in fields(BrainState))


@cache
def _adapter() -> TypeAdapter[BrainState]:
    return TypeAdapter(BrainState)


def dump_state(state: BrainState) -> bytes:
    """Return the state as JSON in UTF-8; nothing of the configuration is in it."""
    raw = _adapter().dump_python(state, mode="json", exclude_defaults=True)
    return json.dumps(raw, ensure_ascii=False).encode()


def load_state(raw: bytes) -> BrainState:
    """Return the state that `dump_state` wrote; raises `ValueError` for anything else."""
    found = json.loads(raw)
    # Every field has a default, so that another program's object would be an empty state.
    if isinstance(found, dict) and (unknown := sorted(found.keys() - _FIELDS)):
        raise ValueError(f"it has the unknown key {unknown[0]!r}")
    try:
        return _adapter().validate_python(found)
    except MessageError as error:
        raise ValueError(str(error)) from error


def merge(one: BrainState, two: BrainState) -> BrainState:
    """Merge two states: the result has the messages of both, without what either forgot.

    A state that has all of the other one is the result unchanged. Of two summaries of the same messages, that of the
    state which summarized more is taken.
    """
    older, newer = sorted((one, two), key=lambda state: state.version)
    removed = {*older.removed, *newer.removed}
    missing = older.known_items() - newer.known_items() - removed or older.summarized_items() - newer.summarized_items()
    given = {summary.id for summary in older.summaries if not summary.sources} - {s.id for s in newer.summaries}
    if not missing and not given and removed.isdisjoint(newer.known_items()):
        return newer
    summaries = _merged_summaries(older, newer, removed)
    gone = removed | {source for summary in summaries for source in summary.sources}
    return replace(
        newer,
        entries=_merged_entries(older.entries, newer.entries, without=gone),
        knowledge_entries=_merged_entries(older.knowledge_entries, newer.knowledge_entries, without=removed),
        summaries=summaries,
        last_number=max(older.last_number, newer.last_number),
        removed=tuple(dict.fromkeys([*older.removed, *newer.removed]))[-_REMOVED:],
    )


def _merged_summaries(one: BrainState, two: BrainState, removed: set[str]) -> tuple[Summary, ...]:
    more, less = sorted((one, two), key=lambda state: (len(state.summarized_items()), state.version), reverse=True)
    covered: set[str] = set()
    taken: dict[str, Summary] = {}
    for summary in (*more.summaries, *less.summaries):
        said_already = bool(summary.sources) and covered.issuperset(summary.sources)
        # A summary repeats what was forgotten too; its other messages are still found in the store.
        if not said_already and removed.isdisjoint(summary.sources):
            taken.setdefault(summary.id, summary)
            covered.update(summary.sources)
    return tuple(sorted(taken.values(), key=lambda summary: (summary.start, -summary.level, summary.end, summary.id)))


def _merged_entries(
    one: tuple[StoredMessage, ...], two: tuple[StoredMessage, ...], *, without: set[str]
) -> tuple[StoredMessage, ...]:
    entries = {entry.key: entry for entry in (*one, *two) if entry.item_id not in without}
    return tuple(sorted(entries.values(), key=lambda entry: entry.message.created_at))
