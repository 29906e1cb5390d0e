"""Tombstones of a store in PostgreSQL: values of the store beside its items, which a dump of the database has too."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from typing import Any, Final
from uuid import UUID, uuid4

from devmem.model.items import MemoryItem
from devmem.storage import tombstones
from devmem.storage.erasure import EraseResult
from devmem.storage.postgres.claim import check_store
from devmem.storage.postgres.database import Connection
from devmem.storage.postgres.erasing import PostgresEraser
from devmem.storage.postgres.rows import key_of
from devmem.storage.postgres.schema import lock
from devmem.storage.tombstones import Mark, Tombstone, marks_of, new_key, owner_of

_KIND: Final = "tombstone"
_KEYS: Final = "tombstone_keys"
_NAME: Final = "keys"
_SELECT_KEYS: Final = "SELECT value FROM states WHERE store = %s AND kind = %s AND name_key = %s"
_INSERT: Final = (
    "INSERT INTO states(store, kind, name_key, name, value) VALUES (%s, %s, %s, %s, %s) "
    "ON CONFLICT (store, kind, name_key) DO UPDATE SET value = excluded.value, version = states.version + 1"
)


class StoredTombstones:
    """The tombstones of a store, within a transaction."""

    def __init__(self, connection: Connection, store: int) -> None:
        self._connection, self._store = connection, store

    def ask_for_keys(self) -> Any:  # noqa: ANN401 - psycopg's cursor of rows
        """Ask for the keys, also within a pipeline; `keys` reads the answer."""
        return self._connection.execute(_SELECT_KEYS, (self._store, _KEYS, key_of(_NAME)), binary=True)

    def keys(self, asked: Any = None) -> tuple[bytes, ...]:  # noqa: ANN401
        """Return the keys; none where there are no tombstones."""
        found = (asked or self.ask_for_keys()).fetchone()
        return tuple(map(bytes.fromhex, json.loads(bytes(found[0])))) if found else ()

    def erased_among(self, keys: Sequence[bytes], items: Iterable[MemoryItem]) -> frozenset[str]:
        """Return the ids of the items that a tombstone keeps out."""
        return tombstones.erased_items(keys, items, self.lookup) if keys else frozenset()

    def lookup(self, digests: Sequence[bytes]) -> set[bytes]:
        """Return those of some digests that are kept."""
        query = "SELECT name_key FROM states WHERE store = %s AND kind = %s AND name_key = ANY(%s)"
        wanted = [UUID(bytes=digest) for digest in digests]
        return {key.bytes for (key,) in self._connection.execute(query, (self._store, _KIND, wanted)).fetchall()}

    def insert(self, marks: Iterable[Mark], *, erasure: str, at: float) -> None:
        """Keep marks."""
        rows = [
            (
                *(self._store, _KIND, UUID(bytes=mark.digest), mark.digest.hex()),
                json.dumps([mark.owner.hex(), mark.is_whole, erasure, at]).encode(),
            )
            for mark in marks
        ]
        with self._connection.cursor() as cursor:
            cursor.executemany(_INSERT, rows)

    def set_keys(self, keys: Sequence[bytes]) -> None:
        """Record the keys; without any, there are no tombstones."""
        value = json.dumps([key.hex() for key in keys]).encode()
        if keys:
            self._connection.execute(_INSERT, (self._store, _KEYS, key_of(_NAME), _NAME, value))
        else:
            self._connection.execute("DELETE FROM states WHERE store = %s AND kind = %s", (self._store, _KEYS))

    def marks(self) -> list[tuple[UUID, bytes, bool, str, float]]:
        """Return all marks: key, owner, whether of a whole text, erasure, and its time."""
        query = "SELECT name_key, value FROM states WHERE store = %s AND kind = %s"
        found = self._connection.execute(query, (self._store, _KIND), binary=True).fetchall()
        read = ((key, json.loads(bytes(value))) for key, value in found)
        return [(key, bytes.fromhex(owner), whole, erasure, at) for key, (owner, whole, erasure, at) in read]

    def delete(self, keys: Sequence[UUID]) -> None:
        """Delete marks."""
        query = "DELETE FROM states WHERE store = %s AND kind = %s AND name_key = ANY(%s)"
        self._connection.execute(query, (self._store, _KIND, list(keys)))


class PostgresTombstones(PostgresEraser):
    """The methods of `TombstoneCollection`."""

    def keep_tombstones(self, items: Sequence[MemoryItem], *, wholes: Collection[str] = ()) -> str:
        """Record durably that some items are erased; return the id of the erasure."""
        erasure, at = uuid4().hex, self._clock()

        def keep(connection: Connection) -> None:
            stored = self._locked(connection)
            keys = stored.keys() or (new_key(),)
            marks = {
                mark.digest: mark for item in items for mark in marks_of(keys[0], item, whole_only=item.id in wholes)
            }
            stored.insert(marks.values(), erasure=erasure, at=at)
            stored.set_keys(keys)

        self._database.write(keep)
        return erasure

    def _locked(self, connection: Connection) -> StoredTombstones:
        """Return the tombstones, which no other transaction changes meanwhile."""
        check_store(connection, self.location, self._store)
        lock(connection, "tombstones", self._store)
        return StoredTombstones(connection, self._store)

    def tombstones(self, user: str | None = None, *, everybody: bool = True) -> list[Tombstone]:
        """Return the tombstones, oldest first."""

        def read(connection: Connection) -> list[Tombstone]:
            found = self._owned(StoredTombstones(connection, self._store), user, everybody=everybody)
            counts = Counter((erasure, at, whole) for _, _, whole, erasure, at in found)
            return tombstones.listed((*each, count) for each, count in counts.items())

        return self._read(read)

    def _owned(
        self, stored: StoredTombstones, user: str | None, *, everybody: bool
    ) -> list[tuple[UUID, bytes, bool, str, float]]:
        owners = [owner_of(key, user) for key in stored.keys()]  # noqa: SIM118 - no mapping
        return [each for each in stored.marks() if everybody or each[1] in owners]

    def remove_tombstones(
        self, erasures: Sequence[str] | None = None, user: str | None = None, *, everybody: bool = True
    ) -> int:
        """Remove the tombstones of some erasures, or all; return the number of texts that may be stored again."""

        def remove(connection: Connection) -> int:
            stored = self._locked(connection)
            owned = self._owned(stored, user, everybody=everybody)
            found = [each for each in owned if erasures is None or each[3] in erasures]
            stored.delete([key for key, *_ in found])
            if not stored.marks():
                stored.set_keys(())
            return sum(whole for _, _, whole, *_ in found)

        return self._database.write(remove)

    def without_erased(self, text: str, user: str | None) -> str:
        """Return a text without the sentences that a tombstone of the user stands for."""

        def read(connection: Connection) -> str:
            stored = StoredTombstones(connection, self._store)
            keys = stored.keys()
            return tombstones.without_erased(keys, text, user, stored.lookup) if keys else text

        return self._read(read)

    def apply_tombstones(self) -> EraseResult:
        """Do nothing: what is restored into the database has the tombstones of its own time."""
        return EraseResult()
