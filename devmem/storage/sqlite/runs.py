"""The runs of a SQLite file: where their rows and their changes are."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterable, Sequence
from typing import Final, TypeVar

from devmem.model.caller import current_actor
from devmem.model.items import MemoryItem
from devmem.model.versions import Operation, RunState
from devmem.storage.attachments import AttachmentFiles
from devmem.storage.runs import PendingVersion, RunRow, Runs, VersionEnd
from devmem.storage.sqlite import rows
from devmem.storage.sqlite.predicates import RECORDED_FROM
from devmem.storage.sqlite.rows import read_text, sql_text
from devmem.storage.sqlite.version_writer import prune_changes, remove_versions
from devmem.storage.sqlite.view import COLUMNS, create_items_view
from devmem.storage.writing import PreparedItem

T = TypeVar("T")

OF_RUN: Final = "change_run = ? AND recorded_until IS NULL"
"""Selects the versions of a pending run."""
_HIDE: Final = (
    f"INSERT INTO versions({rows.ITEM_COLUMNS}, operation, change_run, change_actor, base) "
    f"SELECT ?, {rows.ITEM_COLUMNS.removeprefix('row, ')}, '{Operation.FORGET.value}', ?, ?, row FROM main.items "
    "WHERE row = ?"
)
_OWN: Final = (
    "SELECT base IS NOT NULL OR EXISTS (SELECT 1 FROM main.items WHERE items.id = versions.id) FROM main.versions "
    "WHERE row = ? AND recorded_until IS NULL"
)
"""Selects whether there is an item of others behind a pending version, which deleting this one must not show again.

The row that the version replaces stays recorded, so that a commit sees what others changed meanwhile.
"""
_MARK_DELETED: Final = f"UPDATE versions SET operation = '{Operation.FORGET.value}', change_actor = ? WHERE row = ?"


def run_items_query(run: str) -> str:
    """Return the query of the items as a pending run sees them: its own, and those of others that it did not change."""
    own = f"change_run = {rows.text_sql(run)} AND recorded_until IS NULL"
    return (
        f"SELECT {COLUMNS}, recorded_from FROM main.items WHERE id NOT IN (SELECT id FROM main.versions WHERE {own}) "
        f"UNION ALL SELECT {COLUMNS}, recorded_from FROM main.versions WHERE {own} "
        f"AND operation <> '{Operation.FORGET.value}'"
    )


def within_run(connection: sqlite3.Connection, run: str, operation: Callable[[], T]) -> T:
    """Run an operation of a write transaction in which `items` means those that a pending run sees."""
    create_items_view(connection, run_items_query(run))
    # Where the operation raises, the rollback takes the view away.
    result = operation()
    connection.execute("DROP VIEW temp.items")
    return result


class RunVersionWriter:
    """Changes the items that a pending run sees; see `VersionWriter`. Used within `within_run`."""

    def __init__(self, connection: sqlite3.Connection, attachments: AttachmentFiles | None, run: str) -> None:
        self.connection, self.attachments, self._run = connection, attachments, rows.sql_text(run) or ""
        self._actor = rows.sql_text(current_actor().name)

    def insert(self, prepared: PreparedItem, body: MemoryItem, *, waiting: bool, operation: Operation) -> list[int]:  # noqa: ARG002 - what it is among all items
        """Insert a version of the run in the place of the one that it has of the item."""
        base = self._take_back(f"id = ? AND {OF_RUN}", rows.sql_text(prepared.item.id))
        return rows.insert_pending(
            self.connection,
            prepared,
            waiting=waiting,
            row=_next_row(self.connection),
            body=body,
            operation=(Operation.ADD if base is None else Operation.UPDATE).value,
            run=self._run,
            actor=self._actor,
            base=base,
        )

    def end(self, condition: str, values: Sequence[object], ending: VersionEnd) -> int:  # noqa: ARG002 - decided on commit
        """Hide items from the run."""
        found = self.connection.execute(f"SELECT row FROM items WHERE {condition}", tuple(values)).fetchall()
        for (row,) in found:
            self._hide(row)
        if found:
            prune_changes(self.connection)
        return len(found)

    def _hide(self, row: int) -> None:
        """Hide an item, or a version that the run wrote of it."""
        own = self.connection.execute(_OWN, (row,)).fetchone()
        if own is None:
            self.connection.execute(_HIDE, (_next_row(self.connection), self._run, self._actor, row))
        elif own[0]:
            self.connection.execute(_MARK_DELETED, (self._actor, row))
        else:
            self._take_back(f"row = ? AND {OF_RUN}", row)
        self.connection.execute("INSERT INTO changes(row, kind) VALUES (?, 'hidden')", (row,))

    def remove(self, condition: str, values: Sequence[object]) -> int:
        """Hide items from the run."""
        return self.end(condition, values, VersionEnd(operation=Operation.FORGET))

    def stamp(self, now: float) -> None:
        """Do nothing: what a run writes is recorded when it is committed."""

    def count(self) -> int:
        """Return the number of items."""
        return int(self.connection.execute("SELECT count(*) FROM items").fetchone()[0])

    def purge(self) -> None:
        """Do nothing: what others see is not the run's to remove."""

    def _take_back(self, condition: str, value: object) -> int | None:
        """Remove a version of the run, if it has that; return the row of the item that it replaces."""
        values = [value, self._run]
        found = self.connection.execute(f"SELECT base FROM versions WHERE {condition}", values).fetchone()
        remove_versions(self.connection, self.attachments, condition, values)
        return None if found is None else found[0]


