"""Transactions in a SQLite database, and the searches that read it.

Threads read side by side, each with its own connection, so a search waits for no other one and for no write.
A database in memory has one connection: there a write waits until no search is running.
"""

from __future__ import annotations

import logging
import sqlite3
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from functools import partial
from pathlib import Path
from typing import Final, TypeVar

from filelock import FileLock

from devmem.config.store import IndexConfig
from devmem.errors import CollectionClosedError, CollectionError, CollectionUnwritableError
from devmem.forks import UNFORKED, abandon, follow_forks
from devmem.models.embedder import ModelIdentity
from devmem.search.indexes.codes import TokenCache
from devmem.search.indexes.columns import GenerationCache, locked
from devmem.search.indexes.doc_values import ConditionCache
from devmem.search.query import SearchQuery
from devmem.search.source import SearchSource
from devmem.storage.connections import ConnectionPool, SharedLock, empty_log, read_transaction, write_transaction
from devmem.storage.properties import claim
from devmem.storage.protocol import DEFAULT_HISTORY_DAYS, Durability
from devmem.storage.sqlite import database
from devmem.storage.sqlite.database import MEMORY, translate_errors
from devmem.storage.sqlite.follower import SqliteFollower
from devmem.storage.sqlite.predicates import SqliteDialect
from devmem.storage.sqlite.schema import ensure_indexes
from devmem.storage.sqlite.search import SqliteSource
from devmem.storage.sqlite.tables import SqliteTables
from devmem.storage.tables import ARCHIVED, CURRENT, State, StoreDatabase, StoreTables, check_length, check_name
from devmem.text.files import OWNER_ONLY

T = TypeVar("T")

_LOG: Final = logging.getLogger(__name__)
_INDEXED_AT_ONCE: Final = 10_000
"""Number of items that may be written before the indexes follow without being asked."""
_SECURE_DELETE: Final = "PRAGMA secure_delete = ON"
_MOST_STATES: Final = 4
"""Number of states whose indexes are kept for the next search."""


