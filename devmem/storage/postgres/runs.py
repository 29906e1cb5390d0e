"""The runs of a PostgreSQL store: where their rows and their changes are."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final
from uuid import UUID

from devmem.model.caller import current_actor
from devmem.model.versions import Operation, RunState
from devmem.storage.postgres import rows
from devmem.storage.postgres.claim import check_store
from devmem.storage.postgres.database import Connection, composed, read_text, stored_text
from devmem.storage.postgres.inserting import NewItem, Origin, insert_items
from devmem.storage.postgres.rows import RECORDED_FROM, VERSION_TABLES, schema_sql
from devmem.storage.postgres.schema import lock
from devmem.storage.postgres.version_writer import FORGOTTEN, check_run, remove_versions
from devmem.storage.runs import PendingVersion, RunRow, Runs, VersionEnd

OF_RUN: Final = "change_run = %s AND recorded_until IS NULL"
"""Selects the versions of a pending run."""
_BASES: Final = f"SELECT id_key, row, base FROM versions WHERE store = %s AND {OF_RUN} AND "
_HIDE: Final = (
    f"INSERT INTO versions(store, row, {rows.ITEM_COLUMNS}, operation, change_run, change_actor, base) "
    f"SELECT %s, nextval('row_numbers'), {rows.ITEM_COLUMNS}, '{Operation.FORGET.value}', %s, %s, row "
    # Another transaction may have ended one of them since.
    f"FROM (SELECT store, row, {rows.ITEM_COLUMNS} FROM items UNION ALL SELECT store, row, {rows.ITEM_COLUMNS} "
    "FROM versions WHERE recorded_until IS NOT NULL) AS hidden WHERE store = %s AND row = ANY(%s)"
)
_OWN: Final = (
    "SELECT row, base IS NOT NULL OR EXISTS (SELECT FROM {main}.items WHERE items.store = own.store "
    f"AND items.id_key = own.id_key) FROM versions AS own WHERE store = %s AND {OF_RUN} AND row = ANY(%s)"
)
"""Selects rows of a run's versions, and whether there is an item of others behind each, which must not appear again.

The row that the version replaces stays recorded, so that a commit sees what others changed meanwhile.
"""
_MARK_DELETED: Final = (
    f"UPDATE versions SET operation = '{Operation.FORGET.value}', change_actor = %s WHERE store = %s AND row = ANY(%s)"
)


class RunVersionWriter:
    """Changes the items that a pending run sees; see `VersionWriter`. Used on connections of the run's view."""

    def __init__(self, connection: Connection, store: int, run: str, schema: str) -> None:
        self.connection, self.store, self.removed = connection, store, 0
        self._run, self._actor, self._schema = run, current_actor().name, schema

    def tick(self, keys: Sequence[UUID]) -> None:
        """Do nothing: what a run writes is recorded when it is committed."""

    def stamp(self, now: float) -> None:
        """Do nothing likewise."""

    def insert(self, new: Sequence[NewItem]) -> list[int]:
        """Insert versions of the run in the place of those that it has of the items."""
        keys = [rows.key_of(one.item.id) for one in new]
        bases = self._take_back("id_key = ANY(%s)", keys)
        return insert_items(
            self.connection, self.store, new, [self._origin(bases.get(key)) for key in keys], VERSION_TABLES
        )

    def _origin(self, base: int | None) -> Origin:
        operation = Operation.ADD if base is None else Operation.UPDATE
        return Origin(operation.value, self._run, self._actor, base)

    def end(self, condition: str, values: Sequence[object], ending: VersionEnd) -> int:  # noqa: ARG002 - decided on commit
        """Hide items from the run."""
        query = composed(f"SELECT row FROM items WHERE store = %s AND ({condition})")
        found = {row for (row,) in self.connection.execute(query, (self.store, *values))}
        if not found:
            return 0
        names = stored_text(self._run), stored_text(self._actor)
        query = composed(_OWN.format(main=schema_sql(self._schema)))
        own = dict(self.connection.execute(query, (self.store, names[0], list(found))).fetchall())
        marked = [row for row, is_marked in own.items() if is_marked]
        self.connection.execute(composed(_MARK_DELETED), (names[1], self.store, marked))
        self._take_back("row = ANY(%s)", [row for row, is_marked in own.items() if not is_marked])
        others = list(found - own.keys())
        self.connection.execute(composed(_HIDE), (self.store, *names, self.store, others))
        self.connection.execute(
            "INSERT INTO changes(store, row, kind) SELECT %s, row, 'hidden' FROM unnest(%s::bigint[]) AS row",
            (self.store, [*others, *marked]),
        )
        return len(found)

    def remove(self, condition: str, values: Sequence[object]) -> int:
        """Hide items from the run."""
        return self.end(condition, values, FORGOTTEN)

    def purge(self) -> None:
        """Do nothing: what others see is not the run's to remove."""

    def _take_back(self, condition: str, wanted: Sequence[object]) -> dict[UUID, int | None]:
        """Remove versions of the run; return the rows of the items that they replace, by their keys."""
        values = (self.store, stored_text(self._run), list(wanted))
        found = self.connection.execute(composed(_BASES + condition), values).fetchall()
        if found:
            remove_versions(self.connection, self.store, "row = ANY(%s)", [[row for _, row, _ in found]])
        return {key: base for key, _, base in found}


