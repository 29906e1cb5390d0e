"""Erasing items with every version, and the tombstones that keep them out.

What is erased is recorded first, so that whoever opens the store finishes it. Tombstones are values of the store beside
its items, which a dump of the database has too.
"""

from __future__ import annotations

import json
from abc import abstractmethod
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final
from uuid import UUID, uuid4

from devmem.model.items import MemoryItem
from devmem.storage import tombstones
from devmem.storage.erasure import (
    FOREVER,
    ErasePlan,
    EraseRequest,
    EraseResult,
    Residue,
    descendants,
)
from devmem.storage.postgres import rows
from devmem.storage.postgres.database import Connection, composed, read_text, stored_text
from devmem.storage.postgres.predicates import DIALECT
from devmem.storage.postgres.reader import PostgresReader
from devmem.storage.postgres.rows import key_of
from devmem.storage.postgres.runs import PostgresTables
from devmem.storage.postgres.version_writer import CurrentVersionWriter, forget_terms, remove_versions
from devmem.storage.runs import Runs
from devmem.storage.sql import PARENTS, Sql
from devmem.storage.tombstones import Mark, Tombstone, marks_of, new_key, owner_of

_OUT_OF_REACH: Final = (
    "the server keeps deleted rows in its files until it vacuums them, and what the service keeps in logs, replicas "
    "and backups is out of reach"
)


_BEGIN: Final = (
    "INSERT INTO erasures(store, id, row, place, plan, backend, backend_start) "
    "SELECT %s, named.id, named.row, named.place, %s, pid, backend_start FROM pg_stat_activity, "
    "unnest(%s::text[], %s::bigint[]) WITH ORDINALITY AS named(id, row, place) WHERE pid = pg_backend_pid()"
)
# What others planned of the same is done, too.
_END: Final = "DELETE FROM erasures WHERE store = %s AND (plan = %s OR id = ANY(%s) OR row = ANY(%s))"
_PLANS: Final = (
    # Another user's sessions show no start, and a pooler's go on when their client is gone.
    "SELECT plan, id, row, session.pid IS NOT NULL FROM erasures LEFT JOIN pg_stat_activity AS session "
    "ON session.pid = backend AND COALESCE(session.backend_start, erasures.backend_start) = erasures.backend_start "
    "AND at > now() - interval '10 minutes' WHERE store = %s ORDER BY plan, place"
)


def _plans(connection: Connection, store: int) -> list[ErasePlan]:
    """Return the plans that a store records."""
    found: dict[UUID, list[tuple[str | None, int | None, bool]]] = {}
    for plan, *rest in connection.execute(_PLANS, (store,)).fetchall():
        found.setdefault(plan, []).append(tuple(rest))
    return [
        ErasePlan(
            id=plan.hex,
            ids=tuple(read_text(name) or "" for name, _, _ in parts if name is not None),
            rows=tuple(row for _, row, _ in parts if row is not None),
            is_executed=any(is_executed for *_, is_executed in parts),
        )
        for plan, parts in found.items()
    ]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Found:
    """A stored version."""

    row: int
    key: UUID
    id: str
    item: MemoryItem
    is_current: bool


