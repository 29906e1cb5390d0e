"""The SQLite collection: rows, full text and embeddings in one file, written in one transaction.

Several processes may use the file at once (WAL). The search indexes are a cache in memory (`follower.py`).
"""

from __future__ import annotations

import sqlite3
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from functools import partial
from pathlib import Path
from typing import TypeVar

from devmem.collections.connection_pool import ConnectionPool
from devmem.collections.deletion import check_deletion
from devmem.collections.prepared import PreparedItem
from devmem.collections.protocol import DEFAULT_HISTORY_DAYS, Durability, Unique
from devmem.collections.recorded import HistoryLimit
from devmem.collections.sqlite import database, model_check, predicates, writes
from devmem.collections.sqlite.concurrency import SharedLock
from devmem.collections.sqlite.database import MEMORY
from devmem.collections.sqlite.exports import SqliteExports
from devmem.collections.sqlite.follower import SqliteFollower
from devmem.collections.sqlite.full_disk import shorten_log, with_room
from devmem.collections.sqlite.ownership import claim_file
from devmem.collections.sqlite.reader import Opened
from devmem.collections.sqlite.recorder import CurrentRecorder
from devmem.collections.sqlite.table_indexes import ensure_indexes
from devmem.collections.sqlite.versions import SqliteVersions
from devmem.collections.sqlite.view import ShownInFile, ShownInMemory, ShownItems
from devmem.collections.transactions import read_transaction
from devmem.config import IndexConfig
from devmem.embedding import ModelIdentity, PassageEmbeddings
from devmem.errors import CollectionClosedError, CollectionUnwritableError
from devmem.model.items import MemoryItem
from devmem.model.results import WriteOutcome
from devmem.search.filters import Filter

T = TypeVar("T")