TOUCHED: Final = (
    "SELECT id_key FROM items WHERE store = %(store)s AND change_run = %(run)s "
    "UNION SELECT id_key FROM versions WHERE store = %(store)s AND (change_run = %(run)s OR end_run = %(run)s)"
)
"""Selects the keys of the items that a run changed, or is about to."""
_CHANGES: Final = (
    f"SELECT change_run AS run, {RECORDED_FROM} AS at FROM items WHERE store = %(store)s AND change_run {{which}} "
    "UNION ALL SELECT change_run, recorded_from FROM versions "
    "WHERE store = %(store)s AND change_run {which} AND recorded_until IS NOT NULL "
    "UNION ALL SELECT end_run, recorded_until FROM versions WHERE store = %(store)s AND end_run {which}"
)
_SPAN: Final = f"SELECT min(at), max(at) FROM ({_CHANGES.format(which='= %(run)s')}) AS changes"
_NEVER_PENDING: Final = (
    f"SELECT run, min(at), max(at) FROM ({_CHANGES.format(which='IS NOT NULL')}) AS changes "
    "WHERE run NOT IN (SELECT run FROM runs WHERE store = %(store)s) GROUP BY run ORDER BY 2 DESC, run LIMIT %(limit)s"
)
_CONFLICTS: Final = (
    "SELECT own.id FROM versions AS own LEFT JOIN items ON items.store = own.store AND items.id_key = own.id_key "
    "WHERE own.store = %(store)s AND own.change_run = %(run)s AND own.recorded_until IS NULL "
    "AND items.row IS DISTINCT FROM own.base "
    f"AND NOT (own.operation = '{Operation.FORGET.value}' AND items.row IS NULL) ORDER BY own.row"
)
_OF_ITEMS: Final = "SELECT change_run FROM items WHERE store = %s AND ({0})"
_OF_VERSIONS: Final = (
    "SELECT change_run FROM versions WHERE store = %s AND ({0}) "
    "UNION SELECT end_run FROM versions WHERE store = %s AND ({0})"
)
_FORGET: Final = (
    "DELETE FROM runs WHERE store = %s AND run = ANY(%s) "
    "AND NOT EXISTS (SELECT FROM items WHERE items.store = runs.store AND change_run = runs.run) "
    "AND NOT EXISTS (SELECT FROM versions WHERE versions.store = runs.store AND change_run = runs.run) "
    "AND NOT EXISTS (SELECT FROM versions WHERE versions.store = runs.store AND end_run = runs.run)"
)
_COLUMNS: Final = "run, state, actor, started_at, ended_at, committed_at"
_PENDING: Final = (
    "SELECT row, operation, base, change_actor FROM versions WHERE store = %(store)s AND change_run = %(run)s "
    "AND recorded_until IS NULL ORDER BY row"
)