class PostgresEraser(PostgresReader):
    """The methods of `ErasableCollection`."""

    @abstractmethod
    def _version_writer(self, connection: Connection, run: str | None = None) -> CurrentVersionWriter:
        """Return the version writer of a write transaction."""

    @abstractmethod
    def _tables(self, connection: Connection) -> PostgresTables:
        """Return the tables of versions, within a transaction."""

    def select_erasable(self, request: EraseRequest) -> list[MemoryItem]:
        """Return the selected items, expired ones included, and one version of those that are no longer there."""
        chosen: dict[UUID, MemoryItem] = {}
        current: set[UUID] = set()
        for found in self._read(lambda connection: self._find(connection, request)):
            current |= {found.key} if found.is_current else set()
            # Of what is gone, or in the archive, the last version.
            if found.is_current or found.key not in current:
                chosen[found.key] = found.item
        return self._with_attachments(list(chosen.values()))

    def derived_from(self, ids: Sequence[str]) -> list[MemoryItem]:
        """Return the items that were derived from some items, or from such items."""
        clause: Sql = ("strpos(body, %s) > 0", [PARENTS])
        found = self._read(lambda connection: list(self._versions(connection, clause)))
        return self._with_attachments(descendants([each.item for each in found], ids))

    def begin_erasure(self, request: EraseRequest, derived: Sequence[str] = ()) -> ErasePlan:
        """Record durably what is erased from now on."""

        def begin(connection: Connection) -> ErasePlan:
            plan = self._plan(connection, request, derived)
            ids = [*map(stored_text, plan.ids), *(None for _ in plan.rows)]
            versions = [*(None for _ in plan.ids), *plan.rows]
            connection.execute(_BEGIN, (self._store, UUID(plan.id), ids, versions))
            return plan

        return self._database.write(begin)

    def _plan(self, connection: Connection, request: EraseRequest, derived: Sequence[str]) -> ErasePlan:
        found = self._find(connection, request)
        there = self._current_keys(connection, [each.key for each in found])
        whole = {each.key: each.id for each in found if each.is_current or each.key not in there}
        ids = tuple(dict.fromkeys((*whole.values(), *derived)))
        counted = {one for plan in _plans(connection, self._store) if plan.is_executed for one in plan.ids}
        keys = [rows.key_of(one) for one in ids if one not in counted]
        return ErasePlan(
            ids=ids,
            rows=tuple(each.row for each in found if each.key not in whole),
            items=len(self._current_keys(connection, keys)) + self._count_archived(connection, keys),
        )

    def _current_keys(self, connection: Connection, keys: Sequence[UUID]) -> set[UUID]:
        query = "SELECT id_key FROM items WHERE store = %s AND id_key = ANY(%s)"
        return {key for (key,) in connection.execute(query, (self._store, list(keys)))}

    def _count_archived(self, connection: Connection, keys: Sequence[UUID]) -> int:
        query = "SELECT count(*) FROM versions WHERE store = %s AND archived AND id_key = ANY(%s)"
        return int((connection.execute(query, (self._store, list(keys))).fetchone() or (0,))[0])

    def planned_erasures(self) -> list[ErasePlan]:
        """Return the erasures that have begun and not ended."""
        return self._read(lambda connection: _plans(connection, self._store))

    def withdraw_erasure(self, plan: ErasePlan) -> None:
        """Forget a plan of which nothing was done."""

        def withdraw(connection: Connection) -> None:
            connection.execute(_END, (self._store, UUID(plan.id), [], []))

        self._database.write(withdraw)

    def finish_erasure(
        self,
        plan: ErasePlan,
        words: Sequence[str] = (),  # noqa: ARG002 - no files
        *,
        vacuum: bool = False,  # noqa: ARG002
    ) -> EraseResult:
        """Remove what is planned, with every version, in one transaction; the files of the server are out of reach."""

        def finish(connection: Connection) -> None:
            version_writer = self._version_writer(connection)
            keys = [*map(rows.key_of, plan.ids)]
            erased: Sql = ("id_key = ANY(%s) OR row = ANY(%s)", [keys, list(plan.rows)])
            runs = Runs(self._tables(connection))
            named = runs.naming("versions", *erased) | runs.naming("items", "id_key = ANY(%s)", [keys])
            version_writer.remove("id_key = ANY(%s)", [keys])
            remove_versions(connection, self._store, *erased)
            runs.forget(named)
            ids = [*map(stored_text, plan.ids)]
            connection.execute(_END, (self._store, UUID(plan.id), ids, list(plan.rows)))
            forget_terms(connection, self._store)

        self._database.write(finish)
        return EraseResult(items=plan.items, residues=(Residue(place=self.location, reason=_OUT_OF_REACH),))

    def _find(self, connection: Connection, request: EraseRequest) -> list[_Found]:
        """Return the selected versions, current ones first."""
        condition, values = DIALECT.where(request.where, FOREVER)
        if request.ids is not None:
            condition, values = f"({condition}) AND id_key = ANY(%s)", [*values, [*map(rows.key_of, request.ids)]]
        if request.run is not None:
            run = stored_text(request.run)
            condition, values = f"({condition}) AND (run = %s OR change_run = %s)", [*values, run, run]
        found = self._versions(connection, (condition, values))
        if request.text is None:
            return list(found)
        return [each for each in found if request.contains_text(each.item)]

    def _versions(self, connection: Connection, clause: Sql) -> Iterator[_Found]:
        condition, values = clause
        for table in ("items", "versions"):
            query = composed(
                f"SELECT row, id_key, id, body FROM {table} WHERE store = %s AND {condition} ORDER BY {table}.row"
            )
            for row, key, name, body in connection.execute(query, (self._store, *values)).fetchall():
                item = rows.item_from(row, body)
                yield _Found(row=row, key=key, id=read_text(name) or "", item=item, is_current=table == "items")


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
            stored = StoredTombstones(connection, self._store)
            keys = stored.keys() or (new_key(),)
            marks = {
                mark.digest: mark for item in items for mark in marks_of(keys[0], item, whole_only=item.id in wholes)
            }
            stored.insert(marks.values(), erasure=erasure, at=at)
            stored.set_keys(keys)

        self._database.write(keep)
        return erasure

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
            stored = StoredTombstones(connection, self._store)
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
