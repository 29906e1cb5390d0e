"""Erasing items with every version: what is erased is recorded first, so that whoever opens the store finishes it."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final
from uuid import UUID

from devmem.model.items import MemoryItem
from devmem.storage.erasure import FOREVER, EraseRequest, EraseResult, Residue, descendants
from devmem.storage.postgres import rows
from devmem.storage.postgres.database import Connection, composed, read_text, stored_text
from devmem.storage.postgres.predicates import where_sql
from devmem.storage.postgres.reader import PostgresReader
from devmem.storage.postgres.runs import forget_runs, runs_of_items, runs_of_versions
from devmem.storage.postgres.server.maintenance import IndexSteps, clean_indexes, note_erasure
from devmem.storage.postgres.version_writer import CurrentVersionWriter, remove_versions
from devmem.storage.sql import Sql

PARENTS: Final = '"parents":["'
"""Begins the parents of an item in its body."""
_OUT_OF_REACH: Final = (
    "the server keeps deleted rows in its files until it vacuums them, and what the service keeps in logs, replicas "
    "and backups is out of reach"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Found:
    """A stored version."""

    row: int
    key: UUID
    item: MemoryItem
    is_current: bool


class PostgresEraser(PostgresReader):
    """The methods of `ErasableCollection`."""

    @abstractmethod
    def _version_writer(self, connection: Connection, run: str | None = None) -> CurrentVersionWriter:
        """Return the version writer of a write transaction."""

    def select_erasable(self, erasing: EraseRequest) -> list[MemoryItem]:
        """Return the selected items, expired ones included, and one version of those that are no longer there."""
        chosen: dict[UUID, MemoryItem] = {}
        for found in self._read(lambda connection: self._find(connection, erasing)):
            if found.is_current or found.key not in chosen:
                chosen[found.key] = found.item
        return self._with_attachments(list(chosen.values()))

    def derived_from(self, ids: Sequence[str]) -> list[MemoryItem]:
        """Return the items that were derived from some items, or from such items."""
        clause: Sql = ("strpos(body, %s) > 0", [PARENTS])
        found = self._read(lambda connection: list(self._versions(connection, clause)))
        return self._with_attachments(descendants([each.item for each in found], ids))

    def begin_erasure(self, erasing: EraseRequest, derived: Sequence[str] = ()) -> list[str]:
        """Record durably what is erased from now on, and return its ids."""

        def begin(connection: Connection) -> list[str]:
            self._version_writer(connection)
            found = self._find(connection, erasing)
            query = "SELECT id_key FROM items WHERE store = %s AND id_key = ANY(%s)"
            there = {key for (key,) in connection.execute(query, (self._store, [each.key for each in found]))}
            whole = {each.key: each.item.id for each in found if each.is_current or each.key not in there}
            ids = list(dict.fromkeys((*whole.values(), *derived)))
            insert = "INSERT INTO erasures(store, id, row) VALUES (%s, %s, %s)"
            with connection.cursor() as cursor:
                cursor.executemany(insert, [(self._store, stored_text(each), None) for each in ids])
                cursor.executemany(insert, [(self._store, None, each.row) for each in found if each.key not in whole])
            return ids

        return self._database.write(begin)

    def planned_erasure(self) -> list[str] | None:
        """Return the ids of an erasure that has begun and not ended; None without one."""
        found = self._fetch("SELECT id FROM erasures WHERE store = %s", [self._store])
        return [read_text(name) or "" for (name,) in found if name is not None] if found else None

    def finish_erasure(self, words: Sequence[str] = (), *, vacuum: bool = False) -> EraseResult:  # noqa: ARG002 - no files
        """Remove what is planned, with every version, and from the indexes in the database whatever is not there.

        The items are removed in one transaction; the indexes are cleaned after it, step by step, for which nobody
        waits. The files of the server are out of reach.
        """

        def finish(connection: Connection) -> int:
            version_writer = self._version_writer(connection)
            query = "DELETE FROM erasures WHERE store = %s RETURNING id, row"
            planned = connection.execute(query, (self._store,)).fetchall()
            keys = [rows.key_of(read_text(name) or "") for name, _ in planned if name is not None]
            erased: Sql = ("id_key = ANY(%s) OR row = ANY(%s)", [keys, [row for _, row in planned if row is not None]])
            runs = runs_of_versions(connection, self._store, *erased)
            runs |= runs_of_items(connection, self._store, "id_key = ANY(%s)", [keys])
            items = version_writer.remove("id_key = ANY(%s)", [keys])
            remove_versions(connection, self._store, *erased)
            forget_runs(connection, self._store, runs)
            if planned:
                # What was planned may have been deleted before: nothing but the indexes has something of it then.
                note_erasure(connection, self._store)
            return items

        items = self._database.write(finish)
        # Hashes of terms and codes of vectors tell what a text was about.
        clean_indexes(IndexSteps(self._database, self.location, self._store))
        self._searcher.note(deleted=items)
        return EraseResult(items=items, unreached=(Residue(place=self.location, reason=_OUT_OF_REACH),))

    def _find(self, connection: Connection, erasing: EraseRequest) -> list[_Found]:
        """Return the selected versions, current ones first."""
        condition, values = where_sql(erasing.where, FOREVER)
        if erasing.ids is not None:
            condition, values = f"({condition}) AND id_key = ANY(%s)", [*values, [*map(rows.key_of, erasing.ids)]]
        if erasing.run is not None:
            run = stored_text(erasing.run)
            condition, values = f"({condition}) AND (run = %s OR change_run = %s)", [*values, run, run]
        return [each for each in self._versions(connection, (condition, values)) if erasing.contains_text(each.item)]

    def _versions(self, connection: Connection, clause: Sql) -> Iterator[_Found]:
        condition, values = clause
        for table in ("items", "versions"):
            query = composed(
                f"SELECT row, id_key, body FROM {table} WHERE store = %s AND {condition} ORDER BY {table}.row"
            )
            for row, key, body in connection.execute(query, (self._store, *values)).fetchall():
                yield _Found(row=row, key=key, item=rows.item_from(body), is_current=table == "items")
