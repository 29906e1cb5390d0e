"""States of conversations, as values that the collection of their items keeps."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, TypeVar

from devmem.errors import CollectionError
from devmem.storage import StateKey, StateTable
from devmem_stores.brain.config import CacheUnavailableError

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Stored:
    """A state as it is stored."""

    body: bytes
    waiting: bool
    """Whether Redis does not have it yet."""


@dataclass(frozen=True, slots=True)
class Deletion:
    """An item that is being deleted and has to leave the state of its conversation too."""

    key: str
    item: str
    """Id of the item; empty for the whole conversation."""


@dataclass(frozen=True, slots=True)
class Watermark:
    """The item up to which every message is known to be in the state of its conversation."""

    item: str
    stored_at: float
    """Seconds since the epoch."""


STATE: Final = "conversation"
WAITING: Final = "conversation that waits for Redis"
DELETION: Final = "deletion"
_CHECKED: Final[StateKey] = ("watermark", "")


class LocalStates:
    """States by their keys, in the store's collection; safe to use from several threads and processes.

    Every method raises `BrainCacheError` when it cannot do its work.
    """

    def __init__(self, place: str, open_table: Callable[[], StateTable]) -> None:
        """Prepare; `open_table` is called for every operation, and `place` is said in errors."""
        self.place = place
        self._open = open_table

    def _run(self, operation: str, action: Callable[[StateTable], T]) -> T:
        try:
            return action(self._open())
        except CollectionError as error:
            raise CacheUnavailableError(self.place, operation, str(error)) from error

    def get(self, key: str) -> Stored | None:
        """Return the value of a key."""
        found = self._run("read a conversation", lambda table: table.get([(STATE, key), (WAITING, key)]))
        body = found.get((STATE, key))
        if body is None:
            return None
        return Stored(body=body, waiting=(WAITING, key) in found)

    def put(self, key: str, stored: Stored, *, expected: bytes | None) -> bool:
        """Replace the expected value of a key, durably."""
        values = {(STATE, key): stored.body, (WAITING, key): b"" if stored.waiting else None}
        return self._run("keep a conversation", lambda table: table.write(values, expected={(STATE, key): expected}))

    def discard(self, key: str, *, expected: bytes) -> bool:
        """Remove a key that has the expected value, durably."""
        values: dict[StateKey, bytes | None] = {(STATE, key): None, (WAITING, key): None}
        return self._run("remove a conversation", lambda table: table.write(values, expected={(STATE, key): expected}))

    def keys(self, *, waiting: bool = False) -> list[str]:
        """Return all keys, or those that wait for Redis."""
        return self._run("list the conversations", lambda table: table.names(WAITING if waiting else STATE))

    def record(self, deletions: Sequence[Deletion]) -> None:
        """Record deletions before they begin; durable when it returns."""
        self._run("record a deletion", lambda table: table.write(dict.fromkeys(map(_key_of, deletions), b"")))

    def recorded(self) -> list[Deletion]:
        """Return the deletions that were recorded and not finished."""
        names = self._run("read the deletions", lambda table: table.names(DELETION))
        return [Deletion(*json.loads(name)) for name in names]

    def finish(self, deletions: Sequence[Deletion]) -> None:
        """Forget deletions that are finished."""
        self._run("finish a deletion", lambda table: table.write(dict.fromkeys(map(_key_of, deletions))))

    def watermark(self) -> Watermark | None:
        """Return the watermark of the last check; None before the first one."""
        found = self._run("read the watermark", lambda table: table.get([_CHECKED]))
        return Watermark(*json.loads(found[_CHECKED])) if found else None

    def set_watermark(self, watermark: Watermark) -> None:
        """Replace the watermark."""
        value = json.dumps([watermark.item, watermark.stored_at]).encode()
        self._run("keep the watermark", lambda table: table.write({_CHECKED: value}))


def _key_of(deletion: Deletion) -> StateKey:
    return DELETION, json.dumps([deletion.key, deletion.item])
