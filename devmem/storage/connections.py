"""SQLite files: their transactions and connections, and the small ones beside a collection, which are examined here."""

from __future__ import annotations

import json
import sqlite3
import threading
import time
from collections.abc import Callable
from contextlib import closing, suppress
from pathlib import Path
from typing import Final, Generic, Protocol, TypeVar

from devmem.encryption.files import connect
from devmem.errors import PoolClosedError
from devmem.forks import UNFORKED, abandon, follow_forks
from devmem.storage.erasure import Residue
from devmem.storage.protocol import Durability
from devmem.text.files import create_empty

_WAL_ATTEMPTS: Final = 200
_PATIENCE_MS: Final = 2000
"""Milliseconds to wait for readers of an older state before the log is left to them."""
_OTHER_READERS: Final = "others read an older state: it is emptied when the store is next opened or forgotten from"


def tables_of(path: Path) -> frozenset[str]:
    """Return the names of a file's tables; none where it is no SQLite file, or cannot be read as one."""
    try:
        with closing(connect_to_examine(path)) as connection:
            return frozenset(name for (name,) in connection.execute("SELECT name FROM sqlite_master"))
    except sqlite3.Error:
        return frozenset()


def enable_wal(connection: sqlite3.Connection) -> None:
    """Have commits written to a log beside the file, where readers and a writer do not wait for one another."""
    # Changing the journal mode ignores the busy timeout, so two processes that make a file at once meet here.
    for attempt in range(_WAL_ATTEMPTS):
        try:
            connection.execute("PRAGMA journal_mode = WAL")
        except sqlite3.OperationalError as error:
            if "locked" not in str(error) or attempt == _WAL_ATTEMPTS - 1:
                raise
            time.sleep(0.01)
        else:
            return


def rewrite_pages(connection: sqlite3.Connection, place: str) -> list[Residue]:
    """Rewrite a database, so that nothing deleted is left in it; return it where that failed."""
    try:
        connection.execute("VACUUM")
    except sqlite3.Error as error:
        return [Residue(place=place, reason=f"it could not be rewritten: {error}", failed=True)]
    return []


def empty_log(connection: sqlite3.Connection, place: str) -> list[Residue]:
    """Move the log into the database as far as there is room, and truncate it; return it where some is left."""
    (patience,) = connection.execute("PRAGMA busy_timeout").fetchone()
    connection.execute(f"PRAGMA busy_timeout = {min(patience, _PATIENCE_MS)}")
    try:
        is_busy, _, _ = connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
    except sqlite3.OperationalError:
        # Locked by another process's checkpoint, or without room; the next write reports that.
        is_busy = True
    finally:
        connection.execute(f"PRAGMA busy_timeout = {patience}")
    return [Residue(place=f"{place}-wal", reason=_OTHER_READERS)] if is_busy else []


