"""Further values of a store, in its file: the table `states`."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Protocol, TypeVar

from devmem.storage.protocol import StateKey

T = TypeVar("T")


class Transaction(Protocol):
    """Runs an operation in a transaction of the database."""

    def __call__(self, operation: Callable[[sqlite3.Connection], T], /) -> T:
        """Run it."""
        ...


class SqliteStates:
    """The values of a store; see `StateTable`."""

    def __init__(
        self, read: Transaction, write: Transaction, exclusive: Callable[[str], AbstractContextManager[None]]
    ) -> None:
        """Take what runs an operation in a read and in a write transaction, and what excludes other processes."""
        self._read, self._write, self._exclusive = read, write, exclusive

    def get(self, keys: Sequence[StateKey]) -> dict[StateKey, bytes]:
        """Return the values that are there, as of one moment."""

        def read(connection: sqlite3.Connection) -> dict[StateKey, bytes]:
            return {key: value for key in keys if (value := _value(connection, key)) is not None}

        return self._read(read)

    def names(self, kind: str) -> list[str]:
        """Return the names of all values of a kind, in order."""
        query = "SELECT name FROM states WHERE kind = ? ORDER BY name"
        return self._read(lambda connection: [name for (name,) in connection.execute(query, (kind,))])

    def scan(self, kind: str) -> Iterator[tuple[str, bytes]]:
        """Return all values of a kind with their names, in the order of these, as of one moment."""
        query = "SELECT name, value FROM states WHERE kind = ? ORDER BY name"
        return iter(self._read(lambda connection: connection.execute(query, (kind,)).fetchall()))

    def exclusive(self, purpose: str) -> AbstractContextManager[None]:
        """Exclude every other process that names the same purpose until the block ends."""
        return self._exclusive(purpose)

    def write(
        self, values: Mapping[StateKey, bytes | None], *, expected: Mapping[StateKey, bytes | None] | None = None
    ) -> bool:
        """Write values in one transaction, if those that are expected are there; return whether they were."""

        def write(connection: sqlite3.Connection) -> bool:
            if any(_value(connection, key) != value for key, value in (expected or {}).items()):
                return False
            for key, value in values.items():
                if value is None:
                    connection.execute("DELETE FROM states WHERE kind = ? AND name = ?", key)
                else:
                    connection.execute("INSERT OR REPLACE INTO states VALUES (?, ?, ?)", (*key, value))
            return True

        return self._write(write)


def _value(connection: sqlite3.Connection, key: StateKey) -> bytes | None:
    found = connection.execute("SELECT value FROM states WHERE kind = ? AND name = ?", key).fetchone()
    return None if found is None else bytes(found[0])
