"""The state of one conversation: the messages since the last summary, the summaries before them, and knowledge."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import cache
from typing import Annotated, Final, Literal

from pydantic import PlainSerializer, PlainValidator, TypeAdapter

from devmem import WriteOutcome
from devmem.errors import MessageError
from devmem.messages import Message, dump_message, load_message
from devmem.stores import WriteStatus, skipped

FORMAT: Final = 1
MARKS: Final = 8
Method = Literal["model", "extract", "whole", "given"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """A message, and the item that keeps it in the store."""

    message: Annotated[Message, PlainValidator(load_message), PlainSerializer(dump_message)]
    item_id: str
    """The two messages of one exchange share an item."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Summary:
    """What stands for older messages."""

    id: str
    text: str
    level: int
    """1 is made of messages, 2 of summaries of level 1, and so on."""
    start: float
    """When the first of the messages was said: seconds since the epoch, UTC."""
    end: float
    """When the last of them was said."""
    messages: int
    """How many they are."""
    sources: tuple[str, ...]
    """Ids of the items that keep these messages, in their order; `get` gives them."""
    method: Method = "model"
    """`model` and `extract` (by choosing sentences) wrote it; `whole`: it is short enough; `given` by the caller."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BrainState:
    """All that is known of one conversation; unchangeable, every change makes a new one."""

    entries: tuple[Entry, ...] = ()
    knowledge_entries: tuple[Entry, ...] = ()
    summaries: tuple[Summary, ...] = ()
    """In the order of what they tell."""
    last_history_id: str = ""
    """Id of the message added last."""
    last_number: int = -1
    """Largest id that was a number."""
    last_talk: str | None = None
    """What the user said last, until it is taken."""
    removed: tuple[str, ...] = ()
    """Items that were forgotten while this state could not be shared."""
    version: int = 0
    """Grows with every change."""
    marks: tuple[str, ...] = ()
    """Of the latest changes; by its mark a writer that got no answer knows that its change was made."""
    format: int = FORMAT

    @property
    def history(self) -> list[Message]:
        """The messages that are not summarized."""
        return [entry.message for entry in self.entries]

    @property
    def knowledge(self) -> list[Message]:
        """What is known beside what was said."""
        return [entry.message for entry in self.knowledge_entries]

    @property
    def historical_summary(self) -> str:
        """The summaries of everything before the history, a line each; empty when there are none."""
        return "\n".join(summary.text for summary in self.summaries)

    @property
    def is_history_available(self) -> bool:
        """Say whether anything was said."""
        return bool(self.entries or self.summaries)

    @property
    def history_text(self) -> str:
        """The summaries and the history without its last message, a line each."""
        parts = [self.historical_summary, *(entry.message.text() for entry in self.entries[:-1])]
        return "\n".join(part for part in parts if part)

    def whole_text(self) -> str:
        """Give the summaries and the whole history, a line each, every message with who said it."""
        parts = [self.historical_summary, *(spoken(entry.message) for entry in self.entries)]
        return "\n".join(part for part in parts if part)

    def exists(self, text: str) -> bool:
        """Say whether a message of the history has exactly this text."""
        return any(entry.message.content == text for entry in reversed(self.entries))

    def get_knowledge(self) -> str:
        """Give all that is known, a line each."""
        return "\n".join(entry.message.content for entry in self.knowledge_entries)

    def known_items(self) -> set[str]:
        """Give the ids of all items that the history or a summary stands for."""
        return {entry.item_id for entry in self.entries} | self.summarized_items()

    def summarized_items(self) -> set[str]:
        """Give the ids of all items that a summary stands for."""
        return {source for summary in self.summaries for source in summary.sources}


def spoken(message: Message) -> str:
    """Give a message as a line: who said it, and what."""
    return f"{message.source or message.role.value}: {message.text()}"


def sequence_number(message_id: str) -> int | None:
    """Read an id as a number that counts messages; None for any other id.

    An id of 32 hex digits that happens to have no letter counts nothing: 19 digits are the most.
    """
    return int(message_id) if message_id.isascii() and message_id.isdigit() and len(message_id) <= 19 else None


def refusal(state: BrainState, message: Message, item_id: str) -> WriteOutcome | None:
    """Say why a message is not taken into the history; None when it is.

    Numbered messages come in order; a message with any other id is taken once.
    """
    if item_id in state.known_items():
        reason = f"message {message.id} is there already"
        return WriteOutcome(status=WriteStatus.DUPLICATE, item_id=item_id, reason=reason)
    number = sequence_number(message.id)
    if number is not None and number <= state.last_number:
        return skipped(f"message {message.id} does not come after message {state.last_number}")
    return None


def with_entries(state: BrainState, entries: Iterable[Entry]) -> BrainState:
    """Append messages; one that is there already is not appended again."""
    known = {(entry.item_id, entry.message.id) for entry in state.entries}
    summarized = state.summarized_items()
    fresh = [e for e in entries if (e.item_id, e.message.id) not in known and e.item_id not in summarized]
    if not fresh:
        return state
    numbers = [number for entry in fresh if (number := sequence_number(entry.message.id)) is not None]
    return replace(
        state,
        entries=(*state.entries, *fresh),
        last_history_id=fresh[-1].message.id,
        last_number=max([state.last_number, *numbers]),
    )


@cache
def _adapter() -> TypeAdapter[BrainState]:
    return TypeAdapter(BrainState)


def dump_state(state: BrainState) -> bytes:
    """Give the state as JSON in UTF-8; nothing of the configuration is in it."""
    raw = _adapter().dump_python(state, mode="json", exclude_defaults=True)
    # UTF-8 cannot hold half a surrogate pair; written as a backslash escape it is JSON.
    return json.dumps(raw, ensure_ascii=False).encode("utf-8", "backslashreplace")


def load_state(raw: bytes) -> BrainState:
    """Read what `dump_state` gave; raises `ValueError` when it is something else, or of a later format."""
    try:
        state = _adapter().validate_python(json.loads(raw))
    except MessageError as error:
        raise ValueError(str(error)) from error
    if state.format > FORMAT:
        raise ValueError(f"it has format {state.format}, and this version of devmem reads up to {FORMAT}")
    return state