class SqliteDatabase(StoreDatabase):
    """A SQLite file, or a database in memory. Thread-safe."""

    def __init__(
        self,
        location: str,
        *,
        model: ModelIdentity | None = None,
        store_type: str | None = None,
        durability: Durability = "full",
        index: IndexConfig | None = None,
        busy_timeout: float = 30.0,
        history_days: float | None = DEFAULT_HISTORY_DAYS,
        clock: Callable[[], float] = time.time,
    ) -> None:
        """Open the database, or create it; `CollectionOptions` documents the arguments."""
        self.location, self.clock, self.in_file = location, clock, location != MEMORY
        self.history_days = history_days
        self.read_only = self.in_file and database.is_read_only(location)
        if self.in_file and not self.read_only:
            database.prepare_file(location)
        self.model, self._closed = model.name if model else None, False
        self._index, self._indexed = index, frozenset(index.metadata if index else ())
        self.dialect = SqliteDialect(self._indexed)
        self._tokens, self._conditions = GenerationCache(TokenCache), ConditionCache()
        snapshot = Path(f"{location}.faiss") if self.in_file else None
        self.follower = SqliteFollower(index, snapshot_path=snapshot)
        self._states: OrderedDict[State, SqliteFollower] = OrderedDict()
        self._states_lock, self._purposes = threading.Lock(), threading.Lock()
        self._unindexed = 0
        """Number of items that were written since the indexes last followed."""
        self._statement_lock: AbstractContextManager[object] = nullcontext() if self.in_file else threading.Lock()
        """Held for each use of a connection that searches share."""
        self._write_lock, self._memory_lock = threading.RLock(), SharedLock()
        self._connect = partial(database.open_connection, location, durability, busy_timeout, read_only=self.read_only)
        self._readers = ConnectionPool(self._connect)
        self._opened_writer: sqlite3.Connection | None = self._open_writer(model, store_type)
        self._file = database.file_identity(location) if self.in_file else None
        follow_forks(self)

    @property
    def _writer(self) -> sqlite3.Connection:
        """The connection for writing, which is used under the write lock; in memory it is the only one."""
        if self._opened_writer is None:
            self._opened_writer = self._connect()
            self._opened_writer.execute(_SECURE_DELETE)
        return self._opened_writer

    def release_before_fork(self) -> None:
        """Close the connection for writing, which the next transaction opens again."""
        if not self.in_file or not self._write_lock.acquire(blocking=False):
            return
        try:
            # One that an interrupted call of `close` has closed is in no transaction.
            with suppress(sqlite3.ProgrammingError):
                if self._opened_writer is not None and not self._opened_writer.in_transaction:
                    self._opened_writer.close()
                    self._opened_writer = None
        finally:
            self._write_lock.release()

    def restart_in_child(self) -> None:
        """Leave the connection to the parent if another thread was using it, and its transaction with it."""
        if self.in_file and self._opened_writer is not None:
            abandon(self._opened_writer)
            self._opened_writer = None

    def _open_writer(self, model: ModelIdentity | None, store_type: str | None) -> sqlite3.Connection:
        """Open the connection for writing, which in memory is the only one."""
        had_log = database.has_log(self.location)
        with translate_errors(self.location):
            writer = self._connect()
            try:
                if self.read_only:
                    header = read_transaction(writer, database.read_header)
                    database.check_header(writer, self.location, header)
                    _LOG.warning("%s cannot be written here: it is opened for reading only.", self.location)
                else:
                    # What is deleted is overwritten, whatever the library was compiled with.
                    writer.execute(_SECURE_DELETE)
                    database.prepare_schema(writer, self.location, store_type, had_log=had_log)
                    ensure_indexes(writer, self._indexed)
                # Opening takes no write lock where all is recorded: it does not wait for another process.
                if claim(self._tables(writer), model, store_type, record=False) and not self.read_only:
                    write_transaction(writer, lambda _: claim(self._tables(writer), model, store_type, record=True))
            except BaseException:
                writer.close()
                raise
        return writer

    def _tables(self, connection: sqlite3.Connection) -> SqliteTables:
        return SqliteTables(connection, self.location, self.dialect, self._indexed)

    def write(self, operation: Callable[[StoreTables], T]) -> T:
        """Run an operation in a write transaction."""

        def change(writer: sqlite3.Connection) -> T:
            if self.in_file and database.file_identity(self.location) != self._file:
                raise CollectionUnwritableError(
                    self.location,
                    "the file was moved, deleted or replaced while it was open; nothing was written: open the store "
                    "again.",
                )
            return operation(self._tables(writer))

        def write() -> T:
            return write_transaction(self._writer, change)

        with UNFORKED, self._write_lock, translate_errors(self.location):
            self._check_writable()
            return write() if self.in_file else self._memory_lock.write(write)

    def remove(self, operation: Callable[[StoreTables], T]) -> T:
        """Run an operation that deletes in a write transaction, on a full disk too."""

        def make_room() -> None:
            self.follower.drop_snapshot()
            empty_log(self._writer, self.location)

        with UNFORKED, self._write_lock:
            return database.retry_on_disk_full(self.location, lambda: self.write(operation), make_room)

    def with_writer(self, operation: Callable[[sqlite3.Connection], T]) -> T:
        """Run an operation with the connection for writing, which no other thread uses meanwhile."""
        with UNFORKED, self._write_lock, translate_errors(self.location):
            self._check_writable()
            return operation(self._writer)

    def read(self, operation: Callable[[StoreTables], T]) -> T:
        """Run an operation that sees the database as of one commit."""
        if self.in_file:
            return self._read_shared(lambda connection: operation(self._tables(connection)))
        return self._read_shared(lambda one: locked(self._statement_lock, lambda: operation(self._tables(one))))

    def _read_shared(self, operation: Callable[[sqlite3.Connection], T]) -> T:
        """Run an operation as `read` does, which holds `_statement_lock` only while it uses the connection."""

        def in_memory() -> T:
            self._check_open()
            return operation(self._writer)

        self._check_open()
        with UNFORKED, translate_errors(self.location):
            if not self.in_file:
                return self._memory_lock.read(in_memory)
            return self._readers.run(lambda connection: read_transaction(connection, operation))

    def _check_open(self) -> None:
        if self._closed:
            raise CollectionClosedError(self.location, "the collection was closed.")

    def _check_writable(self) -> None:
        self._check_open()
        if self.read_only:
            raise CollectionUnwritableError(
                self.location, "was opened for reading only, as its file system or its rights allow no more."
            )

    def search(
        self, state: State, query: SearchQuery, clock: Callable[[], float], run: Callable[[SearchSource, float], T]
    ) -> T:
        """Bring the indexes of a state up to date and call a function with the source of a search on them."""
        follower = self._follower_of(state)

        def search(connection: sqlite3.Connection) -> T:
            now = clock()
            moment = locked(self._statement_lock, lambda: follower.follow(connection, now))
            if query.vector is not None:
                check_name(self.location, made=moment.model, given=self.model)
                if moment.indexes.vectors is not None:
                    check_length(self.location, made=moment.indexes.vectors.dimension, given=len(query.vector))
            tokens, conditions = self._tokens.of(moment.generation), self._conditions.at(moment.generation)
            source = SqliteSource(connection, moment.indexes, tokens, conditions, self._statement_lock, self._indexed)
            return run(source, now)

        return self._read_shared(search)

    def _follower_of(self, state: State) -> SqliteFollower:
        """Return what keeps the indexes of a state."""
        if state is CURRENT:
            return self.follower
        with self._states_lock:
            if state not in self._states:
                # The archive has nothing in common with the current items.
                current = None if state is ARCHIVED else self.follower
                self._states[state] = SqliteFollower(self._index, state=state, current=current)
            self._states.move_to_end(state)
            while len(self._states) > _MOST_STATES:
                self._states.popitem(last=False)
            return self._states[state]

    def note(self, written: int) -> None:
        """Have the indexes follow while much is written, so that the next search need not wait for all of it."""
        self._unindexed += written
        if self._unindexed < _INDEXED_AT_ONCE:
            return
        self._unindexed = 0

        def follow(connection: sqlite3.Connection) -> None:
            locked(self._statement_lock, lambda: self.follower.follow(connection, self.clock()))

        try:
            self._read_shared(follow)
        except CollectionError as error:
            # The items are stored; the next search reports it, if it still holds.
            _LOG.warning("%s: the indexes do not follow what was written: %s", self.location, error)

    @contextmanager
    def exclusive(self, purpose: str) -> Iterator[None]:
        """Exclude every other process, and thread, that names the same purpose until the block ends."""
        if not self.in_file:
            with self._purposes:
                yield
            return
        try:
            with FileLock(f"{self.location}.{purpose}.lock", mode=OWNER_ONLY):
                yield
        except OSError as error:
            raise CollectionUnwritableError(self.location, f"cannot be locked for {purpose}: {error}") from error

    def close(self) -> None:
        """Write the index snapshot and release the files."""
        with UNFORKED, self._write_lock:
            return self._close() if self.in_file else self._memory_lock.write(self._close)

    def _close(self) -> None:
        was_open, self._closed = not self._closed, True
        try:
            if was_open and not self.read_only:
                self.follower.save(self._writer)
        finally:
            # Also when an earlier call was interrupted; closing a closed connection does nothing.
            self._readers.close()
            if self._opened_writer is not None:
                self._opened_writer.close()
            for follower in self._states.values():
                follower.indexes.close()
