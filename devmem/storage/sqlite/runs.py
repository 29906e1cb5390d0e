"""The versions and runs of a SQLite file: its dialect, its tables, and what writes in a pending run."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final, TypeVar

from devmem.model.caller import current_actor
from devmem.model.items import MemoryItem
from devmem.model.versions import Operation
from devmem.storage.attachments import AttachmentFiles
from devmem.storage.runs import VersionTables
from devmem.storage.sql import VersionDialect
from devmem.storage.sqlite import rows
from devmem.storage.sqlite.json_sql import json_list, listed
from devmem.storage.sqlite.predicates import RECORDED_FROM
from devmem.storage.sqlite.rows import ItemValues, read_text, sql_text
from devmem.storage.sqlite.view import create_items_view
from devmem.storage.sqlite.writes import prune_changes, remove_versions
from devmem.storage.writing import DamagedRows, PreparedItem, VersionEnd

T = TypeVar("T")

OF_RUN: Final = "change_run = ? AND recorded_until IS NULL"
"""Selects the versions of a pending run."""
_HIDE: Final = (
    f"INSERT INTO versions({rows.ITEM_COLUMNS}, operation, change_run, change_actor, base) "
    f"SELECT ?, {rows.ITEM_COLUMNS.removeprefix('row, ')}, ?, ?, ?, row FROM main.items WHERE row = ?"
)
_OWN: Final = (
    "SELECT base IS NOT NULL OR EXISTS (SELECT 1 FROM main.items WHERE items.id = versions.id) FROM main.versions "
    "WHERE row = ? AND recorded_until IS NULL"
)
"""Selects whether there is an item of others behind a pending version, which deleting this one must not show again.

The row that the version replaces stays recorded, so that a commit sees what others changed meanwhile.
"""
_MARK_DELETED: Final = "UPDATE versions SET operation = ?, change_actor = ? WHERE row = ?"


def within_run(connection: sqlite3.Connection, run: str, operation: Callable[[], T]) -> T:
    """Run an operation of a write transaction in which `items` means those that a pending run sees."""
    create_items_view(connection, DIALECT.of_run(run))
    # Where the operation raises, the rollback takes the view away.
    result = operation()
    connection.execute("DROP VIEW temp.items")
    return result


class RunVersionWriter:
    """Changes the items that a pending run sees; see `VersionWriter`. Used within `within_run`."""

    def __init__(self, connection: sqlite3.Connection, attachments: AttachmentFiles | None, run: str) -> None:
        self.connection, self.attachments, self._run = connection, attachments, rows.sql_text(run) or ""
        self._actor = rows.sql_text(current_actor().name)

    def insert(self, prepared: PreparedItem, values: ItemValues, operation: Operation) -> list[int]:  # noqa: ARG002 - what it is among all items
        """Insert a version of the run in the place of the one that it has of the item."""
        base = self._take_back(f"id = ? AND {OF_RUN}", rows.sql_text(prepared.item.id))
        return rows.insert_pending(
            self.connection,
            prepared,
            values,
            row=_next_row(self.connection),
            operation=(Operation.ADD if base is None else Operation.UPDATE).value,
            run=self._run,
            actor=self._actor,
            base=base,
        )

    def end(self, condition: str, values: Sequence[object], ending: VersionEnd) -> int:
        """Hide items from the run; the rest is decided on commit."""
        found = self.connection.execute(f"SELECT row FROM items WHERE {condition}", tuple(values)).fetchall()
        for (row,) in found:
            self._hide(row, ending.operation)
        if found:
            prune_changes(self.connection)
        return len(found)

    def _hide(self, row: int, operation: Operation) -> None:
        """Hide an item, or a version that the run wrote of it."""
        own = self.connection.execute(_OWN, (row,)).fetchone()
        if own is None:
            values = _next_row(self.connection), operation.value, self._run, self._actor, row
            self.connection.execute(_HIDE, values)
        elif own[0]:
            self.connection.execute(_MARK_DELETED, (operation.value, self._actor, row))
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

    def prune(self) -> None:
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


DIALECT: Final = VersionDialect(
    mark="?",
    key="id",
    differs="IS NOT",
    began=RECORDED_FROM,
    columns=f"{rows.ITEM_COLUMNS}, operation, change_run, recorded_from",
    body="row, CAST(body AS BLOB), body_checksum",
    position="instr",
    among=f"{{0}} IN ({listed(':{1}')})",
    intact={
        table: f"change_checksum IS NULL OR change_checksum IS {checksum}"
        for table, checksum in rows.CHANGE_CHECKSUMS.items()
    },
    literal=rows.text_sql,
    main="main.",
)


class SqliteTables(VersionTables):
    """The tables of a file; one transaction writes at a time, so that nothing needs to be locked."""

    def __init__(
        self, connection: sqlite3.Connection, attachments: AttachmentFiles | None, damaged: DamagedRows, location: str
    ) -> None:
        """Take a connection in a transaction, and the file's attachments, rows that cannot be read, and place."""
        super().__init__(DIALECT, location)
        self._connection, self._attachments, self._damaged = connection, attachments, damaged

    def execute(self, statement: str, values: Mapping[str, object] | Sequence[object]) -> list[tuple[Any, ...]]:
        """Run a statement; return its rows."""
        return self._connection.execute(statement, values).fetchall()

    def text(self, text: str | None) -> str | None:
        """Return a text as a column holds it."""
        return sql_text(text)

    def read_text(self, text: str | None) -> str | None:
        """Return the text of a column."""
        return read_text(text)

    def key_of(self, item_id: str) -> object:
        """Return the id as the column holds it."""
        return sql_text(item_id)

    def many(self, values: Iterable[object]) -> object:
        """Return several values as JSON."""
        return json_list(values)

    def item_of(self, row: int, *body: Any) -> MemoryItem | None:  # noqa: ANN401 - columns of the database
        """Return the item of a body and its checksum."""
        return rows.item_from_row(self._damaged, row, *body)

    def report_damaged(self, table: str, row: int) -> None:
        """Remember that the change which began a version is damaged."""
        self._damaged.add(table, row)

    def lock_runs(self, runs: Iterable[str]) -> None:
        """Do nothing."""

    def remove_versions(self, condition: str, values: Sequence[object]) -> None:
        """Delete versions permanently, and release their attachments."""
        remove_versions(self._connection, self._attachments, condition, values)
