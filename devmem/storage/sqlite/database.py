"""The SQLite file: opening it, creating its schema, its write transactions, and translating SQLite's errors."""

from __future__ import annotations

import logging
import os
import sqlite3
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final, TypeVar
from uuid import uuid4

from pydantic import ValidationError

from devmem.encryption.files import connect, diagnose
from devmem.errors import (
    CollectionBusyError,
    CollectionClosedError,
    CollectionDamagedError,
    CollectionError,
    CollectionUnwritableError,
    PoolClosedError,
)
from devmem.model.conditions import micros_of
from devmem.model.items import why_unreadable
from devmem.storage.connections import enable_wal, read_transaction, write_transaction
from devmem.storage.erasure import remove_partial_files
from devmem.storage.protocol import Durability
from devmem.storage.sqlite.schema import SCHEMA_VERSION, create_tables
from devmem.storage.writing import missing_columns
from devmem.text.analysis import ANALYSIS_VERSION
from devmem.text.files import create_empty

T = TypeVar("T")

_LOG: Final = logging.getLogger(__name__)


MEMORY: Final = ":memory:"
_CACHE_KIB: Final = 16_384
"""Memory for pages; SQLite's own 2 MB do not hold the texts of 10,000 memories."""
APPLICATION_ID: Final = 0x6D656D6F
_CHECKPOINT_ATTEMPTS: Final = 200
_CREATION_ATTEMPTS: Final = 50


def prepare_file(location: str) -> None:
    """Create the file and its folder where they are missing, and remove the partial files of killed writers.

    Only SQLite opens a file that is there: closing it elsewhere would release the locks that this process has on it
    (https://www.sqlite.org/howtocorrupt.html, 2.2).

    Raises:
        CollectionDamagedError: the file is gone or empty, but what belongs to it is still there.
        CollectionUnwritableError: the file or its folder cannot be created.
    """
    path = Path(location)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise CollectionUnwritableError(location, f"its folder cannot be made: {error}") from error
    remove_partial_files(path, Path(location + ".faiss"))
    _refuse_lost_file(path)
    try:
        create_empty(path)
    except OSError as error:
        raise CollectionUnwritableError(location, f"the file cannot be created: {error}") from error


def _refuse_lost_file(path: Path) -> None:
    """Refuse to start empty where an index snapshot, or a log of commits, shows that the file held items.

    SQLite would delete the log, and with it the commits that could still be rescued.
    """
    if path.exists() and (not path.is_file() or path.stat().st_size):
        return
    for beside in (Path(f"{path}.faiss"), Path(f"{path}-wal")):
        if beside.is_file() and beside.stat().st_size:
            raise CollectionDamagedError(
                path,
                f"the file is {'empty' if path.exists() else 'missing'}, although {beside.name} beside it shows that "
                f"it held items: restore a backup, or remove {beside} to start with an empty store.",
            )


def has_log(location: str) -> bool:
    """Whether a log of commits is beside the file; to be asked before SQLite opens the file, which makes one."""
    return Path(f"{location}-wal").exists()


def is_read_only(location: str) -> bool:
    """Whether there is a file with content that cannot be written here, as on a read-only file system."""
    path, log = Path(location), Path(f"{location}-wal")
    if not path.is_file() or path.stat().st_size == 0:
        return False
    # Where a log that can be written is there already, the folder needs not to be.
    return not os.access(path, os.W_OK) or not (os.access(path.parent, os.W_OK) or os.access(log, os.W_OK))


def read_only_uri(location: str) -> str:
    """Return the URI by which SQLite reads a file; one without a log is not open elsewhere, and no log is created."""
    return f"{Path(location).absolute().as_uri()}?mode=ro{'' if has_log(location) else '&immutable=1'}"


def file_identity(location: str) -> tuple[int, int] | None:
    """Return device and inode of the file at a location, None when there is none; a replaced file has others."""
    try:
        found = os.stat(location)  # noqa: PTH116 - each write asks, and a path takes several times as long
    except OSError:
        return None
    return found.st_dev, found.st_ino


def open_connection(
    location: str, durability: Durability, busy_timeout: float, *, read_only: bool = False
) -> sqlite3.Connection:
    """Open a connection in autocommit mode; `busy_timeout` is in seconds."""
    connection = connect(
        location,
        uri=read_only_uri(location) if read_only else None,
        timeout=busy_timeout,
        isolation_level=None,
        check_same_thread=False,
        cached_statements=256,
    )
    try:
        connection.execute(f"PRAGMA synchronous = {durability.upper()}")
        connection.execute("PRAGMA temp_store = MEMORY")
        connection.execute(f"PRAGMA cache_size = -{_CACHE_KIB}")
        connection.create_function("micros", 1, micros_of, deterministic=True)
    except BaseException:
        connection.close()
        raise
    return connection