def _next_row(connection: sqlite3.Connection) -> int:
    """Return a row number that no item has or will have."""
    counted = "UPDATE sqlite_sequence SET seq = seq + 1 WHERE name = 'items'"
    if connection.execute(counted).rowcount == 0:
        connection.execute("INSERT INTO sqlite_sequence(name, seq) VALUES ('items', 1)")
    return int(connection.execute("SELECT seq FROM sqlite_sequence WHERE name = 'items'").fetchone()[0])


TOUCHED: Final = (
    "SELECT id FROM main.items WHERE change_run = {run} UNION SELECT id FROM main.versions WHERE change_run = {run} "
    "UNION SELECT id FROM main.versions WHERE end_run = {run}"
)
"""Selects the ids of the items that a run changed, or is about to."""
_CHANGES: Final = (
    f"SELECT change_run AS run, {RECORDED_FROM} AS at FROM items WHERE change_run {{which}} "
    "UNION ALL SELECT change_run, recorded_from FROM versions WHERE change_run {which} AND recorded_until IS NOT NULL "
    "UNION ALL SELECT end_run, recorded_until FROM versions WHERE end_run {which}"
)
_SPAN: Final = f"SELECT min(at), max(at) FROM ({_CHANGES.format(which='= ?1')})"
_NEVER_PENDING: Final = (
    f"SELECT run, min(at), max(at) FROM ({_CHANGES.format(which='IS NOT NULL')}) "
    "WHERE run NOT IN (SELECT run FROM runs) GROUP BY run ORDER BY 2 DESC, run LIMIT ?"
)
_CONFLICTS: Final = (
    "SELECT own.id FROM versions AS own LEFT JOIN items ON items.id = own.id "
    "WHERE own.change_run = ? AND own.recorded_until IS NULL AND items.row IS NOT own.base "
    f"AND NOT (own.operation = '{Operation.FORGET.value}' AND items.row IS NULL) ORDER BY own.row"
)
_OF_ITEMS: Final = "SELECT change_run FROM items WHERE {0}"
_OF_VERSIONS: Final = "SELECT change_run FROM versions WHERE {0} UNION SELECT end_run FROM versions WHERE {0}"
_FORGET: Final = f"DELETE FROM runs WHERE run = ?1 AND NOT EXISTS ({TOUCHED.format(run='?1')})"
_COLUMNS: Final = "run, state, actor, started_at, ended_at, committed_at"
_PENDING: Final = f"SELECT row, operation, base, change_actor FROM versions WHERE {OF_RUN} ORDER BY row"


