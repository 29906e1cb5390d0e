"""The SQLite collection: rows, full text and embeddings in one file, written in one transaction.

Several processes may use the file at once (WAL). The search indexes are a cache in memory (`follower.py`).
"""

from __future__ import annotations

import sqlite3
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Final, TypeVar

from devmem.collections.attachments import AttachmentFiles
from devmem.collections.deletion import check_deletion
from devmem.collections.following import Moment
from devmem.collections.model_check import check_length, check_name
from devmem.collections.prepared import PreparedItem
from devmem.collections.protocol import CollectionInfo, Durability, Unique
from devmem.collections.searching import SearchingCollection
from devmem.collections.sqlite import database, model_check, predicates, rows, writes
from devmem.collections.sqlite.concurrency import ConnectionPool, SharedLock
from devmem.collections.sqlite.database import MEMORY
from devmem.collections.sqlite.distinct import distinct_values
from devmem.collections.sqlite.follower import SqliteFollower
from devmem.collections.sqlite.info import read_info
from devmem.collections.sqlite.integrity import DamagedRows
from devmem.collections.sqlite.ownership import claim_file
from devmem.collections.sqlite.source import SqliteSource
from devmem.collections.sqlite.table_indexes import ensure_indexes
from devmem.collections.transactions import read_transaction
from devmem.config import IndexConfig
from devmem.embedding import ModelIdentity, PassageEmbeddings
from devmem.errors import CollectionClosedError, CollectionUnwritableError
from devmem.indexes.locking import locked
from devmem.indexes.token_codes import TokenCache
from devmem.model.items import MemoryItem, Vector
from devmem.model.results import WriteOutcome
from devmem.search.conditions import Scalar
from devmem.search.filters import Filter, Order
from devmem.search.pipeline import SearchPipeline
from devmem.search.query import SearchQuery

T = TypeVar("T")

_AT_ONCE: Final = 500