class PostgresRuns(Runs):
    """The runs of a store."""

    def __init__(self, connection: Connection, store: int, location: str) -> None:
        """Take a connection in a transaction, the number of the store, and its place."""
        super().__init__(location)
        self.connection, self.store = connection, store

    def lock(self, run: str) -> None:
        """Let no other transaction write in a run, or end it, and nobody drop the store."""
        check_store(self.connection, self.location, self.store)
        lock(self.connection, "run", self.store, run)

    def end(self, run: str, state: RunState, at: int) -> None:
        """Record that a run is in a state since a recorded time."""
        committed_at = at if state is RunState.COMMITTED else None
        self.connection.execute(
            "UPDATE runs SET state = %s, ended_at = %s, committed_at = COALESCE(%s, committed_at) "
            "WHERE store = %s AND run = %s",
            (state.value, at, committed_at, self.store, stored_text(run)),
        )

    def conflicts(self, run: str) -> list[str]:
        """Return the ids of the items that others changed since a pending run did."""
        return [read_text(name) or "" for (name,) in self.fetch(_CONFLICTS, run=stored_text(run))]

    def pending(self, run: str) -> list[PendingVersion]:
        """Return the versions that a pending run wrote, oldest first."""
        return [
            PendingVersion(row=row, operation=Operation(operation), base=base, actor=read_text(actor))
            for row, operation, base, actor in self.fetch(_PENDING, run=stored_text(run))
        ]

    def remove_pending(self, run: str) -> None:
        """Remove the versions that a pending run wrote."""
        remove_versions(self.connection, self.store, OF_RUN, [stored_text(run)])

    def span(self, run: str) -> tuple[int, int] | None:
        """Return the recorded times of a run's first and last committed change."""
        ((first, last),) = self.fetch(_SPAN, run=stored_text(run))
        return None if first is None else (first, last)

    def fetch(self, query: str, **values: object) -> list[tuple[Any, ...]]:
        """Return the rows of a query with named values, the store among them."""
        return self.connection.execute(composed(query), {"store": self.store, **values}).fetchall()

    def touched(self, run: str) -> list[Any]:
        """Return the keys of the items that a run changed, or is about to."""
        return [key for (key,) in self.fetch(TOUCHED, run=stored_text(run))]

    def _row(self, run: str) -> RunRow | None:
        query = f"SELECT {_COLUMNS} FROM runs WHERE store = %(store)s AND run = %(run)s"
        found = self.fetch(query, run=stored_text(run))
        return RunRow.read(found[0], read_text) if found else None

    def _insert(self, row: RunRow) -> None:
        check_run(row.run)
        values = (stored_text(row.run), row.state.value, stored_text(row.actor), row.started, row.ended, row.committed)
        self.connection.execute(
            composed(f"INSERT INTO runs(store, {_COLUMNS}) VALUES (%s, %s, %s, %s, %s, %s, %s) ON CONFLICT DO NOTHING"),
            (self.store, *values),
        )

    def _newest(self, limit: int) -> list[RunRow]:
        query = f"SELECT {_COLUMNS} FROM runs WHERE store = %(store)s ORDER BY started_at DESC, run LIMIT %(limit)s"
        return [RunRow.read(found, read_text) for found in self.fetch(query, limit=limit)]

    def _never_pending(self, limit: int) -> list[tuple[str, int, int]]:
        return [(read_text(run) or "", first, last) for run, first, last in self.fetch(_NEVER_PENDING, limit=limit)]

    def _count_changes(self, run: str) -> int:
        ((count,),) = self.fetch(f"SELECT count(*) FROM ({TOUCHED}) AS touched", run=stored_text(run))
        return int(count)


def runs_of_items(connection: Connection, store: int, condition: str, values: Sequence[object]) -> set[str]:
    """Return the runs, as the tables name them, that wrote the current items which match a condition."""
    found = connection.execute(composed(_OF_ITEMS.format(condition)), (store, *values)).fetchall()
    return {run for (run,) in found if run is not None}


def runs_of_versions(connection: Connection, store: int, condition: str, values: Sequence[object]) -> set[str]:
    """Return the runs, as the tables name them, that began or ended the versions which match a condition."""
    found = connection.execute(composed(_OF_VERSIONS.format(condition)), (store, *values) * 2).fetchall()
    return {run for (run,) in found if run is not None}


def forget_runs(connection: Connection, store: int, runs: Iterable[str]) -> None:
    """Remove the rows of those runs of which no change is kept any more; their names and actors say who was there.

    The runs have to be locked: a pending one begins again with what it writes next.
    """
    connection.execute(_FORGET, (store, list(runs)))
