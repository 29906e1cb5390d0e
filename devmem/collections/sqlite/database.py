"""The SQLite file: its schema, how it is opened, and how SQLite's errors are worded."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final, Literal
from uuid import uuid4

from devmem.collections.sqlite.migrations import upgrade_from_1
from devmem.collections.sqlite.schema import SCHEMA_VERSION, make_tables
from devmem.errors import (
    CollectionBusyError,
    CollectionClosedError,
    CollectionDamagedError,
    CollectionError,
    CollectionUnwritableError,
)
from devmem.text.analysis import ANALYSIS_VERSION

MEMORY: Final = ":memory:"
_CACHE_KIB: Final = 16_384
"""Memory for pages; SQLite's own 2 MB do not hold the texts of 10,000 memories."""
APPLICATION_ID: Final = 0x6D656D6F

Durability = Literal["full", "normal"]
"""`full` survives power loss; `normal` may lose the last commits then, but never when only the process dies."""


def make_place(location: str) -> None:
    """Make the folder that the file will be in.

    The file itself is never opened but by SQLite: closing it would let go of the locks that this process has on it
    (https://www.sqlite.org/howtocorrupt.html, 2.2).
    """
    try:
        Path(location).parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise CollectionUnwritableError(location, f"its folder cannot be made: {error}") from error


def file_identity(location: str) -> tuple[int, int] | None:
    """Say which file is at a place: another one is there after it was replaced, and none after it was deleted."""
    try:
        found = Path(location).stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino


def open_connection(location: str, durability: Durability, busy_timeout: float) -> sqlite3.Connection:
    """Open a connection in autocommit mode; `busy_timeout` is in seconds."""
    connection = sqlite3.connect(
        location, timeout=busy_timeout, isolation_level=None, check_same_thread=False, cached_statements=256
    )
    try:
        connection.execute(f"PRAGMA synchronous = {durability.upper()}")
        connection.execute("PRAGMA temp_store = MEMORY")
        connection.execute(f"PRAGMA cache_size = -{_CACHE_KIB}")
    except BaseException:
        connection.close()
        raise
    return connection


def prepare(connection: sqlite3.Connection, location: str, store_type: str | None) -> None:
    """Make the schema in a new file, or check that this one is ours and of a version we know."""
    # In one transaction: another process may be making the file right now.
    with snapshot(connection):
        found = connection.execute("PRAGMA application_id").fetchone()[0]
        version = connection.execute("PRAGMA user_version").fetchone()[0]
        tables = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]
    if found not in (0, APPLICATION_ID) or (found == 0 and tables):
        raise CollectionDamagedError(location, "this SQLite file was not made by devmem; give the store another path.")
    if location != MEMORY and _is_cut_off(connection, Path(location)):
        raise CollectionDamagedError(
            location, "the file was cut off and was left as it is: restore a backup, or move it away to start anew."
        )
    if version > SCHEMA_VERSION:
        raise CollectionError(
            location,
            f"was written by a newer devmem (format {version}, known {SCHEMA_VERSION}): upgrade devmem.",
        )
    if version == SCHEMA_VERSION:
        return
    if location != MEMORY:
        _enter_wal(connection)
    with transaction(connection):
        if connection.execute("PRAGMA user_version").fetchone()[0] == SCHEMA_VERSION:
            return
        if version == 1:
            upgrade_from_1(connection, location)
            connection.execute(f"PRAGMA user_version = {SCHEMA_VERSION}")
            return
        make_tables(connection)
        connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
        connection.execute(f"PRAGMA user_version = {SCHEMA_VERSION}")
        facts = {
            "collection": uuid4().hex,
            "store_type": store_type,
            "analysis": ANALYSIS_VERSION,
            "count": 0,
            "generation": 0,
            "changes_floor": 0,
        }
        connection.executemany("INSERT INTO meta(key, value) VALUES (?, ?)", list(facts.items()))


def _is_cut_off(connection: sqlite3.Connection, path: Path) -> bool:
    # SQLite itself refuses a file that lacks whole pages, but not one that ends within a page.
    (page_size,) = connection.execute("PRAGMA page_size").fetchone()
    return bool(path.stat().st_size % page_size)


def _enter_wal(connection: sqlite3.Connection) -> None:
    # Changing the journal mode ignores the busy timeout, so two processes that make a file at once meet here.
    for attempt in range(200):
        try:
            connection.execute("PRAGMA page_size = 8192")
            connection.execute("PRAGMA journal_mode = WAL")
        except sqlite3.OperationalError as error:
            if "locked" not in str(error) or attempt == 199:
                raise
            time.sleep(0.01)
        else:
            return


@contextmanager
def transaction(connection: sqlite3.Connection) -> Iterator[None]:
    """Take the write lock, and commit everything or nothing."""
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise


@contextmanager
def snapshot(connection: sqlite3.Connection) -> Iterator[None]:
    """Read several things of one moment."""
    if connection.in_transaction:
        yield
        return
    connection.execute("BEGIN")
    try:
        yield
    finally:
        connection.execute("COMMIT")


@contextmanager
def worded(location: str) -> Iterator[None]:
    """Turn SQLite's errors into ours, which say what to do."""
    try:
        yield
    except sqlite3.Error as error:
        raise _reword(location, error) from error


def _reword(location: str, error: sqlite3.Error) -> CollectionError:
    text, code = str(error), getattr(error, "sqlite_errorname", "")
    if code.startswith("SQLITE_FULL") or "disk is full" in text:
        return CollectionUnwritableError(location, "the disk is full; nothing was written. Make room and try again.")
    if code.startswith(("SQLITE_BUSY", "SQLITE_LOCKED")):
        return CollectionBusyError(
            location, "another process held the write lock for too long; nothing was written. Try again."
        )
    if code.startswith(("SQLITE_READONLY", "SQLITE_CANTOPEN", "SQLITE_PERM")):
        folder = Path(location).parent
        return CollectionUnwritableError(
            location, f"cannot be opened for writing ({text}); check {folder} and its rights."
        )
    if code.startswith("SQLITE_IOERR"):
        return CollectionUnwritableError(location, f"the disk failed ({text}); nothing was written.")
    if code.startswith(("SQLITE_CORRUPT", "SQLITE_NOTADB")):
        return CollectionDamagedError(
            location,
            f"the file is damaged ({text}) and was left as it is: restore a backup, or move it away to start anew.",
        )
    if isinstance(error, sqlite3.ProgrammingError) and "closed" in text:
        return CollectionClosedError(location, "the collection was closed.")
    return CollectionError(location, f"SQLite says: {text}")


def set_meta(connection: sqlite3.Connection, key: str, value: str | int | None) -> None:
    """Record a fact about the collection."""
    connection.execute("INSERT OR REPLACE INTO meta(key, value) VALUES (?, ?)", (key, value))


def read_meta(connection: sqlite3.Connection) -> dict[str, str | int | None]:
    """Read every recorded fact about the collection."""
    return dict(connection.execute("SELECT key, value FROM meta"))