@dataclass(frozen=True, slots=True, kw_only=True)
class Header:
    """Identification of a file."""

    application_id: int
    version: int
    tables: int


def read_header(connection: sqlite3.Connection) -> Header:
    """Return what identifies a file."""
    queries = ("PRAGMA application_id", "PRAGMA user_version", "SELECT count(*) FROM sqlite_master")
    application_id, version, tables = (connection.execute(query).fetchone()[0] for query in queries)
    return Header(application_id=application_id, version=version, tables=tables)


def prepare_schema(connection: sqlite3.Connection, location: str, store_type: str | None, *, had_log: bool) -> None:
    """Create the schema in a new file.

    Args:
        connection: in autocommit mode.
        location: place of the file.
        store_type: store type to record in a new file.
        had_log: what `has_log` answered before the file was opened.

    Raises:
        CollectionDamagedError: the file is not devmem's, was cut off, or was moved away from its log.
        CollectionError: it is of another format, or lacks columns of items.
    """
    # In one transaction: another process may be creating the file right now.
    header = read_transaction(connection, read_header)
    if not had_log and not header.tables:
        header = _refuse_lost_log(connection, location)
    check_header(connection, location, header)
    if header.version == SCHEMA_VERSION:
        return
    try:
        if location != MEMORY:
            enable_wal(connection)
        write_transaction(connection, lambda _: _create_schema(connection, store_type))
    except BaseException:
        if location != MEMORY and not header.tables:
            # It would look like a file that lost its log. Where another process uses it, that one goes on creating it.
            with suppress(sqlite3.Error):
                connection.execute("PRAGMA journal_mode = DELETE")
        raise


def _refuse_lost_log(connection: sqlite3.Connection, location: str) -> Header:
    """Refuse a file without tables that has been used with a log, which is where its first commits are."""
    header = read_transaction(connection, read_header)
    (mode,) = connection.execute("PRAGMA journal_mode").fetchone()
    for _ in range(_CREATION_ATTEMPTS if mode == "wal" else 0):
        if header.tables:
            break
        # Another process may be creating it right now.
        time.sleep(0.01)
        header = read_transaction(connection, read_header)
    if mode == "wal" and not header.tables:
        raise lost_log_error(location)
    return header


def lost_log_error(location: str) -> CollectionDamagedError:
    """Return the error for a file without tables, as its first commits are in the log."""
    return CollectionDamagedError(
        location,
        "the file was moved or copied without its log, which holds all that was stored: put the log beside it as "
        f"{Path(location).name}-wal, or remove the file to start with an empty store.",
    )


def check_header(connection: sqlite3.Connection, location: str, header: Header) -> None:
    """Refuse a file that is not devmem's, was cut off, is of another format, or lacks columns of items."""
    found, version, tables = header.application_id, header.version, header.tables
    if found not in (0, APPLICATION_ID) or (found == 0 and tables):
        raise CollectionDamagedError(location, "this SQLite file was not made by devmem; give the store another path.")
    if location != MEMORY and _is_cut_off(connection, Path(location)):
        raise CollectionDamagedError(
            location,
            "the file was cut off and was left unchanged: restore a backup, or move it away to start empty.",
        )
    if tables and version != SCHEMA_VERSION:
        raise CollectionError(
            location,
            f"is of format {version}, and this devmem reads format {SCHEMA_VERSION}: use the devmem that wrote it.",
        )
    if tables and (problem := missing_columns(columns_of_items(connection))):
        raise CollectionError(location, problem)


def columns_of_items(connection: sqlite3.Connection) -> list[str]:
    """Return the columns that the table of items has."""
    return [name for (name,) in connection.execute("SELECT name FROM pragma_table_info('items')")]


def _create_schema(connection: sqlite3.Connection, store_type: str | None) -> None:
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    if version == SCHEMA_VERSION:
        # Another process was faster.
        return
    create_tables(connection)
    connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
    meta: dict[str, object] = {"collection": uuid4().hex, "store_type": store_type, "analysis": ANALYSIS_VERSION}
    meta |= {"generation": 0, "changes_floor": 0}
    connection.executemany("INSERT INTO meta(key, value) VALUES (?, ?)", list(meta.items()))
    connection.execute(f"PRAGMA user_version = {SCHEMA_VERSION}")


