"""States of conversations beside their items: in a file, in the items' database, or in this process."""

from __future__ import annotations

import json
import sqlite3
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal, Protocol, TypeVar

from devmem.errors import CollectionError
from devmem.storage import Residue, StateKey, StateTable, write_transaction
from devmem.storage.sidecar_db import PoolClosedError, SidecarDb
from devmem_stores.brain.config import CacheUnavailableError
from devmem_stores.brain.state import load_state

T = TypeVar("T")

_SCHEMA: Final = (
    """
CREATE TABLE IF NOT EXISTS states (
    key TEXT PRIMARY KEY,
    version INTEGER NOT NULL,
    waiting INTEGER NOT NULL,
    body BLOB NOT NULL
) WITHOUT ROWID
""",
    """
CREATE TABLE IF NOT EXISTS deletions (
    key TEXT NOT NULL,
    item TEXT NOT NULL,
    PRIMARY KEY (key, item)
) WITHOUT ROWID
""",
    """
CREATE TABLE IF NOT EXISTS checked (
    number INTEGER PRIMARY KEY CHECK (number = 0),
    item TEXT NOT NULL,
    stored_at REAL NOT NULL
)
""",
)
_BUSY_SECONDS: Final = 30.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Stored:
    """A state as it is stored."""

    body: bytes
    version: int
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


class LocalStates(Protocol):
    """States by their keys; every method raises `BrainCacheError` when it cannot do its work."""

    place: str

    def get(self, key: str) -> Stored | None:
        """Return the value of a key."""
        ...

    def put(self, key: str, stored: Stored, *, expected: bytes | None) -> bool:
        """Replace the expected value of a key; return False when another one is there."""
        ...

    def discard(self, key: str, *, expected: bytes) -> bool:
        """Remove a key that has the expected value; return False when it has another one."""
        ...

    def keys(self, *, waiting: bool = False) -> list[str]:
        """Return all keys, or those that wait for Redis."""
        ...

    def rewrite(self) -> list[Residue]:
        """Remove the bytes of earlier values; return what could not be reached."""
        ...

    def record(self, deletions: Sequence[Deletion]) -> None:
        """Record deletions before they begin, durably."""
        ...

    def recorded(self) -> list[Deletion]:
        """Return the deletions that were recorded and not finished."""
        ...

    def finish(self, deletions: Sequence[Deletion]) -> None:
        """Forget deletions that are finished."""
        ...

    def watermark(self) -> Watermark | None:
        """Return the watermark of the last check; None before the first one."""
        ...

    def set_watermark(self, watermark: Watermark) -> None:
        """Replace the watermark."""
        ...

    def close(self) -> None:
        """Release the resources."""
        ...


class StatesInProcess:
    """States that end with the process."""

    def __init__(self) -> None:
        self.place = "this process's memory"
        self._states: dict[str, Stored] = {}
        self._deletions: dict[Deletion, None] = {}
        self._watermark: Watermark | None = None
        self._lock = threading.Lock()

    def get(self, key: str) -> Stored | None:
        """Return the value of a key."""
        with self._lock:
            return self._states.get(key)

    def put(self, key: str, stored: Stored, *, expected: bytes | None) -> bool:
        """Replace the expected value of a key."""
        with self._lock:
            found = self._states.get(key)
            if (found.body if found else None) != expected:
                return False
            self._states[key] = stored
            return True

    def remove(self, key: str) -> None:
        """Remove the value of a key."""
        with self._lock:
            self._states.pop(key, None)

    def discard(self, key: str, *, expected: bytes) -> bool:
        """Remove a key that has the expected value."""
        with self._lock:
            found = self._states.get(key)
            if found is None or found.body != expected:
                return False
            del self._states[key]
            return True

    def rewrite(self) -> list[Residue]:
        """Do nothing: no file has them."""
        return []

    def keys(self, *, waiting: bool = False) -> list[str]:
        """Return all keys, or those that wait for Redis."""
        with self._lock:
            return [key for key, stored in self._states.items() if stored.waiting or not waiting]

    def record(self, deletions: Sequence[Deletion]) -> None:
        """Record deletions before they begin."""
        with self._lock:
            self._deletions |= dict.fromkeys(deletions)

    def recorded(self) -> list[Deletion]:
        """Return the deletions that were recorded and not finished."""
        with self._lock:
            return list(self._deletions)

    def finish(self, deletions: Sequence[Deletion]) -> None:
        """Forget deletions that are finished."""
        with self._lock:
            for deletion in deletions:
                self._deletions.pop(deletion, None)

    def watermark(self) -> Watermark | None:
        """Return the watermark of the last check."""
        return self._watermark

    def set_watermark(self, watermark: Watermark) -> None:
        """Replace the watermark."""
        self._watermark = watermark

    def close(self) -> None:
        """Do nothing."""