class SqliteCollection(SqliteVersions, SqliteExports):
    """Items in a SQLite file, or in memory; `Collection` documents the methods.

    Threads read side by side, each with a connection of its own, so a search waits for no other one and for no write.
    A database in memory has one connection: there a write waits until no search is running.
    """

    def __init__(
        self,
        location: str | Path = MEMORY,
        *,
        model: ModelIdentity | None = None,
        store_type: str | None = None,
        durability: Durability = "full",
        index: IndexConfig | None = None,
        history_days: float | None = DEFAULT_HISTORY_DAYS,
        busy_timeout: float = 30.0,
        clock: Callable[[], float] = time.time,
    ) -> None:
        """Open the collection, or create it.

        Args:
            location: path of the file, or `:memory:`.
            model: embedding model; without one the search is by text alone and new items wait for an embedding.
            store_type: store type to record in a new file; a file of another type is refused.
            durability: `full` survives power loss, `normal` the death of the process.
            index: how vectors are searched, and which metadata are indexed; None takes the defaults.
            history_days: how long versions are kept after another one took their place; None for good, 0 not at all.
            busy_timeout: seconds to wait for another process's write.
            clock: current time in seconds since the epoch, for expiry.

        Raises:
            CollectionDamagedError, CollectionUnwritableError, CollectionBusyError: the file cannot be used.
            CollectionInUseError: it holds the items of another store type.
            EmbeddingMismatchError: its embeddings were made by another model.
        """
        place, in_file = str(location), str(location) != MEMORY
        if in_file:
            database.prepare_file(place)
        opened = Opened.at(place, index=index, clock=clock)
        snapshot = Path(place + ".faiss") if in_file else None
        follower = SqliteFollower(snapshot, index, opened.damaged)
        super().__init__(opened, follower=follower, statement_lock=nullcontext() if in_file else threading.Lock())
        self._in_file, self._history = in_file, HistoryLimit(days=history_days)
        self._closed, self._model = False, model.name if model else None
        self._write_lock = threading.RLock()
        self._memory_lock = SharedLock()
        self._connect = partial(database.open_connection, place, durability, busy_timeout)
        self._readers = ConnectionPool(self._connect)
        with database.translate_errors(self.location):
            self._writer = self._open_writer(model, store_type)
        self._file = database.file_identity(self.location) if self._in_file else None

    def _open_writer(self, model: ModelIdentity | None, store_type: str | None) -> sqlite3.Connection:
        """Open the connection for writing, which in memory is the only one."""
        writer = self._connect()
        try:
            # What is deleted is overwritten, whatever the library was compiled with.
            writer.execute("PRAGMA secure_delete = ON")
            database.prepare_schema(writer, self.location, store_type)
            ensure_indexes(writer, self._indexed)
            self._has_model = claim_file(writer, self.location, model, store_type, self._damaged)
        except BaseException:
            writer.close()
            raise
        return writer

    def _write(self, operation: Callable[[sqlite3.Connection], T]) -> T:
        """Run an operation in a write transaction."""

        def checked() -> T:
            if self._in_file and database.file_identity(self.location) != self._file:
                raise CollectionUnwritableError(
                    self.location,
                    "the file was moved, deleted or replaced while it was open; nothing was written: "
                    "open the store again.",
                )
            writes.await_embeddings(self._writer, self._damaged)
            return operation(self._writer)

        def committed() -> T:
            self._check_open()
            with database.translate_errors(self.location):
                return writes.commit(self._writer, self._attachments, checked)

        with self._write_lock:
            return committed() if self._in_file else self._memory_lock.write(committed)

    def _delete(self, operation: Callable[[sqlite3.Connection], T]) -> T:
        """Run an operation that deletes in a write transaction, on a full disk too."""

        def make_room() -> None:
            self._follower.drop_snapshot()
            shorten_log(self._writer)

        with self._write_lock:
            return with_room(self.location, lambda: self._write(operation), make_room)

    def _with_writer(self, operation: Callable[[sqlite3.Connection], T]) -> T:
        """Run an operation with the connection for writing, which no other thread uses meanwhile."""
        with self._write_lock, database.translate_errors(self.location):
            self._check_open()
            return operation(self._writer)

    def _recorder(self, connection: sqlite3.Connection, run: str | None = None) -> CurrentRecorder:
        """Return the recorder of a write transaction, in which a run is committed or reverted."""
        return CurrentRecorder(connection, self._attachments, limit=self._history, now=self._clock(), run=run)

    def _read_shared(self, operation: Callable[[sqlite3.Connection], T]) -> T:
        """Run an operation as `_read` does, which holds `_statement_lock` only while it uses the connection."""

        def in_memory() -> T:
            self._check_open()
            return operation(self._writer)

        self._check_open()
        with database.translate_errors(self.location):
            if not self._in_file:
                return self._memory_lock.read(in_memory)
            return self._readers.run(
                lambda connection: read_transaction(connection, lambda: operation(connection)),
            )

    def _model_name(self) -> str | None:
        return self._model

    def _total(self, connection: sqlite3.Connection) -> int:
        return int(database.read_meta(connection)["count"] or 0)

    def _check_open(self) -> None:
        if self._closed:
            raise CollectionClosedError(self.location, "the collection was closed.")

    def add(
        self,
        items: Sequence[MemoryItem | PreparedItem],
        *,
        unique: Unique = Unique.ID,
        expected: Mapping[str, str | None] | None = None,
    ) -> list[WriteOutcome]:
        """Store the items, all or none of them."""
        if not items:
            return []
        # Analysed before the lock is taken, as that takes longer than to insert them.
        prepared = [PreparedItem.of(item) for item in items]

        def add(connection: sqlite3.Connection) -> list[WriteOutcome]:
            recorder, now = self._recorder(connection), self._clock()
            recorder.purge()
            made = (item.embeddings for item in prepared)
            model_check.check_embeddings(connection, self.location, self._model, made)
            writes.check_versions(connection, self._damaged, expected or {}, now)
            writer = writes.ItemWriter(recorder, self._damaged, has_model=self._has_model, now=now)
            return [writer.add(item, unique) for item in prepared]

        return self._write(add)

    def pop(self, count: int = 1, where: Filter | None = None) -> list[MemoryItem]:
        """Delete the items stored last, and return them."""

        def pop(connection: sqlite3.Connection) -> list[MemoryItem]:
            condition = predicates.where_sql(where or Filter(), self._clock(), self._indexed)
            popped = writes.pop(self._recorder(connection), self._damaged, count, condition)
            return [self._resolved(item) for item in popped]

        return self._delete(pop)

    def delete(self, *, ids: Sequence[str] | None = None, where: Filter | None = None) -> int:
        """Delete the named or the matching items."""
        check_deletion(ids, where)
        now = self._clock()
        condition = predicates.where_sql(where, now, self._indexed) if where is not None else ("1", [])
        return self._delete(lambda connection: writes.delete(self._recorder(connection), ids, condition))

    def clear(self) -> int:
        """Delete everything."""
        return self._delete(lambda connection: writes.delete(self._recorder(connection), None, ("1", [])))

    def erase(self, *, ids: Sequence[str] | None = None, where: Filter | None = None) -> int:
        """Delete the named or the matching items for good, with every version that they ever had."""
        if ids is None and where is None:
            check_deletion(ids, where)
        condition = predicates.where_sql(where, self._clock(), self._indexed) if where is not None else ("1", [])
        return self._delete(
            lambda connection: writes.erase(connection, self._attachments, ids, condition, self._clock())
        )

    def trim(self, *, keep: int | None = None, stored_before: float | None = None) -> int:
        """Delete all but the newest items, and those stored before a time."""
        return self._delete(
            lambda connection: writes.trim(self._recorder(connection), keep, stored_before, self._clock())
        )

    def set_embeddings(self, embeddings: Mapping[str, PassageEmbeddings]) -> int:
        """Store the embeddings of waiting items."""

        def store(connection: sqlite3.Connection) -> int:
            model_check.check_embeddings(connection, self.location, self._model, embeddings.values())
            return writes.set_embeddings(connection, embeddings)

        return self._write(store)

    def replace_model(self, model: str, dimension: int | None) -> int:
        """Delete every embedding and record the model of the new ones."""
        waiting = self._write(lambda connection: writes.replace_model(connection, model, dimension, self._damaged))
        self._model, self._has_model = model, True
        return waiting

    def _shown_items(self, items: str) -> ShownItems:
        """Return a reader of the database in which `items` means the rows of a query."""
        self._check_open()
        if self._in_file:
            return ShownInFile(self._connect, items)
        return ShownInMemory(self._writer, self._memory_lock, items)

    def close(self) -> None:
        """Write the index snapshot and release the files."""
        with self._write_lock:
            return self._close() if self._in_file else self._memory_lock.write(self._close)

    def _close(self) -> None:
        was_open, self._closed = not self._closed, True
        try:
            if was_open:
                self._follower.save(self._writer)
        finally:
            # Also when an earlier call was interrupted; closing a closed connection does nothing.
            self._readers.close()
            self._writer.close()
