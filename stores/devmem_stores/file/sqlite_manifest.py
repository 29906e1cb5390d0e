"""The record of the indexed files in a small SQLite file beside the collection."""

from __future__ import annotations

import json
import logging
import sqlite3
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from devmem.errors import CollectionDamagedError, CollectionUnwritableError
from devmem.storage import Residue, write_transaction
from devmem.storage.sidecar_db import scrub
from devmem.text.files import create_empty
from devmem_stores.file.manifest import Entry

_LOG: Final = logging.getLogger("devmem.stores.file")
_VERSION: Final = 1
_MEMORY: Final = ":memory:"
_SCHEMA: Final = (
    "CREATE TABLE files(name TEXT PRIMARY KEY, size INTEGER NOT NULL, mtime_ns INTEGER NOT NULL, "
    "checked_ns INTEGER NOT NULL, sha256 TEXT NOT NULL, recipe TEXT NOT NULL, problem TEXT NOT NULL, "
    "chunks INTEGER NOT NULL, ids TEXT NOT NULL) WITHOUT ROWID",
    # Chunks of no file: entered before they are stored, and before they are deleted.
    "CREATE TABLE loose(id TEXT PRIMARY KEY) WITHOUT ROWID",
)
_FILES: Final = ("", "-journal", "-wal", "-shm")
_DAMAGE: Final = frozenset(
    [
        sqlite3.SQLITE_ERROR,  # the schema is not what was created
        sqlite3.SQLITE_CORRUPT,
        sqlite3.SQLITE_FORMAT,
        sqlite3.SQLITE_MISMATCH,
        sqlite3.SQLITE_NOTADB,
    ]
)
_SHORT_READ: Final = sqlite3.SQLITE_IOERR_SHORT_READ
_COLUMNS: Final = "name, size, mtime_ns, checked_ns, sha256, recipe, problem, chunks"


class SqliteManifest:
    """The files of one index; `Manifest` documents the methods."""

    def __init__(self, path: str | None) -> None:
        """Open the file; it is created where it is absent, and rebuilt where it is damaged. None keeps it in memory.

        Raises:
            CollectionUnwritableError: it cannot be opened or written.
        """
        self._path = path or _MEMORY
        with self._translated():
            try:
                self._db = _opened(self._path)
            except _DamagedError as error:
                _LOG.warning("%s: is damaged (%s) and is rebuilt; every file is read again.", path, error)
                for suffix in _FILES:
                    Path(f"{path}{suffix}").unlink(missing_ok=True)
                self._db = _opened(self._path)

    @contextmanager
    def _translated(self) -> Iterator[None]:
        try:
            yield
        except _DamagedError as error:
            raise CollectionDamagedError(self._path, f"is damaged ({error}): delete it, it is rebuilt.") from error
        except sqlite3.Error as error:
            if _is_damage(error):
                raise CollectionDamagedError(
                    self._path, f"is damaged ({error}): it is rebuilt when the store is opened again."
                ) from error
            raise CollectionUnwritableError(self._path, f"cannot be written: {error}") from error
        except OSError as error:
            raise CollectionUnwritableError(self._path, f"cannot be created: {error}") from error

    def _write(self, operation: Callable[[], None]) -> None:
        with self._translated():
            write_transaction(self._db, operation)

    def entries(self) -> dict[str, Entry]:
        """Return all files by name."""
        with self._translated():
            rows = self._db.execute(f"SELECT {_COLUMNS} FROM files ORDER BY name").fetchall()
        names = _COLUMNS.split(", ")
        return {row[0]: Entry(**dict(zip(names, row, strict=True))) for row in rows}

    def ids(self, name: str) -> list[str]:
        """Return the ids of a file's chunks, in order."""
        with self._translated():
            return self._ids(name)

    def _ids(self, name: str) -> list[str]:
        row = self._db.execute("SELECT ids FROM files WHERE name = ?", (name,)).fetchone()
        return json.loads(row[0]) if row else []

    def intend(self, names: Sequence[str], ids: Iterable[str]) -> None:
        """Record that the files are being indexed, before their chunks are stored."""

        def operation() -> None:
            # Without this, a file that changes back would pass for unchanged while its chunks are not.
            self._db.executemany("UPDATE files SET recipe = '' WHERE name = ?", [(name,) for name in names])
            self._loosen(ids)

        self._write(operation)

    def record(self, entry: Entry, ids: Sequence[str]) -> None:
        """Record that a file is indexed."""

        def operation() -> None:
            self._loosen(self._ids(entry.name))
            values = (
                entry.name, entry.size, entry.mtime_ns, entry.checked_ns, entry.sha256, entry.recipe, entry.problem,
            )  # fmt: skip
            self._db.execute(
                f"INSERT OR REPLACE INTO files({_COLUMNS}, ids) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
                (*values, len(ids), json.dumps(list(ids))),
            )
            self._delete_loose(ids)

        self._write(operation)

    def touch(self, entry: Entry) -> None:
        """Record that a file was checked and is unchanged."""
        values = (entry.size, entry.mtime_ns, entry.checked_ns, entry.name)

        def operation() -> None:
            self._db.execute("UPDATE files SET size = ?, mtime_ns = ?, checked_ns = ? WHERE name = ?", values)

        self._write(operation)

    def remove(self, names: Sequence[str]) -> None:
        """Forget files; their chunks become loose."""

        def operation() -> None:
            for name in names:
                self._loosen(self._ids(name))
            self._db.executemany("DELETE FROM files WHERE name = ?", [(name,) for name in names])

        self._write(operation)

    def _loosen(self, ids: Iterable[str]) -> None:
        self._db.executemany("INSERT OR IGNORE INTO loose(id) VALUES (?)", [(each,) for each in ids])

    def _delete_loose(self, ids: Iterable[str]) -> None:
        self._db.executemany("DELETE FROM loose WHERE id = ?", [(each,) for each in ids])

    def loose(self) -> list[str]:
        """Return the chunks that no file has."""
        with self._translated():
            return [row[0] for row in self._db.execute("SELECT id FROM loose")]

    def forget(self, ids: Sequence[str]) -> None:
        """Record that loose chunks are deleted."""
        self._write(lambda: self._delete_loose(ids))

    def reconcile(self, there: set[str]) -> None:
        """Compare with the stored chunks."""

        def operation() -> None:
            known: set[str] = set()
            lacking = []
            for name, ids in self._db.execute("SELECT name, ids FROM files").fetchall():
                had = json.loads(ids)
                known.update(had)
                if not there.issuperset(had):
                    lacking.append((name,))
            self._db.executemany("UPDATE files SET recipe = '' WHERE name = ?", lacking)
            self._loosen(there - known)

        self._write(operation)

    def scrub(self) -> list[Residue]:
        """Rewrite the file, so that nothing of forgotten files is left in it."""
        with self._translated():
            return scrub(self._db, Path(self._path)) if self._path != _MEMORY else []

    def chunks(self) -> int:
        """Return the number of chunks of all files."""
        with self._translated():
            return int(self._db.execute("SELECT coalesce(sum(chunks), 0) FROM files").fetchone()[0])

    def close(self) -> None:
        """Release the file."""
        self._db.close()


