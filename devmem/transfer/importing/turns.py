"""Turns of conversations, however a program names their speakers, as items."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

from devmem.model.items import MemoryItem, Scope
from devmem.transfer.importing.origin import Origin
from devmem.transfer.importing.records import text_item

_ROLES: Final[Mapping[str, str]] = {
    "human": "user",
    "user": "user",
    "ai": "assistant",
    "aimessagechunk": "assistant",
    "humanmessagechunk": "user",
    "gpt": "assistant",
    "chatgpt": "assistant",
    "bing": "assistant",
    "bard": "assistant",
    "model": "assistant",
    "bot": "assistant",
    "assistant": "assistant",
}
"""Speakers of a conversation; prompts and tools are none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
    """Words of one speaker."""

    text: str
    speaker: str
    origin: Origin
    id: str | None = None
    """Unique id; None makes one of the conversation, the turn's place in it and its text."""
    time: float | None = None
    """Seconds since the epoch."""
    conversation: str | None = None
    session: str | None = None
    metadata: Mapping[str, Any] = field(default_factory=dict)


def speaker_of(role: object) -> str | None:
    """Return `user` or `assistant`, however a program names them; None for a prompt, a tool and whatever else."""
    return _ROLES.get(role.lower()) if isinstance(role, str) else None


def read_conversations(
    conversations: Iterable[object],
    origin: Origin,
    *,
    is_one: Callable[[object], bool],
    expected: str,
    turns: Callable[[Mapping[str, Any], Origin], Iterable[Turn]],
) -> Iterator[MemoryItem]:
    """Yield an item for each turn of a list of conversations.

    Args:
        conversations: the list.
        origin: its place.
        is_one: whether an element is a conversation.
        expected: words for what an element has to be.
        turns: returns the turns of a conversation, which stands at the given place.

    Raises:
        DataFileError: an element is no conversation, or has a turn that is none.
    """
    for at, raw in enumerate(conversations):
        here = replace(origin, entry=f"[{at}]")
        if not isinstance(raw, Mapping) or not is_one(raw):
            raise here.error(f"expected {expected}")
        yield from turn_items(turns(raw, here))


def turn_items(turns: Iterable[Turn]) -> Iterator[MemoryItem]:
    """Yield an item for each turn that has a text."""
    places: Counter[str | None] = Counter()
    for turn in turns:
        places[turn.conversation] += 1
        if not turn.text.strip():
            continue
        yield text_item(
            origin=turn.origin,
            id=turn.id or _id_of(turn, places[turn.conversation]),
            text=turn.text,
            speaker=turn.speaker,
            event_time=turn.time,
            scope=Scope(conversation=turn.conversation, session=turn.session),
            metadata={**({"speaker": turn.speaker} if turn.speaker else {}), **turn.metadata},
        )


def digest(*parts: object) -> str:
    """Return an id by which the same content is the same item next time."""
    text = json.dumps(parts, sort_keys=True, separators=(",", ":"), default=str)
    return hashlib.sha256(text.encode()).hexdigest()[:32]


def _id_of(turn: Turn, place: int) -> str:
    return digest(turn.conversation, place, turn.speaker, turn.text)
