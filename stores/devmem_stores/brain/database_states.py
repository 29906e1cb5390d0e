"""States of conversations in the database of the items, which several machines share."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Final, TypeVar

from devmem.collections import StateKey, StateTable, Unreached
from devmem.errors import CollectionError
from devmem_stores.brain.errors import CacheUnavailableError
from devmem_stores.brain.local_states import Deletion, Stored, Watermark
from devmem_stores.brain.state import load_state

T = TypeVar("T")

_STATE: Final = "conversation"
_WAITING: Final = "conversation that waits for Redis"
_DELETION: Final = "deletion"
_CHECKED: Final[StateKey] = ("watermark", "")


class StatesInDatabase:
    """States by their keys; `LocalStates` documents the methods."""

    place = "the database of its messages"

    def __init__(self, open_table: Callable[[], StateTable]) -> None:
        """Prepare; `open_table` is called for every operation."""
        self._open = open_table

    def _run(self, operation: str, action: Callable[[StateTable], T]) -> T:
        try:
            return action(self._open())
        except CollectionError as error:
            raise CacheUnavailableError(self.place, operation, str(error)) from error

    def get(self, key: str) -> Stored | None:
        """Return the value of a key."""
        found = self._run("read a conversation", lambda table: table.get([(_STATE, key), (_WAITING, key)]))
        body = found.get((_STATE, key))
        if body is None:
            return None
        return Stored(body=body, version=_version(body), waiting=(_WAITING, key) in found)

    def put(self, key: str, stored: Stored, *, expected: bytes | None) -> bool:
        """Replace the expected value of a key, durably."""
        values = {(_STATE, key): stored.body, (_WAITING, key): b"" if stored.waiting else None}
        return self._run("keep a conversation", lambda table: table.write(values, expected={(_STATE, key): expected}))

    def discard(self, key: str, *, expected: bytes) -> bool:
        """Remove a key that has the expected value, durably."""
        values: dict[StateKey, bytes | None] = {(_STATE, key): None, (_WAITING, key): None}
        return self._run("remove a conversation", lambda table: table.write(values, expected={(_STATE, key): expected}))

    def scrub(self) -> list[Unreached]:
        """Do nothing: the receipt of the collection tells of the database."""
        return []

    def keys(self, *, waiting: bool = False) -> list[str]:
        """Return all keys, or those that wait for Redis."""
        return self._run("list the conversations", lambda table: table.names(_WAITING if waiting else _STATE))

    def record(self, deletions: Sequence[Deletion]) -> None:
        """Record deletions before they begin; durable when it returns."""
        self._run("record a deletion", lambda table: table.write(dict.fromkeys(map(_key_of, deletions), b"")))

    def recorded(self) -> list[Deletion]:
        """Return the deletions that were recorded and not finished."""
        names = self._run("read the deletions", lambda table: table.names(_DELETION))
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

    def close(self) -> None:
        """Do nothing: the collection is closed by the store."""


def _key_of(deletion: Deletion) -> StateKey:
    return _DELETION, json.dumps([deletion.key, deletion.item])


def _version(body: bytes) -> int:
    """Return the version in a state; 0 where it cannot be read, which whoever reads it reports."""
    try:
        return load_state(body).version
    except ValueError:
        return 0