def _is_cut_off(connection: sqlite3.Connection, path: Path) -> bool:
    # SQLite itself refuses a file that lacks whole pages, but not one that ends within a page.
    # SQLCipher returns text.
    page_size = int(connection.execute("PRAGMA page_size").fetchone()[0])
    for _ in range(_CHECKPOINT_ATTEMPTS):
        if path.stat().st_size % page_size == 0:
            return False
        # A checkpoint that ran out of space leaves a part of a page, which the log still has as a whole.
        is_busy, _, _ = connection.execute("PRAGMA wal_checkpoint(FULL)").fetchone()
        if not is_busy:
            break
        # Another process may be in the middle of a checkpoint.
        time.sleep(0.01)
    return bool(path.stat().st_size % page_size)


@contextmanager
def translate_errors(location: str) -> Iterator[None]:
    """Raise SQLite's errors as `CollectionError`s, which say what to do."""
    try:
        yield
    except sqlite3.Error as error:
        raise _translated(location, error) from error
    except UnicodeDecodeError as error:
        # `sqlite3` quotes names of a damaged schema in its messages, and raises this where one is not UTF-8.
        raise _damaged(location, "its schema cannot be read") from error
    except ValidationError as error:
        raise _damaged(location, f"an item cannot be read: {why_unreadable(error)}") from error
    except PoolClosedError as error:
        raise CollectionClosedError(location, "the collection was closed.") from error


def _translated(location: str, error: sqlite3.Error) -> CollectionError:
    text, code = str(error), getattr(error, "sqlite_errorname", "")
    if code.startswith("SQLITE_FULL") or "disk is full" in text:
        return CollectionUnwritableError(
            location, "the disk is full; this write failed as a whole. Make room and try again."
        )
    if code.startswith(("SQLITE_BUSY", "SQLITE_LOCKED")):
        return CollectionBusyError(
            location, "another process held the write lock for too long; this write failed as a whole. Try again."
        )
    if code.startswith(("SQLITE_READONLY", "SQLITE_CANTOPEN", "SQLITE_PERM")):
        folder = Path(location).parent
        if is_read_only(location) and has_log(location):
            return CollectionUnwritableError(
                location,
                f"can only be read here, but commits are still in its log {location}-wal: open it once where it can be "
                "written.",
            )
        return CollectionUnwritableError(
            location, f"cannot be opened for writing ({text}); check {folder} and its rights."
        )
    if code.startswith("SQLITE_IOERR"):
        return CollectionUnwritableError(location, f"the disk failed ({text}); this write failed as a whole.")
    if code.startswith("SQLITE_NOTADB") and (refused := diagnose(location)) is not None:
        return refused
    if code.startswith(("SQLITE_CORRUPT", "SQLITE_NOTADB")):
        return _damaged(location, text)
    if isinstance(error, sqlite3.ProgrammingError) and "closed" in text:
        return CollectionClosedError(location, "the collection was closed.")
    return CollectionError(location, f"SQLite says: {text}")


def _damaged(location: str, how: str) -> CollectionDamagedError:
    return CollectionDamagedError(
        location,
        f"the file is damaged ({how}) and was left unchanged: restore a backup, or move it away to start with an "
        "empty one.",
    )


def set_meta(connection: sqlite3.Connection, key: str, value: str | int | None) -> None:
    """Record a property of the collection."""
    connection.execute("INSERT OR REPLACE INTO meta(key, value) VALUES (?, ?)", (key, value))


def read_meta(connection: sqlite3.Connection) -> dict[str, str | int | None]:
    """Return every recorded property of the collection."""
    return dict(connection.execute("SELECT key, value FROM meta"))


def damage_error(what: str) -> sqlite3.DatabaseError:
    """Return an error that `translate_errors` reports as damage of the file."""
    error = sqlite3.DatabaseError(what)
    error.sqlite_errorname = "SQLITE_CORRUPT"
    return error


_CODES: Final = ("SQLITE_FULL", "SQLITE_IOERR_WRITE")


def retry_on_disk_full(location: str, delete: Callable[[], T], make_room: Callable[[], None]) -> T:
    """Delete; where the disk is full, make room and try once more.

    Raises:
        CollectionUnwritableError: there is too little room even so; nothing was deleted.
    """
    try:
        return delete()
    except CollectionUnwritableError as error:
        if not _is_full(error):
            raise
    make_room()
    try:
        return delete()
    except CollectionUnwritableError as error:
        if not _is_full(error):
            raise
        raise CollectionUnwritableError(
            location,
            "the disk is full, and a deletion needs some room itself; nothing was deleted. The index snapshot was "
            "removed and the log shortened, which was not enough: free a few megabytes on this disk, or move the file "
            "and those beside it to another one, and delete again.",
        ) from error


def _is_full(error: CollectionUnwritableError) -> bool:
    return getattr(error.__cause__, "sqlite_errorname", "") in _CODES
