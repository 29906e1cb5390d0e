"""Further values of a store: the table `states`."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Protocol, TypeVar

from devmem.storage.protocol import StateKey
from devmem.storage.tables import StoreTables

T = TypeVar("T")


class Transaction(Protocol):
    """Runs an operation in a transaction on the tables of a store."""

    def __call__(self, operation: Callable[[StoreTables], T], /) -> T:
        """Run it."""
        ...


class StoredStates:
    """The values of a store; see `StateTable`."""

    def __init__(
        self, reading: Transaction, writing: Transaction, exclusive: Callable[[str], AbstractContextManager[None]]
    ) -> None:
        """Take what runs an operation in a read and in a write transaction, and what excludes other processes."""
        self._reading, self._writing, self._exclusive = reading, writing, exclusive

    def get(self, keys: Sequence[StateKey]) -> dict[StateKey, bytes]:
        """Return the values that are there, as of one moment."""
        return self._reading(lambda tables: _values(tables, keys))

    def names(self, kind: str) -> list[str]:
        """Return the names of all values of a kind, in order."""
        return [name for name, _ in self._all(kind, "NULL")]

    def scan(self, kind: str) -> Iterator[tuple[str, bytes]]:
        """Return all values of a kind with their names, in the order of these, as of one moment."""
        return ((name, bytes(value)) for name, value in self._all(kind, "value"))

    def _all(self, kind: str, column: str) -> list[tuple[str, bytes]]:
        def read(tables: StoreTables) -> list[tuple[str, bytes]]:
            query = f"SELECT name, {column} FROM states WHERE {tables.of} AND kind = ? ORDER BY name"
            return [(name, value) for name, value in tables.execute(query, (kind,))]

        return self._reading(read)

    def exclusive(self, purpose: str) -> AbstractContextManager[None]:
        """Exclude every other process that names the same purpose until the block ends."""
        return self._exclusive(purpose)

    def write(
        self, values: Mapping[StateKey, bytes | None], *, expected: Mapping[StateKey, bytes | None] | None = None
    ) -> bool:
        """Write values in one transaction, if those that are expected are there; return whether they were."""

        def write(tables: StoreTables) -> bool:
            there = _values(tables, list(expected or ()))
            if any(there.get(key) != value for key, value in (expected or {}).items()):
                return False
            into, own = tables.dialect.into, tables.dialect.own
            gone = [key for key, value in values.items() if value is None]
            tables.change_many(f"DELETE FROM states WHERE {tables.of} AND kind = ? AND name = ?", gone)
            tables.change_many(
                f"INSERT INTO states({into}kind, name, value) VALUES ({own}?, ?, ?) "
                f"ON CONFLICT ({into}kind, name{tables.dialect.tail}) DO UPDATE SET value = excluded.value",
                [(*key, value) for key, value in values.items() if value is not None],
            )
            return True

        return self._writing(write)


def _values(tables: StoreTables, keys: Sequence[StateKey]) -> dict[StateKey, bytes]:
    found: dict[StateKey, bytes] = {}
    for kind in dict.fromkeys(kind for kind, _ in keys):
        among, names = tables.dialect.among("name", [name for of, name in keys if of == kind])
        query = f"SELECT name, value FROM states WHERE {tables.of} AND kind = ? AND {among}"
        found |= {(kind, name): bytes(value) for name, value in tables.execute(query, (kind, *names))}
    return found
