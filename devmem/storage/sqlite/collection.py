"""The SQLite collection: rows, full text and embeddings in one file, written in one transaction.

Several processes may use the file at once (WAL). The search indexes are a cache in memory (`follower.py`).
"""

from __future__ import annotations

import json
import logging
import os
import sqlite3
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, nullcontext, suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Final, TypeVar

from filelock import FileLock

from devmem.config.store import IndexConfig
from devmem.encryption import connect
from devmem.errors import CollectionClosedError, CollectionError, CollectionUnwritableError
from devmem.forks import UNFORKED, abandon, follow_forks
from devmem.models.embedder import ModelIdentity
from devmem.search.indexes.columns import locked
from devmem.storage.connections import ConnectionPool, SharedLock, empty_log, read_transaction, write_transaction
from devmem.storage.opening import CollectionOptions, path_of
from devmem.storage.properties import claim
from devmem.storage.protocol import DEFAULT_HISTORY_DAYS, MOST_EXPORTS, Durability, ExportRecord
from devmem.storage.sql import ReadOnly
from devmem.storage.sqlite import database
from devmem.storage.sqlite.database import (
    MEMORY,
    check_header,
    is_named,
    read_header,
    retry_on_disk_full,
    translate_errors,
)
from devmem.storage.sqlite.erasing import SqliteEraser
from devmem.storage.sqlite.follower import SqliteFollower
from devmem.storage.sqlite.reader import Opened, SqliteReader
from devmem.storage.sqlite.schema import ensure_indexes
from devmem.storage.tables import ARCHIVED, State, StoreTables, of_run
from devmem.storage.versions import RunView, VersionedStore
from devmem.storage.writing import HistoryLimit
from devmem.text.files import OWNER_ONLY

T = TypeVar("T")

_LOG: Final = logging.getLogger(__name__)

_INDEXED_AT_ONCE: Final = 10_000
"""Number of items that may be written before the indexes follow without being asked."""
_SECURE_DELETE: Final = "PRAGMA secure_delete = ON"
_MOST_STATES: Final = 4
"""Number of states whose indexes are kept for the next search."""
_PRUNE: Final = "DELETE FROM exports WHERE number <= (SELECT max(number) FROM exports) - ?"


class SqliteView(ReadOnly, SqliteReader):
    """A state of a collection that is read only; `Collection` documents the methods."""

    def __init__(self, of: SqliteCollection, state: State, shown: str, *, clock: Callable[[], float]) -> None:
        """Take what the view reads.

        Args:
            of: the collection.
            state: the versions that are shown.
            shown: the state, for messages.
            clock: time of the view: what has expired by it is not there; seconds since the epoch.
        """
        super().__init__(
            replace(of._opened, clock=clock),  # noqa: SLF001 - this module's own classes share them
            follower=of._follower_of(state),  # noqa: SLF001
            statement_lock=of._statement_lock,  # noqa: SLF001
            state=state,
        )
        self._collection, self._state = of, shown

    def _read_shared(self, operation: Callable[[sqlite3.Connection], T]) -> T:
        return self._collection._read_shared(operation)  # noqa: SLF001 - see above

    def _writing(self, operation: Callable[[StoreTables], T]) -> T:
        return self._collection._writing(operation)  # noqa: SLF001 - see above

    def _model_name(self) -> str | None:
        return self._collection._model_name()  # noqa: SLF001 - see above

    def close(self) -> None:
        """Do nothing: the collection, which stays open, keeps the indexes for the next view."""


class SqliteRunView(RunView, SqliteView):
    """The items that a pending run sees."""

    def __init__(self, of: SqliteCollection, run: str, actor: str | None) -> None:
        """Take the collection and the run; nothing is written yet."""
        state = of_run(of._filters, run)  # noqa: SLF001 - see above
        super().__init__(of, state, f"run {run!r} is pending", clock=of._clock)  # noqa: SLF001
        self._run, self._actor = run, actor


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
    with translate_errors(str(path)), closing(connect(path, timeout=30.0, isolation_level=None)) as connection:
        write_transaction(connection, _record, connection, record)


def _record(connection: sqlite3.Connection, export: ExportRecord) -> None:
    connection.execute("INSERT INTO exports(body) VALUES (?)", (json.dumps(export.to_json()),))
    connection.execute(_PRUNE, (MOST_EXPORTS,))


