"""Values of a store beside its items, in the table `states`."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping
from collections.abc import Collection as Several
from contextlib import closing, contextmanager
from typing import Final, TypeVar

import psycopg

from devmem.collections.postgres.claim import check_store
from devmem.collections.postgres.database import Access, Connection, connect
from devmem.collections.postgres.existence import require_store
from devmem.collections.postgres.failures import translate_errors
from devmem.collections.postgres.locks import key_of_lock, lock, lock_each, lock_shared
from devmem.collections.postgres.rows import key_of
from devmem.collections.postgres.texts import read_text, stored_text
from devmem.collections.postgres.transactions import Database, read_store
from devmem.collections.states import StateKey

T = TypeVar("T")

_LOG: Final = logging.getLogger(__name__)
_SELECT: Final = (
    "SELECT kind, name, value FROM states JOIN unnest(%s::text[], %s::uuid[]) AS wanted(kind, name_key) "
    "USING (kind, name_key) WHERE store = %s"
)
_UPSERT: Final = (
    "INSERT INTO states(store, kind, name_key, name, value) VALUES (%s, %s, %s, %s, %s) "
    "ON CONFLICT (store, kind, name_key) DO UPDATE SET value = excluded.value, version = states.version + 1"
)
_MOST_LOCKS: Final = 64
"""Number of values from which a write excludes all others: the server has room for a limited number of locks."""
_DELETE: Final = "DELETE FROM states WHERE store = %s AND kind = %s AND name_key = %s"


class PostgresStates:
    """The values of one store; `StateTable` documents the methods."""

    def __init__(self, database: Database, access: Access, store: int) -> None:
        self._database, self._access, self._store = database, access, store
        self._location = str(access.location)

    def _read(self, operation: Callable[[Connection], T]) -> T:
        return read_store(self._database, self._location, self._store, operation)

    def get(self, keys: Several[StateKey]) -> dict[StateKey, bytes]:
        """Return the values that are there."""
        return self._read(lambda connection: _read(connection, self._store, keys))

    def names(self, kind: str) -> list[str]:
        """Return the names of all values of a kind."""
        query = "SELECT name FROM states WHERE store = %s AND kind = %s ORDER BY name"
        found = self._read(lambda connection: connection.execute(query, (self._store, kind)).fetchall())
        return [read_text(name) or "" for (name,) in found]

    def scan(self, kind: str) -> Iterator[tuple[str, bytes]]:
        """Return all values of a kind."""
        query = "SELECT name, value FROM states WHERE store = %s AND kind = %s ORDER BY name"
        found = self._read(lambda connection: connection.execute(query, (self._store, kind), binary=True).fetchall())
        return ((read_text(name) or "", value) for name, value in found)

    def write(
        self, values: Mapping[StateKey, bytes | None], *, expected: Mapping[StateKey, bytes | None] | None = None
    ) -> bool:
        """Write values in one transaction."""

        def write(connection: Connection) -> bool:
            check_store(connection, self._location, self._store)
            # Also what is only written, so that no two wait for each other.
            _lock_values(connection, self._store, {*values, *(expected or {})})
            if expected:
                there = _read(connection, self._store, expected)
                if any(there.get(key) != value for key, value in expected.items()):
                    return False
            _write(connection, self._store, values)
            return True

        return self._database.write(write)

    @contextmanager
    def exclusive(self, purpose: str) -> Iterator[None]:
        """Hold an advisory lock on a connection of its own."""
        with translate_errors(self._location):
            connection = connect(self._access)
        lock = (key_of_lock(connection, "exclusive", self._store, purpose),)
        with closing(connection):
            with translate_errors(self._location):
                connection.execute("SET lock_timeout = 0")
                connection.execute("SET statement_timeout = 0")
                connection.execute("SELECT pg_advisory_lock(%s)", lock)
                require_store(connection, self._location, self._store)
            yield
            try:
                connection.execute("SELECT pg_advisory_unlock(%s)", lock)
            except psycopg.Error:
                _LOG.warning(
                    "%s: the connection that excluded others from %s was lost; another process may have done the same "
                    "meanwhile.",
                    self._location, purpose,
                )  # fmt: skip


def _lock_values(connection: Connection, store: int, keys: Several[StateKey]) -> None:
    """Keep others from writing some values until the transaction ends."""
    if len(keys) > _MOST_LOCKS:
        lock(connection, "states", store)
    else:
        lock_shared(connection, "states", store)
        lock_each(connection, [("state", store, *key) for key in keys])


def _read(connection: Connection, store: int, keys: Several[StateKey]) -> dict[StateKey, bytes]:
    kinds, names = [kind for kind, _ in keys], [key_of(name) for _, name in keys]
    found = connection.execute(_SELECT, (kinds, names, store), binary=True).fetchall()
    return {(kind, read_text(name) or ""): value for kind, name, value in found}


def _write(connection: Connection, store: int, values: Mapping[StateKey, bytes | None]) -> None:
    kept = [
        (store, kind, key_of(name), stored_text(name), value)
        for (kind, name), value in values.items()
        if value is not None
    ]
    gone = [(store, kind, key_of(name)) for (kind, name), value in values.items() if value is None]
    with connection.cursor() as cursor:
        if kept:
            cursor.executemany(_UPSERT, kept)
        if gone:
            cursor.executemany(_DELETE, gone)
