"""The runs of a SQLite file: where their rows and their changes are."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Sequence
from typing import Final

from devmem.collections.attachments import AttachmentFiles
from devmem.collections.runs import PendingVersion, RunRow, Runs
from devmem.collections.sqlite.history import RECORDED_FROM
from devmem.collections.sqlite.pending import OF_RUN
from devmem.collections.sqlite.recorder import remove_versions
from devmem.collections.sqlite.rows import read_text, sql_text
from devmem.model.versions import Operation, RunState

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
_FORGET: Final = (
    f"DELETE FROM runs WHERE run = ?1 AND state <> '{RunState.PENDING.value}' "
    f"AND NOT EXISTS ({TOUCHED.format(run='?1')})"
)
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
    """Remove the rows of those runs that have ended, and of which no change is kept any more."""
    connection.executemany(_FORGET, [(run,) for run in runs])
