"""Pending runs: what they write is kept with the versions, and seen by the run alone, until it is committed."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Sequence
from typing import Final, TypeVar

from devmem.collections.attachments import AttachmentFiles
from devmem.collections.prepared import PreparedItem
from devmem.collections.recorded import Ending
from devmem.collections.sqlite import rows
from devmem.collections.sqlite.recorder import prune_changes, remove_versions
from devmem.collections.sqlite.view import COLUMNS, show
from devmem.model.acting import current_actor
from devmem.model.items import MemoryItem
from devmem.model.versions import Operation

T = TypeVar("T")

OF_RUN: Final = "change_run = ? AND recorded_until IS NULL"
"""Selects the versions of a pending run."""
_HIDE: Final = (
    f"INSERT INTO versions({rows.ITEM_COLUMNS}, operation, change_run, change_actor, base) "
    f"SELECT ?, {rows.ITEM_COLUMNS.removeprefix('row, ')}, '{Operation.FORGET.value}', ?, ?, row FROM main.items "
    "WHERE row = ?"
)


def items_of_run(run: str) -> str:
    """Return the query of the items as a pending run sees them: its own, and those of others that it did not change."""
    own = f"change_run = {rows.text_sql(run)} AND recorded_until IS NULL"
    return (
        f"SELECT {COLUMNS}, recorded_from FROM main.items WHERE id NOT IN (SELECT id FROM main.versions WHERE {own}) "
        f"UNION ALL SELECT {COLUMNS}, recorded_from FROM main.versions WHERE {own} "
        f"AND operation <> '{Operation.FORGET.value}'"
    )


def within_run(connection: sqlite3.Connection, run: str, operation: Callable[[], T]) -> T:
    """Run an operation of a write transaction in which `items` means those that a pending run sees."""
    show(connection, items_of_run(run))
    # Where the operation raises, the rollback takes the view away.
    result = operation()
    connection.execute("DROP VIEW temp.items")
    return result


class RunRecorder:
    """Changes the items that a pending run sees; see `Recorder`. Used within `within_run`."""

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

    def end(self, condition: str, values: Sequence[object], ending: Ending) -> int:  # noqa: ARG002 - decided on commit
        """Hide items from the run."""
        found = self.connection.execute(f"SELECT row FROM items WHERE {condition}", tuple(values)).fetchall()
        for (row,) in found:
            is_own = self.connection.execute("SELECT 1 FROM versions WHERE row = ?", (row,)).fetchone() is not None
            base = self._take_back(f"row = ? AND {OF_RUN}", row) if is_own else row
            if base is not None:
                self.connection.execute(_HIDE, (_next_row(self.connection), self._run, self._actor, base))
                self.connection.execute("INSERT INTO changes(row, kind) VALUES (?, 'hidden')", (base,))
        if found:
            prune_changes(self.connection)
        return len(found)

    def remove(self, condition: str, values: Sequence[object]) -> int:
        """Hide items from the run."""
        return self.end(condition, values, Ending(operation=Operation.FORGET))

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