def is_in_rows(path: Path, word: str) -> bool:
    """Whether a word is in a row of a database, so that its bytes say nothing about what was deleted."""
    try:
        with closing(connect_to_examine(path)) as connection:
            tables = [name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
            return any(_is_in_table(connection, table, word) for table in tables)
    except sqlite3.Error:
        return False


def _is_in_table(connection: sqlite3.Connection, table: str, word: str) -> bool:
    name = table.replace('"', '""')
    columns = [column.replace('"', '""') for _, column, *_ in connection.execute(f'PRAGMA table_info("{name}")')]
    texts = " OR ".join(
        f'instr(CAST("{column}" AS TEXT), :word) OR instr(CAST("{column}" AS TEXT), :escaped)' for column in columns
    )
    query = f'SELECT 1 FROM "{name}" WHERE {texts} LIMIT 1'
    return connection.execute(query, {"word": word, "escaped": json.dumps(word)[1:-1]}).fetchone() is not None


def connect_to_examine(path: Path) -> sqlite3.Connection:
    """Open a file read-only, which may be damaged."""
    # Without a log nobody has it open, and reading it makes none.
    alone = "" if Path(f"{path}-wal").exists() else "&immutable=1"
    connection = connect(path, uri=f"{path.absolute().as_uri()}?mode=ro{alone}")
    # A damaged text need not be UTF-8.
    connection.text_factory = lambda raw: raw.decode("utf-8", "replace")
    return connection


T = TypeVar("T")

_KEPT: Final = 4
"""Maximum number of idle connections; each has its own caches."""


class Closable(Protocol):
    """A connection, as a pool keeps it."""

    def close(self) -> None:
        """Close it; nothing happens where it is closed."""
        ...


C = TypeVar("C", bound=Closable)


class ConnectionPool(Generic[C]):
    """Connections that are opened on demand and used again. Thread-safe, as appending to a list and popping are."""

    def __init__(self, connect: Callable[[], C]) -> None:
        """Start empty; `connect` opens a connection that any thread may use."""
        self._connect = connect
        self._idle: list[C] = []
        self._closed = False
        follow_forks(self)

    def run(self, operation: Callable[[C], T]) -> T:
        """Run an operation with a connection that no other thread uses meanwhile.

        Raises:
            PoolClosedError: the pool is closed.
        """
        if self._closed:
            raise PoolClosedError
        try:
            # The one used last has its pages in memory.
            connection = self._idle.pop()
        except IndexError:
            connection = self._connect()
        try:
            result = operation(connection)
        except BaseException:
            # A statement that was not read to its end, which the traceback keeps alive, holds the connection in its
            # snapshot even after a rollback: whoever used it next would not see what was written since.
            connection.close()
            raise
        if len(self._idle) >= _KEPT:
            connection.close()
        else:
            self._idle.append(connection)
        if self._closed:
            self.close()
        return result

    def close_idle(self) -> None:
        """Close the idle connections, as when the server was restarted."""
        with suppress(IndexError):
            while True:
                self._idle.pop().close()

    def close(self) -> None:
        """Close the idle connections; those in use are closed when their operation ends."""
        self._closed = True
        self.close_idle()

    def release_before_fork(self) -> None:
        """Close the idle connections, which the next operations open again."""
        self.close_idle()

    def restart_in_child(self) -> None:
        """Leave connections to the parent that became idle on another thread meanwhile."""
        abandon(*self._idle)
        self._idle = []


class SidecarDb:
    """A small SQLite file that the first operation opens; safe to use from several threads, one operation at a time."""

    def __init__(self, file: Path | None, schema: str, *, durability: Durability = "full") -> None:
        """Name the file; nothing is opened yet.

        Args:
            file: its path, created for its owner alone where it is missing; None is a database in memory.
            schema: statements that create the tables where they are missing.
            durability: what a commit survives.
        """
        self._file, self._schema = file, schema
        self._durability: Durability = durability
        self._lock = threading.Lock()
        self._opened: sqlite3.Connection | None = None
        self._closed = False
        follow_forks(self)

    @property
    def is_absent(self) -> bool:
        """Whether nothing was written yet, here or by another process."""
        return self._opened is None and (self._file is None or not self._file.exists())

    def run(self, operation: Callable[[sqlite3.Connection], T]) -> T:
        """Run an operation with the connection, which no other thread uses meanwhile.

        Raises:
            PoolClosedError: it was closed.
            OSError: the file cannot be created.
            sqlite3.Error: it cannot be used.
        """
        with UNFORKED, self._lock:
            if self._closed:
                raise PoolClosedError
            if self._opened is None:
                self._opened = self._open()
            return operation(self._opened)

    def _open(self) -> sqlite3.Connection:
        """Open the file in autocommit mode, for any thread; deleted content is overwritten."""
        if self._file is not None:
            self._file.parent.mkdir(parents=True, exist_ok=True)
            create_empty(self._file)
        opened = connect(self._file or ":memory:", timeout=30.0, isolation_level=None, check_same_thread=False)
        try:
            for pragma in ("secure_delete = ON", "foreign_keys = ON", f"synchronous = {self._durability}"):
                opened.execute(f"PRAGMA {pragma}")
            if self._file is not None:
                enable_wal(opened)
            opened.executescript(self._schema)
        except BaseException:
            opened.close()
            raise
        return opened

    def rewrite(self) -> list[Residue]:
        """Rewrite the file and empty its log, so that nothing deleted is left; return where some remains."""
        if self._file is None or self.is_absent:
            return []
        place = str(self._file)
        return self.run(lambda db: rewrite_pages(db, place) + empty_log(db, place))

    def close(self) -> None:
        """Release the file; it cannot be used afterwards. Closing twice is allowed."""
        with self._lock:
            self._closed = True
            if self._opened is not None:
                self._opened.close()
                self._opened = None

    def release_before_fork(self) -> None:
        """Close the connection, which the next operation opens again; a database in memory would be lost."""
        if self._file is None or not self._lock.acquire(blocking=False):
            return
        try:
            if self._opened is not None:
                self._opened.close()
                self._opened = None
        finally:
            self._lock.release()

    def restart_in_child(self) -> None:
        """Leave a connection to the parent that another thread was using."""
        if self._file is not None and self._opened is not None:
            abandon(self._opened)
            self._opened = None


class SharedLock:
    """A lock that any number of readers, or one writer, hold. Not reentrant; a waiting writer goes first."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._readers: set[object] = set()
        self._waiting: set[object] = set()
        self._writer: object | None = None
        follow_forks(self)

    def restart_in_child(self) -> None:
        """Release it: those who held it were threads of the parent."""
        self._readers, self._waiting, self._writer = set(), set(), None

    def read(self, operation: Callable[[], T]) -> T:
        """Run an operation while no writer runs one."""
        holder = object()
        try:
            with self._changed:
                self._changed.wait_for(lambda: self._writer is None and not self._waiting)
                self._readers.add(holder)
            return operation()
        finally:
            self._release(holder)

    def write(self, operation: Callable[[], T]) -> T:
        """Run an operation while no other thread runs one."""
        holder = object()
        try:
            with self._changed:
                self._waiting.add(holder)
                self._changed.wait_for(lambda: self._writer is None and not self._readers)
                self._writer = holder
                self._waiting.discard(holder)
            return operation()
        finally:
            self._release(holder)

    def _release(self, holder: object) -> None:
        """Forget a holder, whatever it had come to: an exception may be raised anywhere."""
        with self._changed:
            self._readers.discard(holder)
            self._waiting.discard(holder)
            if self._writer is holder:
                self._writer = None
            self._changed.notify_all()


def write_transaction(connection: sqlite3.Connection, operation: Callable[[sqlite3.Connection], T]) -> T:
    """Call an operation under the write lock; commit all that it wrote, or nothing when anything is raised.

    The lock is taken before the operation reads: what was read before another process's commit could not be written any
    more.
    """
    return _run(connection, "BEGIN IMMEDIATE", operation)


def read_transaction(connection: sqlite3.Connection, operation: Callable[[sqlite3.Connection], T]) -> T:
    """Call an operation that reads the database as of one commit."""
    return _run(connection, "BEGIN", operation)


def _run(connection: sqlite3.Connection, begin: str, operation: Callable[[sqlite3.Connection], T]) -> T:
    # Not a context manager: Ctrl-C between its `__enter__` and the block, or at the start of its `__exit__`, would
    # leave the transaction open, and with it every other process locked out.
    try:
        # Of a transaction that an exception in an earlier rollback left open; without one it does nothing.
        connection.rollback()
        connection.execute(begin)
        result = operation(connection)
        connection.execute("COMMIT")
        return result
    finally:
        connection.rollback()