class _DamagedError(Exception):
    """The file is no manifest, or not a whole one."""


def _opened(path: str) -> sqlite3.Connection:
    """Open the file and check all of it: it is small, and damage found later would stop a pass.

    Raises:
        _DamagedError: it has to be rebuilt.
        OSError: it cannot be created.
        sqlite3.Error: it cannot be used.
    """
    if path != _MEMORY:
        create_empty(Path(path))
    db = sqlite3.connect(path, timeout=30.0, isolation_level=None, check_same_thread=False)
    try:
        db.execute("PRAGMA secure_delete = ON")
        if db.execute("PRAGMA user_version").fetchone()[0] != _VERSION:
            write_transaction(db, lambda: _create_tables(db))
        _check(db)
    except BaseException as error:
        db.close()
        if isinstance(error, sqlite3.Error) and _is_damage(error):
            raise _DamagedError(error) from error
        raise
    return db


def _create_tables(db: sqlite3.Connection) -> None:
    for table in ("files", "loose"):
        db.execute(f"DROP TABLE IF EXISTS {table}")
    for statement in _SCHEMA:
        db.execute(statement)
    db.execute(f"PRAGMA user_version = {_VERSION}")


def _check(db: sqlite3.Connection) -> None:
    (verdict,) = db.execute("PRAGMA quick_check(1)").fetchone()
    if verdict != "ok":
        raise _DamagedError(verdict)
    db.execute("SELECT id FROM loose LIMIT 1")
    numbers = [_COLUMNS.split(", ").index(name) for name in ("size", "mtime_ns", "checked_ns", "chunks")]
    for *record, ids in db.execute(f"SELECT {_COLUMNS}, ids FROM files"):
        if not all(isinstance(record[at], int) for at in numbers) or not _are_ids(ids, record[-1]):
            raise _DamagedError("a record is unreadable")


def _are_ids(written: object, count: int) -> bool:
    try:
        ids = json.loads(written) if isinstance(written, str) else None
    except ValueError:
        return False
    return isinstance(ids, list) and len(ids) == count and all(isinstance(each, str) for each in ids)


def _is_damage(error: sqlite3.Error) -> bool:
    """Whether the file's content is at fault, and not the disk, a lock or a permission."""
    code = getattr(error, "sqlite_errorcode", None)
    return code is not None and (code == _SHORT_READ or code & 0xFF in _DAMAGE)