class SqliteRuns(Runs):
    """The runs of a file."""

    def __init__(self, connection: sqlite3.Connection, attachments: AttachmentFiles | None, location: str) -> None:
        """Take a connection in a transaction, the attachments of the file, and its place."""
        super().__init__(location)
        self.connection, self._attachments = connection, attachments

    def lock(self, run: str) -> None:
        """Do nothing: one transaction writes at a time."""

    def end(self, run: str, state: RunState, at: int) -> None:
        """Record that a run is in a state since a recorded time."""
        committed_at = at if state is RunState.COMMITTED else None
        query = "UPDATE runs SET state = ?, ended_at = ?, committed_at = COALESCE(?, committed_at) WHERE run = ?"
        self.connection.execute(query, (state.value, at, committed_at, sql_text(run)))

    def conflicts(self, run: str) -> list[str]:
        """Return the ids of the items that others changed since a pending run did."""
        return [read_text(found) or "" for (found,) in self.connection.execute(_CONFLICTS, (sql_text(run),))]

    def pending(self, run: str) -> list[PendingVersion]:
        """Return the versions that a pending run wrote, oldest first."""
        found = self.connection.execute(_PENDING, (sql_text(run),)).fetchall()
        return [
            PendingVersion(row=row, operation=Operation(operation), base=base, actor=read_text(actor))
            for row, operation, base, actor in found
        ]

    def remove_pending(self, run: str) -> None:
        """Remove the versions that a pending run wrote."""
        remove_versions(self.connection, self._attachments, OF_RUN, [sql_text(run)])

    def span(self, run: str) -> tuple[int, int] | None:
        """Return the recorded times of a run's first and last committed change."""
        first, last = self.connection.execute(_SPAN, (sql_text(run),)).fetchone()
        return None if first is None else (first, last)

    def _row(self, run: str) -> RunRow | None:
        found = self.connection.execute(f"SELECT {_COLUMNS} FROM runs WHERE run = ?", (sql_text(run),)).fetchone()
        return None if found is None else RunRow.read(found, read_text)

    def _insert(self, row: RunRow) -> None:
        values = (sql_text(row.run), row.state.value, sql_text(row.actor), row.started, row.ended, row.committed)
        self.connection.execute(f"INSERT OR IGNORE INTO runs({_COLUMNS}) VALUES (?, ?, ?, ?, ?, ?)", values)

    def _newest(self, limit: int) -> list[RunRow]:
        query = f"SELECT {_COLUMNS} FROM runs ORDER BY started_at DESC, run LIMIT ?"
        return [RunRow.read(found, read_text) for found in self.connection.execute(query, (limit,)).fetchall()]

    def _never_pending(self, limit: int) -> list[tuple[str, int, int]]:
        found = self.connection.execute(_NEVER_PENDING, (limit,)).fetchall()
        return [(read_text(run) or "", first, last) for run, first, last in found]

    def _count_changes(self, run: str) -> int:
        query = f"SELECT count(*) FROM ({TOUCHED.format(run='?1')})"
        return int(self.connection.execute(query, (sql_text(run),)).fetchone()[0])


def runs_of_items(connection: sqlite3.Connection, condition: str, values: Sequence[object]) -> set[str]:
    """Return the runs, as the tables name them, that wrote the current items which match a condition."""
    found = connection.execute(_OF_ITEMS.format(condition), tuple(values))
    return {run for (run,) in found if run is not None}


def runs_of_versions(connection: sqlite3.Connection, condition: str, values: Sequence[object]) -> set[str]:
    """Return the runs, as the tables name them, that began or ended the versions which match a condition."""
    found = connection.execute(_OF_VERSIONS.format(condition), (*values, *values))
    return {run for (run,) in found if run is not None}


def forget_runs(connection: sqlite3.Connection, runs: Iterable[str]) -> None:
    """Remove the rows of those runs of which no change is kept any more; their names and actors say who was there.

    A pending one begins again with what it writes next.
    """
    connection.executemany(_FORGET, [(run,) for run in runs])