class SqliteCollection(SearchingCollection):
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
            busy_timeout: seconds to wait for another process's write.
            clock: current time in seconds since the epoch, for expiry.

        Raises:
            CollectionDamagedError, CollectionUnwritableError, CollectionBusyError: the file cannot be used.
            CollectionInUseError: it holds the items of another store type.
            EmbeddingMismatchError: its embeddings were made by another model.
        """
        self.location = str(location)
        self._clock, self._closed, self._model = clock, False, model.name if model else None
        self._in_file = self.location != MEMORY
        self._indexed = frozenset(index.metadata if index else ())
        if self._in_file:
            database.prepare_file(self.location)
        self._attachments = AttachmentFiles(Path(self.location + ".files")) if self._in_file else None
        self._damaged = DamagedRows(self.location)
        self._follower = SqliteFollower(Path(self.location + ".faiss") if self._in_file else None, index, self._damaged)
        self._tokens = TokenCache()
        self._write_lock = threading.RLock()
        self._memory_lock = SharedLock()
        self._statement_lock: AbstractContextManager[object] = nullcontext() if self._in_file else threading.Lock()
        """Held for each use of a connection that searches share."""
        connect = partial(database.open_connection, self.location, durability, busy_timeout)
        self._readers = ConnectionPool(connect)
        with database.translate_errors(self.location):
            self._writer = self._open_writer(connect, model, store_type)
        self._file = database.file_identity(self.location) if self._in_file else None

    def _open_writer(
        self, connect: Callable[[], sqlite3.Connection], model: ModelIdentity | None, store_type: str | None
    ) -> sqlite3.Connection:
        """Open the connection for writing, which in memory is the only one."""
        writer = connect()
        try:
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

    def _read(self, operation: Callable[[sqlite3.Connection], T]) -> T:
        """Run an operation that sees the database as of one commit."""
        return self._read_shared(lambda connection: locked(self._statement_lock, lambda: operation(connection)))

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
            writes.purge_expired(connection, self._attachments, self._clock())
            made = (item.embeddings for item in prepared)
            model_check.check_embeddings(connection, self.location, self._model, made)
            writes.check_versions(connection, self._damaged, expected or {})
            writer = writes.ItemWriter(
                connection, self._damaged, has_model=self._has_model, attachments=self._attachments
            )
            return [writer.add(item, unique) for item in prepared]

        return self._write(add)

    def _search(self, query: SearchQuery, run: Callable[[SearchPipeline], T]) -> T:
        """Bring the indexes up to date and run a search on them."""

        def search(connection: sqlite3.Connection) -> T:
            now = self._clock()
            moment = locked(self._statement_lock, lambda: self._follower.follow(connection, now))
            if query.vector is not None:
                self._check_query(query.vector, moment)
            source = SqliteSource(
                connection, moment.indexes, self._tokens, self._statement_lock, self._damaged, self._indexed
            )
            return run(SearchPipeline(source, query, now))

        return self._read_shared(search)

    def _check_query(self, vector: Vector, moment: Moment) -> None:
        check_name(self.location, made=moment.model, given=self._model)
        if moment.indexes.vectors is not None:
            check_length(self.location, made=moment.indexes.vectors.dimension, given=len(vector))

    def _now(self) -> float:
        return self._clock()

    def _with_attachments(self, items: Sequence[MemoryItem]) -> list[MemoryItem]:
        return [self._resolved(item) for item in items]

    def _resolved(self, item: MemoryItem) -> MemoryItem:
        """Return the item with the paths of its attachments."""
        return self._attachments.resolve(item) if self._attachments else item

    def _select(self, clause: str, values: Sequence[object], where: Filter | None = None) -> list[rows.Selected]:
        """Return row numbers and items, with their embeddings; None for a row that is damaged or does not match."""
        query, now = f"{rows.SELECT_WHOLE} {clause}", self._clock()
        found = self._read(lambda connection: connection.execute(query, tuple(values)).fetchall())
        items = ((columns[0], rows.item_from_row(self._damaged, *columns)) for columns in found)
        return [
            (row, None if item is None or (where and not where.admits(item, now)) else self._resolved(item))
            for row, item in items
        ]

    def get(self, ids: Sequence[str]) -> list[MemoryItem]:
        """Return the items that are there, in the order of `ids`."""
        return list(self._in_order([rows.sql_text(wanted) for wanted in ids]))

    def recent(
        self, limit: int, where: Filter | None = None, *, order: Order = Order.STORED, offset: int = 0
    ) -> list[MemoryItem]:
        """Return the last items of an order, the last one first."""
        wanted = where or Filter()
        if order is not Order.STORED:
            ids = self._ids(wanted, order, newest_first=True, limit=max(limit, 0), offset=offset)
            return list(self._in_order(ids, wanted))
        condition, values = predicates.where_sql(wanted, self._clock(), self._indexed)
        clause = f"WHERE {condition} ORDER BY items.row DESC LIMIT ? OFFSET ?"
        return rows.intact_items(self._select(clause, (*values, max(limit, 0), max(offset, 0)), wanted))

    def scan(
        self, where: Filter | None = None, *, order: Order = Order.STORED, offset: int = 0
    ) -> Iterator[MemoryItem]:
        """Return every item in an order."""
        wanted = where or Filter()
        if order is not Order.STORED:
            # By id, as an item that is changed meanwhile gets another row.
            yield from self._in_order(self._ids(wanted, order, offset=offset), wanted)
            return
        condition, values = predicates.where_sql(wanted, self._clock(), self._indexed)
        clause = f"WHERE items.row > ? AND {condition} ORDER BY items.row LIMIT {_AT_ONCE} OFFSET ?"
        # No lock is held between the parts: a slow reader keeps nobody from writing.
        last, passed_over = 0, max(offset, 0)
        while found := self._select(clause, (last, *values, passed_over), wanted):
            yield from rows.intact_items(found)
            last, passed_over = found[-1][0], 0

    def _ids(
        self, where: Filter, order: Order, *, newest_first: bool = False, limit: int = -1, offset: int = 0
    ) -> list[str]:
        """Return the ids of the items that match, as the table has them, in an order."""
        condition, values = predicates.where_sql(where, self._clock(), self._indexed)
        query = (
            f"SELECT id FROM items WHERE {condition} "
            f"ORDER BY {predicates.order_sql(order, newest_first=newest_first)} LIMIT ? OFFSET ?"
        )
        parameters = (*values, limit, max(offset, 0))
        return [found for (found,) in self._read(lambda connection: connection.execute(query, parameters).fetchall())]

    def _in_order(self, ids: Sequence[str | None], where: Filter | None = None) -> Iterator[MemoryItem]:
        """Return the items of some ids, as the table has them, in their order, reading them in batches."""
        for start in range(0, len(ids), _AT_ONCE):
            part = ids[start : start + _AT_ONCE]
            selected = self._select(f"WHERE id IN ({', '.join('?' * len(part))})", part, where)
            found = {rows.sql_text(item.id): item for item in rows.intact_items(selected)}
            yield from (found[wanted] for wanted in part if wanted in found)

    def values(
        self, key: str, where: Filter | None = None, *, prefix: str = "", limit: int | None = None, offset: int = 0
    ) -> list[Scalar]:
        """Return the distinct values that items have."""

        def read(connection: sqlite3.Connection) -> list[Scalar]:
            now = self._clock()
            is_whole = (where is None or where.everything()) and not writes.any_expired(connection, now)
            condition = None if is_whole else predicates.where_sql(where or Filter(), now, self._indexed)
            return distinct_values(
                connection, key, condition, indexed=self._indexed, prefix=prefix, limit=limit, offset=max(offset, 0)
            )

        return self._read(read)

    def pop(self, count: int = 1, where: Filter | None = None) -> list[MemoryItem]:
        """Delete the items stored last, and return them."""

        def pop(connection: sqlite3.Connection) -> list[MemoryItem]:
            condition, values = predicates.where_sql(where or Filter(), self._clock(), self._indexed)
            clause = f"WHERE {condition} ORDER BY items.row DESC LIMIT ?"
            found = connection.execute(f"{rows.SELECT_WHOLE} {clause}", (*values, max(count, 0))).fetchall()
            items = [rows.item_from_row(self._damaged, *columns) for columns in found]
            for number, *_ in found:
                writes.delete_rows(connection, self._attachments, "row = ?", [number])
            return [self._resolved(item) for item in items if item is not None]

        return self._write(pop)

    def delete(self, *, ids: Sequence[str] | None = None, where: Filter | None = None) -> int:
        """Delete the named or the matching items."""
        check_deletion(ids, where)
        now = self._clock()
        condition = predicates.where_sql(where, now, self._indexed) if where is not None else ("1", [])
        return self._write(lambda connection: writes.delete(connection, self._attachments, ids, condition))

    def clear(self) -> int:
        """Delete everything."""
        return self._write(lambda connection: writes.delete_rows(connection, self._attachments, "1", []))

    def trim(self, *, keep: int | None = None, stored_before: float | None = None) -> int:
        """Delete all but the newest items, and those stored before a time."""
        return self._write(lambda connection: writes.trim(connection, self._attachments, keep, stored_before))

    def count(self, where: Filter | None = None) -> int:
        """Return the number of items that a search could find."""

        def count(connection: sqlite3.Connection) -> int:
            now = self._clock()
            if (where is None or where.everything()) and not writes.any_expired(connection, now):
                return int(database.read_meta(connection)["count"] or 0)
            condition, values = predicates.where_sql(where or Filter(), now, self._indexed)
            return int(connection.execute(f"SELECT count(*) FROM items WHERE {condition}", values).fetchone()[0])

        return self._read(count)

    def waiting(self, limit: int) -> list[MemoryItem]:
        """Return items whose embedding is still to be made, oldest first."""
        return rows.intact_items(self._select("WHERE waiting ORDER BY items.row LIMIT ?", (limit,)))

    def embeddings(self, ids: Sequence[str]) -> dict[str, PassageEmbeddings]:
        """Return the embeddings of those of the items that have them, by id."""

        def read(connection: sqlite3.Connection) -> dict[str, PassageEmbeddings | None]:
            return {wanted: rows.read_embeddings(connection, wanted) for wanted in ids}

        return {wanted: found for wanted, found in self._read(read).items() if found is not None}

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

    def info(self) -> CollectionInfo:
        """Report what the collection is and how much it holds."""
        info = self._read(lambda connection: read_info(connection, self.location))
        attachments = self._attachments.size_bytes() if self._attachments else 0
        return replace(info, size_bytes=info.size_bytes + attachments, damaged=len(self._damaged))

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
