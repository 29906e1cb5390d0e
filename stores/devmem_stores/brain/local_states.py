"""States of conversations on this machine: in a file, or in this process."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal, Protocol, TypeVar

from devmem_stores.brain.errors import CacheUnavailableError

T = TypeVar("T")

_SCHEMA: Final = """
CREATE TABLE IF NOT EXISTS states (
    key TEXT PRIMARY KEY,
    version INTEGER NOT NULL,
    waiting INTEGER NOT NULL,
    body BLOB NOT NULL
) WITHOUT ROWID
"""
_BUSY_SECONDS: Final = 30.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Stored:
    """A state as it is stored."""

    body: bytes
    version: int
    waiting: bool
    """Whether Redis does not have it yet."""


class LocalStates(Protocol):
    """States by their keys; every method raises `BrainCacheError` when it cannot do its work."""

    place: str

    def get(self, key: str) -> Stored | None:
        """Return the value of a key."""
        ...

    def put(self, key: str, stored: Stored, *, expected: bytes | None) -> bool:
        """Replace the expected value of a key; return False when another one is there."""
        ...

    def keys(self, *, waiting: bool = False) -> list[str]:
        """Return all keys, or those that wait for Redis."""
        ...

    def close(self) -> None:
        """Release the resources."""
        ...


class StatesInProcess:
    """States that end with the process."""

    def __init__(self) -> None:
        self.place = "this process's memory"
        self._states: dict[str, Stored] = {}
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

    def keys(self, *, waiting: bool = False) -> list[str]:
        """Return all keys, or those that wait for Redis."""
        with self._lock:
            return [key for key, stored in self._states.items() if stored.waiting or not waiting]

    def close(self) -> None:
        """Do nothing."""


class StatesInFile:
    """States in a SQLite file; safe to use from several threads and processes."""

    def __init__(self, file: Path, *, durability: Literal["full", "normal"]) -> None:
        self.place = str(file)
        self._file, self._durability = file, durability
        self._lock = threading.Lock()
        self._opened: sqlite3.Connection | None = None

    def _run(self, operation: str, action: Callable[[sqlite3.Connection], T]) -> T:
        with self._lock:
            try:
                if self._opened is None:
                    self._opened = self._open()
                return action(self._opened)
            except (sqlite3.Error, OSError) as error:
                raise CacheUnavailableError(self.place, operation, str(error)) from error

    def _open(self) -> sqlite3.Connection:
        self._file.parent.mkdir(parents=True, exist_ok=True)
        opened = sqlite3.connect(self._file, timeout=_BUSY_SECONDS, isolation_level=None, check_same_thread=False)
        try:
            # People's words are in it.
            self._file.chmod(0o600)
            opened.execute("PRAGMA journal_mode = WAL")
            opened.execute(f"PRAGMA synchronous = {self._durability.upper()}")
            opened.execute(_SCHEMA)
        except (sqlite3.Error, OSError):
            opened.close()
            raise
        return opened

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

    def keys(self, *, waiting: bool = False) -> list[str]:
        """Return all keys, or those that wait for Redis."""
        query = "SELECT key FROM states WHERE waiting >= ? ORDER BY key"
        return self._run(
            "list the conversations", lambda db: [row[0] for row in db.execute(query, (int(waiting),)).fetchall()]
        )

    def close(self) -> None:
        """Release the file."""
        with self._lock:
            if self._opened is not None:
                self._opened.close()
                self._opened = None