class SqliteCollection(SqliteEraser, VersionedStore):
    """Items in a SQLite file, or in memory; `Collection` documents the methods.

    Threads read side by side, each with its own connection, so a search waits for no other one and for no write.
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
            history_days: how long versions are kept after another one took their place; None permanently, 0 not at all.
            busy_timeout: seconds to wait for another process's write.
            clock: current time in seconds since the epoch, for expiry.

        Raises:
            CollectionDamagedError, CollectionUnwritableError, CollectionBusyError: the file cannot be used.
            CollectionInUseError, EmbeddingMismatchError: it holds items of another store type, or of another model.
            TypeError: the location is not a path.
        """
        place, in_file = os.fspath(location), os.fspath(location) != MEMORY
        self._read_only = in_file and database.is_read_only(place)
        if in_file and not self._read_only:
            database.prepare_file(place)
        opened = Opened.at(place, index=index, clock=clock)
        snapshot = Path(place + ".faiss") if in_file else None
        follower = SqliteFollower(index, snapshot_path=snapshot)
        super().__init__(opened, follower=follower, statement_lock=nullcontext() if in_file else threading.Lock())
        self._in_file, self._history, self._markers = in_file, HistoryLimit(days=history_days), {}
        self._states: OrderedDict[State, SqliteFollower]
        self._states, self._states_lock, self._purposes = OrderedDict(), threading.Lock(), threading.Lock()
        self._closed, self._model = False, model.name if model else None
        self._unindexed = 0
        """Number of items that were written since the indexes last followed."""
        self._write_lock, self._memory_lock = threading.RLock(), SharedLock()
        self._connect = partial(database.open_connection, place, durability, busy_timeout, read_only=self._read_only)
        self._readers = ConnectionPool(self._connect)
        self._opened_writer: sqlite3.Connection | None = self._open_writer(model, store_type)
        self._file = database.file_identity(self.location) if self._in_file else None
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
        if not self._in_file or not self._write_lock.acquire(blocking=False):
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
        if self._in_file and self._opened_writer is not None:
            abandon(self._opened_writer)
            self._opened_writer = None
        if self._attachments is not None:
            self._attachments.discard_released()
        if not self._in_file:
            self._statement_lock = threading.Lock()

    def _open_writer(self, model: ModelIdentity | None, store_type: str | None) -> sqlite3.Connection:
        """Open the connection for writing, which in memory is the only one."""
        had_log = database.has_log(self.location)
        with database.translate_errors(self.location):
            writer = self._connect()
            try:
                if self._read_only:
                    check_header(writer, self.location, read_transaction(writer, read_header, writer))
                    _LOG.warning("%s cannot be written here: it is opened for reading only.", self.location)
                else:
                    # What is deleted is overwritten, whatever the library was compiled with.
                    writer.execute(_SECURE_DELETE)
                    database.prepare_schema(writer, self.location, store_type, had_log=had_log)
                    ensure_indexes(writer, self._indexed)
                # Opening takes no write lock where all is recorded: it does not wait for another process.
                if claim(self._tables(writer), model, store_type, record=False) and not self._read_only:
                    write_transaction(writer, claim, self._tables(writer), model, store_type, record=True)
            except BaseException:
                writer.close()
                raise
        return writer

    def _write(self, operation: Callable[[sqlite3.Connection], T]) -> T:
        """Run an operation in a write transaction."""
        with UNFORKED, self._write_lock, database.translate_errors(self.location):
            self._check_writable()
            if self._in_file:
                return self._write_alone(operation)
            return self._memory_lock.write(lambda: self._write_alone(operation))

    def _write_alone(self, operation: Callable[[sqlite3.Connection], T]) -> T:
        """Run an operation in a write transaction; attachments that no item refers to any more are removed after it."""
        writer, attachments = self._writer, self._attachments

        def write() -> T:
            self._check_file()
            return operation(writer)

        try:
            result = write_transaction(writer, write)
        except BaseException:
            if attachments is not None:
                attachments.discard_released()
            raise
        if attachments is not None and attachments.released:
            try:
                # The write lock keeps others from referring to a file while it is removed.
                write_transaction(writer, attachments.remove_released, partial(is_named, writer))
            except sqlite3.Error as error:
                # The deletion itself is committed.
                _LOG.warning("%s: attachments of deleted items were not removed (%s).", attachments.folder, error)
                attachments.discard_released()
        return result

    def _check_writable(self) -> None:
        self._check_open()
        if self._read_only:
            raise CollectionUnwritableError(
                self.location, "was opened for reading only, as its file system or its rights allow no more."
            )

    def _check_file(self) -> None:
        if self._in_file and database.file_identity(self.location) != self._file:
            raise CollectionUnwritableError(
                self.location,
                "the file was moved, deleted or replaced while it was open; nothing was written: open the store again.",
            )

    def _delete(self, operation: Callable[[sqlite3.Connection], T]) -> T:
        """Run an operation that deletes in a write transaction, on a full disk too."""

        def make_room() -> None:
            self._follower.drop_snapshot()
            empty_log(self._writer, self.location)

        with UNFORKED, self._write_lock:
            return retry_on_disk_full(self.location, lambda: self._write(operation), make_room)

    def _with_writer(self, operation: Callable[[sqlite3.Connection], T]) -> T:
        """Run an operation with the connection for writing, which no other thread uses meanwhile."""
        with UNFORKED, self._write_lock, database.translate_errors(self.location):
            self._check_writable()
            return operation(self._writer)

    def _read_shared(self, operation: Callable[[sqlite3.Connection], T]) -> T:
        """Run an operation as `_read` does, which holds `_statement_lock` only while it uses the connection."""

        def in_memory() -> T:
            self._check_open()
            return operation(self._writer)

        self._check_open()
        with UNFORKED, database.translate_errors(self.location):
            if not self._in_file:
                return self._memory_lock.read(in_memory)
            return self._readers.run(lambda connection: read_transaction(connection, operation, connection))

    def _check_open(self) -> None:
        if self._closed:
            raise CollectionClosedError(self.location, "the collection was closed.")

    def _note(self, written: int) -> None:
        """Have the indexes follow while much is written, so that the next search need not wait for all of it."""
        self._unindexed += written
        if self._unindexed < _INDEXED_AT_ONCE:
            return
        self._unindexed = 0

        def follow(connection: sqlite3.Connection) -> None:
            locked(self._statement_lock, lambda: self._follower.follow(connection, self._clock()))

        try:
            self._read_shared(follow)
        except CollectionError as error:
            # The items are stored; the next search reports it, if it still holds.
            _LOG.warning("%s: the indexes do not follow what was written: %s", self.location, error)

    def _follower_of(self, state: State) -> SqliteFollower:
        """Return what keeps the indexes of a state."""
        with self._states_lock:
            if state not in self._states:
                # The archive has nothing in common with the current items.
                current = None if state is ARCHIVED else self._follower
                self._states[state] = SqliteFollower(self._opened.index, state=state, current=current)
            self._states.move_to_end(state)
            while len(self._states) > _MOST_STATES:
                self._states.popitem(last=False)
            return self._states[state]

    def _view(self, state: State, shown: str, *, clock: Callable[[], float]) -> SqliteView:
        return SqliteView(self, state, shown, clock=clock)

    def _run_view(self, run: str, actor: str | None) -> SqliteRunView:
        return SqliteRunView(self, run, actor)

    def _writing(self, operation: Callable[[StoreTables], T]) -> T:
        return self._write(lambda connection: operation(self._tables(connection)))

    def _removing(self, operation: Callable[[StoreTables], T]) -> T:
        return self._delete(lambda connection: operation(self._tables(connection)))

    def record_export(self, export: ExportRecord) -> None:
        """Remember an export, durably."""
        self._write(lambda connection: _record(connection, export))

    def exports(self) -> list[ExportRecord]:
        """Return the exports that were made, the oldest first."""

        def read(connection: sqlite3.Connection) -> list[ExportRecord]:
            rows = connection.execute("SELECT body FROM exports ORDER BY number").fetchall()
            return [ExportRecord.from_json(json.loads(body)) for (body,) in rows]

        return self._read(read)

    @contextmanager
    def exclusive(self, purpose: str) -> Iterator[None]:
        """Exclude every other process, and thread, that names the same purpose until the block ends."""
        if not self._in_file:
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
            return self._close() if self._in_file else self._memory_lock.write(self._close)

    def _close(self) -> None:
        was_open, self._closed = not self._closed, True
        try:
            if was_open and not self._read_only:
                self._follower.save(self._writer)
        finally:
            # Also when an earlier call was interrupted; closing a closed connection does nothing.
            self._readers.close()
            if self._opened_writer is not None:
                self._opened_writer.close()
            for follower in self._states.values():
                follower.indexes.close()
            for plan_id in list(self._markers):
                self._end_work(plan_id)


def open_sqlite(location: str, options: CollectionOptions) -> SqliteCollection:
    """Open the SQLite file at a path, at `sqlite:///relative.db` or at `sqlite:////absolute.db`.

    Raises:
        CollectionError: it cannot be opened.
    """
    return SqliteCollection(
        path_of(location),
        model=options.model,
        store_type=options.store_type,
        durability=options.durability,
        index=options.index,
        clock=options.clock,
        busy_timeout=options.busy_timeout,
        history_days=options.history_days,
    )
