"""Views of a database: its items as of an earlier time, or as a pending run sees them.

A view is a temporary SQL view named `items`, which hides the table of this name from whatever reads by the connection:
every query, the follower's included, works on it unchanged.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from typing import Protocol, TypeVar

from devmem.config.store import IndexConfig
from devmem.forks import UNFORKED
from devmem.storage.reading import BATCH_SIZE
from devmem.storage.sidecar_db import ConnectionPool, SharedLock, read_transaction, rolled_back
from devmem.storage.sql import ReadOnly
from devmem.storage.sqlite.database import translate_errors
from devmem.storage.sqlite.follower import Recorded, SqliteFollower
from devmem.storage.sqlite.reader import Opened, SqliteReader
from devmem.storage.writing import DamagedRows

T = TypeVar("T")


def create_items_view(connection: sqlite3.Connection, items: str) -> None:
    """Have `items` mean the rows of a query, for what this connection does from now on."""
    connection.execute(f"CREATE TEMP VIEW items AS {items}")


class SnapshotView(Protocol):
    """Reads a database in which `items` means the rows of a query."""

    def run(self, operation: Callable[[sqlite3.Connection], T]) -> T:
        """Run an operation that sees the database as of one commit."""
        ...

    def close(self) -> None:
        """Release what it holds."""
        ...


class FileSnapshotView:
    """Reads a file by connections of its own."""

    def __init__(self, connect: Callable[[], sqlite3.Connection], items: str) -> None:
        def shown() -> sqlite3.Connection:
            connection = connect()
            try:
                create_items_view(connection, items)
            except BaseException:
                connection.close()
                raise
            return connection

        self._pool = ConnectionPool(shown)

    def run(self, operation: Callable[[sqlite3.Connection], T]) -> T:
        """Run an operation in a read transaction."""
        with UNFORKED:
            return self._pool.run(lambda connection: read_transaction(connection, operation, connection))

    def close(self) -> None:
        """Close the connections."""
        self._pool.close()


class MemorySnapshotView:
    """Reads a database in memory, which has one connection, while nobody else uses it."""

    def __init__(self, connection: sqlite3.Connection, lock: SharedLock, items: str) -> None:
        self._connection, self._lock, self._items = connection, lock, items

    def run(self, operation: Callable[[sqlite3.Connection], T]) -> T:
        """Run an operation in a transaction that is rolled back, and with it the view."""

        def shown() -> T:
            create_items_view(self._connection, self._items)
            return operation(self._connection)

        return self._lock.write(lambda: rolled_back(self._connection, shown))

    def close(self) -> None:
        """Release nothing: the connection is the collection's."""


class ViewFollower(SqliteFollower):
    """Keeps the indexes of a view up to date: whatever changed, what the view still shows stays."""

    def __init__(self, config: IndexConfig | None, damaged: DamagedRows) -> None:
        super().__init__(None, config, damaged)

    def _gone(self, connection: sqlite3.Connection, changes: Sequence[Recorded]) -> set[int]:
        changed = sorted({row for _, row, kind in changes if kind != "embedded"})
        gone = set(changed)
        for start in range(0, len(changed), BATCH_SIZE):
            part = changed[start : start + BATCH_SIZE]
            query = f"SELECT row FROM items WHERE row IN ({', '.join('?' * len(part))})"
            gone.difference_update(row for (row,) in connection.execute(query, part))
        return gone


class SqliteView(ReadOnly, SqliteReader):
    """A state of a collection that is read only; `Collection` documents the methods."""

    def __init__(
        self, opened: Opened, shown: SnapshotView, *, model_name: Callable[[], str | None], state: str
    ) -> None:
        """Take what the view reads.

        Args:
            opened: the database, with the clock of the view: what has expired by it is not there.
            shown: reads the database.
            model_name: returns the name of the model that queries are embedded with.
            state: the state that it shows, for messages.
        """
        super().__init__(opened, follower=ViewFollower(opened.index, opened.damaged), statement_lock=nullcontext())
        self._snapshot_view, self._model_of_queries, self._state = shown, model_name, state

    def _read_shared(self, operation: Callable[[sqlite3.Connection], T]) -> T:
        with translate_errors(self.location):
            return self._snapshot_view.run(operation)

    def _model_name(self) -> str | None:
        return self._model_of_queries()

    def close(self) -> None:
        """Release the connections and indexes of the view; the collection stays open."""
        self._follower.indexes.close()
        self._snapshot_view.close()
