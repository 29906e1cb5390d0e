"""The record of the indexed files: a small SQLite file beside the collection, written after the chunks.

It can be lost: without it every file is read again, and finds its chunks embedded.
"""

from __future__ import annotations

import json
import logging
import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from devmem.errors import CollectionUnwritableError

_LOG: Final = logging.getLogger("devmem.stores.file")
_VERSION: Final = 1
_MEMORY: Final = ":memory:"
_SCHEMA: Final = (
    "CREATE TABLE files(name TEXT PRIMARY KEY, size INTEGER NOT NULL, mtime_ns INTEGER NOT NULL, "
    "checked_ns INTEGER NOT NULL, sha256 TEXT NOT NULL, recipe TEXT NOT NULL, problem TEXT NOT NULL, "
    "chunks INTEGER NOT NULL, ids TEXT NOT NULL) WITHOUT ROWID",
    # Chunks that no file has (any more): written before they are stored, and before they are deleted.
    "CREATE TABLE loose(id TEXT PRIMARY KEY) WITHOUT ROWID",
)
_COLUMNS: Final = "name, size, mtime_ns, checked_ns, sha256, recipe, problem, chunks"


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """Record of one file."""

    name: str
    size: int
    mtime_ns: int
    checked_ns: int
    """When the content was read: nanoseconds since the epoch."""
    sha256: str
    recipe: str
    """How it was read and chunked; empty when that has to be done again."""
    problem: str = ""
    """Why it could not be indexed; empty when it was."""
    chunks: int = 0


class Manifest:
    """The files of one index. Not thread-safe: its owner holds a lock."""

    def __init__(self, path: str | None) -> None:
        """Open the file; it is created where it is absent, and rebuilt where it is damaged. None keeps it in memory.

        Raises:
            CollectionUnwritableError: it cannot be written.
        """
        self._path = path or _MEMORY
        try:
            self._db = self._opened()
        except sqlite3.DatabaseError as error:
            if isinstance(error, sqlite3.OperationalError) or path is None:
                raise CollectionUnwritableError(self._path, f"cannot be opened: {error}") from error
            _LOG.warning("%s: is damaged (%s) and is rebuilt; every file is read again.", path, error)
            Path(path).unlink()
            with self._worded():
                self._db = self._opened()

    def _opened(self) -> sqlite3.Connection:
        db = sqlite3.connect(self._path, timeout=30.0, isolation_level=None, check_same_thread=False)
        try:
            version = db.execute("PRAGMA user_version").fetchone()[0]
            if version != _VERSION:
                db.execute("BEGIN IMMEDIATE")
                for table in ("files", "loose"):
                    db.execute(f"DROP TABLE IF EXISTS {table}")
                for statement in _SCHEMA:
                    db.execute(statement)
                db.execute(f"PRAGMA user_version = {_VERSION}")
                db.execute("COMMIT")
        except BaseException:
            db.close()
            raise
        return db

    @contextmanager
    def _worded(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.Error as error:
            raise CollectionUnwritableError(self._path, f"cannot be written: {error}") from error

    @contextmanager
    def _writing(self) -> Iterator[sqlite3.Connection]:
        with self._worded():
            self._db.execute("BEGIN IMMEDIATE")
            try:
                yield self._db
                self._db.execute("COMMIT")
            except BaseException:
                if self._db.in_transaction:
                    self._db.execute("ROLLBACK")
                raise

    def entries(self) -> dict[str, Entry]:
        """Return all files by name."""
        with self._worded():
            rows = self._db.execute(f"SELECT {_COLUMNS} FROM files ORDER BY name").fetchall()
        names = _COLUMNS.split(", ")
        return {row[0]: Entry(**dict(zip(names, row, strict=True))) for row in rows}

    def ids(self, name: str) -> list[str]:
        """Return the ids of a file's chunks, in order; none when the file is not known."""
        with self._worded():
            row = self._db.execute("SELECT ids FROM files WHERE name = ?", (name,)).fetchone()
        return json.loads(row[0]) if row else []

    def intend(self, names: Sequence[str], ids: Iterable[str]) -> None:
        """Record that the files are being indexed and which chunks they will get, before these are stored."""
        with self._writing() as db:
            # Without this, a file that changes back would pass for unchanged while its chunks are not.
            db.executemany("UPDATE files SET recipe = '' WHERE name = ?", [(name,) for name in names])
            db.executemany("INSERT OR IGNORE INTO loose(id) VALUES (?)", [(each,) for each in ids])

    def record(self, entry: Entry, ids: Sequence[str]) -> None:
        """Record that a file is indexed; chunks that it had before and has no more become loose."""
        with self._writing() as db:
            self._loosen(db, [entry.name])
            values = (
                entry.name, entry.size, entry.mtime_ns, entry.checked_ns, entry.sha256, entry.recipe, entry.problem,
            )  # fmt: skip
            db.execute(
                f"INSERT OR REPLACE INTO files({_COLUMNS}, ids) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
                (*values, len(ids), json.dumps(list(ids))),
            )
            db.executemany("DELETE FROM loose WHERE id = ?", [(each,) for each in ids])

    def touch(self, entry: Entry) -> None:
        """Record that a file was checked and is unchanged."""
        with self._writing() as db:
            db.execute(
                "UPDATE files SET size = ?, mtime_ns = ?, checked_ns = ? WHERE name = ?",
                (entry.size, entry.mtime_ns, entry.checked_ns, entry.name),
            )

    def remove(self, names: Sequence[str]) -> None:
        """Forget files; their chunks become loose."""
        with self._writing() as db:
            self._loosen(db, names)
            db.executemany("DELETE FROM files WHERE name = ?", [(name,) for name in names])

    @staticmethod
    def _loosen(db: sqlite3.Connection, names: Sequence[str]) -> None:
        for name in names:
            row = db.execute("SELECT ids FROM files WHERE name = ?", (name,)).fetchone()
            had = json.loads(row[0]) if row else []
            db.executemany("INSERT OR IGNORE INTO loose(id) VALUES (?)", [(each,) for each in had])

    def loose(self) -> list[str]:
        """Return the chunks that no file has."""
        with self._worded():
            return [row[0] for row in self._db.execute("SELECT id FROM loose")]

    def forget(self, ids: Sequence[str]) -> None:
        """Record that loose chunks are deleted."""
        with self._writing() as db:
            db.executemany("DELETE FROM loose WHERE id = ?", [(each,) for each in ids])

    def reconcile(self, there: set[str]) -> None:
        """Compare with the stored chunks: files that lack some are to be read again, chunks of no file become loose."""
        with self._writing() as db:
            known: set[str] = set()
            lacking = []
            for name, ids in db.execute("SELECT name, ids FROM files").fetchall():
                had = json.loads(ids)
                known.update(had)
                if not there.issuperset(had):
                    lacking.append((name,))
            db.executemany("UPDATE files SET recipe = '' WHERE name = ?", lacking)
            db.executemany("INSERT OR IGNORE INTO loose(id) VALUES (?)", [(each,) for each in there - known])

    def chunks(self) -> int:
        """Return the number of chunks of all files."""
        with self._worded():
            return int(self._db.execute("SELECT coalesce(sum(chunks), 0) FROM files").fetchone()[0])

    def close(self) -> None:
        """Release the file."""
        self._db.close()