class StatesInFile:
    """States in a SQLite file; safe to use from several threads and processes."""

    def __init__(self, file: Path, *, durability: Literal["full", "normal"]) -> None:
        self.place = str(file)
        self._db = SidecarDb(file, lambda db: _prepare(db, durability), busy_seconds=_BUSY_SECONDS)

    def _run(self, operation: str, action: Callable[[sqlite3.Connection], T]) -> T:
        return self._translated(operation, lambda: self._db.run(action))

    def _translated(self, operation: str, action: Callable[[], T]) -> T:
        try:
            return action()
        except (sqlite3.Error, OSError, PoolClosedError) as error:
            raise CacheUnavailableError(self.place, operation, str(error)) from error

    def get(self, key: str) -> Stored | None:
        """Return the value of a key."""
        query = "SELECT body, version, waiting FROM states WHERE key = ?"
        row = self._run("read a conversation", lambda db: db.execute(query, (key,)).fetchone())
        return None if row is None else Stored(body=row[0], version=row[1], waiting=bool(row[2]))

    def put(self, key: str, stored: Stored, *, expected: bytes | None) -> bool:
        """Replace the expected value of a key, durably."""
        values = (stored.version, stored.waiting, stored.body, key)
        if expected is None:
            statement = "INSERT INTO states (version, waiting, body, key) VALUES (?, ?, ?, ?) ON CONFLICT DO NOTHING"
        else:
            statement = "UPDATE states SET version = ?, waiting = ?, body = ? WHERE key = ? AND body = ?"
            values = (*values, expected)  # type: ignore[assignment]
        return self._run("keep a conversation", lambda db: db.execute(statement, values).rowcount == 1)

    def discard(self, key: str, *, expected: bytes) -> bool:
        """Remove a key that has the expected value, durably."""
        statement = "DELETE FROM states WHERE key = ? AND body = ?"
        return self._run("remove a conversation", lambda db: db.execute(statement, (key, expected)).rowcount == 1)

    def rewrite(self) -> list[Residue]:
        """Rewrite the file, so that nothing of earlier values is left in it."""
        return self._translated("rewrite the file", self._db.rewrite)

    def keys(self, *, waiting: bool = False) -> list[str]:
        """Return all keys, or those that wait for Redis."""
        query = "SELECT key FROM states WHERE waiting >= ? ORDER BY key"
        return self._run(
            "list the conversations", lambda db: [row[0] for row in db.execute(query, (int(waiting),)).fetchall()]
        )

    def record(self, deletions: Sequence[Deletion]) -> None:
        """Record deletions before they begin; durable when it returns."""
        statement = "INSERT INTO deletions (key, item) VALUES (?, ?) ON CONFLICT DO NOTHING"
        self._run("record a deletion", lambda db: _run_each(db, statement, deletions))

    def recorded(self) -> list[Deletion]:
        """Return the deletions that were recorded and not finished."""
        rows = self._run("read the deletions", lambda db: db.execute("SELECT key, item FROM deletions").fetchall())
        return [Deletion(*row) for row in rows]

    def finish(self, deletions: Sequence[Deletion]) -> None:
        """Forget deletions that are finished."""
        statement = "DELETE FROM deletions WHERE key = ? AND item = ?"
        self._run("finish a deletion", lambda db: _run_each(db, statement, deletions))

    def watermark(self) -> Watermark | None:
        """Return the watermark of the last check; None before the first one."""
        row = self._run("read the watermark", lambda db: db.execute("SELECT item, stored_at FROM checked").fetchone())
        return None if row is None else Watermark(*row)

    def set_watermark(self, watermark: Watermark) -> None:
        """Replace the watermark."""
        statement = "INSERT OR REPLACE INTO checked (number, item, stored_at) VALUES (0, ?, ?)"
        values = (watermark.item, watermark.stored_at)
        self._run("keep the watermark", lambda db: db.execute(statement, values))

    def close(self) -> None:
        """Release the file."""
        self._db.close()


def _prepare(db: sqlite3.Connection, durability: Literal["full", "normal"]) -> None:
    db.execute("PRAGMA journal_mode = WAL")
    db.execute(f"PRAGMA synchronous = {durability.upper()}")
    for statement in _SCHEMA:
        db.execute(statement)


def _run_each(db: sqlite3.Connection, statement: str, deletions: Sequence[Deletion]) -> None:
    rows = [(deletion.key, deletion.item) for deletion in deletions]
    write_transaction(db, lambda: db.executemany(statement, rows))


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

    def rewrite(self) -> list[Residue]:
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
