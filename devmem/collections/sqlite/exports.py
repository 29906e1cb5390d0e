"""The exports of a SQLite collection, in a table of their own, which the first one creates."""

from __future__ import annotations

import json
import sqlite3
from abc import abstractmethod
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Final, TypeVar

from devmem.collections.exports import MOST_EXPORTS, ExportRecord
from devmem.collections.sqlite.database import translate_errors
from devmem.collections.sqlite.reader import SqliteReader
from devmem.collections.transactions import write_transaction

T = TypeVar("T")

_TABLE: Final = "CREATE TABLE IF NOT EXISTS exports(number INTEGER PRIMARY KEY, body TEXT NOT NULL)"
_PRUNE: Final = "DELETE FROM exports WHERE number <= (SELECT max(number) FROM exports) - ?"


class SqliteExports(SqliteReader):
    """The methods of `ExportLog`."""

    @abstractmethod
    def _write(self, operation: Callable[[sqlite3.Connection], T]) -> T:
        """Run an operation in a write transaction."""

    def record_export(self, export: ExportRecord) -> None:
        """Remember an export, durably."""
        self._write(lambda connection: _record(connection, export))

    def exports(self) -> list[ExportRecord]:
        """Return the exports that were made, the oldest first."""

        def read(connection: sqlite3.Connection) -> list[ExportRecord]:
            if not connection.execute("SELECT 1 FROM sqlite_master WHERE name = 'exports'").fetchone():
                return []
            rows = connection.execute("SELECT body FROM exports ORDER BY number").fetchall()
            return [ExportRecord.from_json(json.loads(body)) for (body,) in rows]

        return self._read(read)


def record_backup(path: Path, backup: Path, *, items: int, made_at: float) -> None:
    """Record, in a collection's file, that a backup was made of it.

    Args:
        path: the collection's file.
        backup: the backup.
        items: number of items in it.
        made_at: seconds since the epoch.

    Raises:
        CollectionError: the file cannot be written.
    """
    record = ExportRecord(kind="backup", place=str(backup.absolute()), made_at=made_at, items=items)
    with translate_errors(str(path)), closing(sqlite3.connect(path, timeout=30.0, isolation_level=None)) as connection:
        write_transaction(connection, lambda: _record(connection, record))


def _record(connection: sqlite3.Connection, export: ExportRecord) -> None:
    connection.execute(_TABLE)
    connection.execute("INSERT INTO exports(body) VALUES (?)", (json.dumps(export.to_json()),))
    connection.execute(_PRUNE, (MOST_EXPORTS,))
