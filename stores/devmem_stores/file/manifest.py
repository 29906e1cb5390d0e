"""The record of the indexed files, written after their chunks: in a SQLite file of its own, or in the database.

It can be lost: without it every file is read again, and finds its chunks embedded.
"""

from __future__ import annotations

import json
import logging
import sqlite3
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Final, Protocol

from devmem.errors import CollectionDamagedError, CollectionUnwritableError, Finding
from devmem.model.results import Fact
from devmem.storage import Residue, StateKey, StateTable, write_transaction
from devmem.storage.sidecar_db import examine_database, open_sidecar, rewrite_database, tables_of
from devmem.storage.sqlite.examination import connect_read_only
from devmem.stores import FileReport, damage, unfinished


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


class Manifest(Protocol):
    """The files of one index. Not thread-safe: its owner holds a lock.

    Every method raises `CollectionError` where the record cannot be read or written.
    """

    def entries(self) -> dict[str, Entry]:
        """Return all files by name."""
        ...

    def ids(self, name: str) -> list[str]:
        """Return the ids of a file's chunks, in order; none when the file is not known."""
        ...

    def intend(self, names: Sequence[str], ids: Iterable[str]) -> None:
        """Record that the files are being indexed and which chunks they will get, before these are stored."""
        ...

    def record(self, entry: Entry, ids: Sequence[str]) -> None:
        """Record that a file is indexed; chunks that it had before and has no more become loose."""
        ...

    def touch(self, entry: Entry) -> None:
        """Record that a file was checked and is unchanged."""
        ...

    def remove(self, names: Sequence[str]) -> None:
        """Forget files; their chunks become loose."""
        ...

    def loose(self) -> list[str]:
        """Return the chunks that no file has."""
        ...

    def forget(self, ids: Sequence[str]) -> None:
        """Record that loose chunks are deleted."""
        ...

    def reconcile(self, there: set[str]) -> None:
        """Compare with the stored chunks: files that lack some are to be read again, chunks of no file become loose."""
        ...

    def rewrite(self) -> list[Residue]:
        """Remove the bytes of forgotten files; return what could not be reached."""
        ...

    def chunks(self) -> int:
        """Return the number of chunks of all files."""
        ...

    def close(self) -> None:
        """Release the resources."""
        ...


_LOG: Final = logging.getLogger("devmem.stores.file")
_FILE: Final = "file"
_CHUNKS: Final = "chunks of a file"
_LOOSE: Final = "chunk of no file"


class DatabaseManifest:
    """The files of one index; `Manifest` documents the methods."""

    def __init__(self, table: StateTable) -> None:
        self._table = table

    def entries(self) -> dict[str, Entry]:
        """Return all files by name."""
        read = ((name, _entry(name, value)) for name, value in self._table.scan(_FILE))
        return {name: entry for name, entry in read if entry is not None}

    def ids(self, name: str) -> list[str]:
        """Return the ids of a file's chunks, in order."""
        return self._ids([name])[name]

    def _ids(self, names: Iterable[str]) -> dict[str, list[str]]:
        keys = [(_CHUNKS, name) for name in names]
        found = self._table.get(keys)
        return {key[1]: _list(key[1], found.get(key)) for key in keys}

    def intend(self, names: Sequence[str], ids: Iterable[str]) -> None:
        """Record that the files are being indexed, before their chunks are stored."""
        self._table.write({**self._unread(names), **_loose(ids)})

    def _unread(self, names: Sequence[str]) -> dict[StateKey, bytes]:
        """Return the records of files that have to be read again."""
        found = self._table.get([(_FILE, name) for name in names])
        entries = (_entry(name, value) for (_, name), value in found.items())
        # Without this, a file that changes back would pass for unchanged while its chunks are not.
        return {(_FILE, entry.name): _value(replace(entry, recipe="")) for entry in entries if entry is not None}

    def record(self, entry: Entry, ids: Sequence[str]) -> None:
        """Record that a file is indexed."""
        had = set(self.ids(entry.name))
        values: dict[StateKey, bytes | None] = {
            (_FILE, entry.name): _value(replace(entry, chunks=len(ids))),
            (_CHUNKS, entry.name): json.dumps(list(ids)).encode(),
        }
        self._table.write({**values, **_loose(had.difference(ids)), **_no_longer_loose(ids)})

    def touch(self, entry: Entry) -> None:
        """Record that a file was checked and is unchanged."""
        key = (_FILE, entry.name)
        known = _entry(entry.name, self._table.get([key]).get(key))
        if known is not None:
            seen = replace(known, size=entry.size, mtime_ns=entry.mtime_ns, checked_ns=entry.checked_ns)
            self._table.write({key: _value(seen)})

    def remove(self, names: Sequence[str]) -> None:
        """Forget files; their chunks become loose."""
        gone: dict[StateKey, bytes | None] = {(kind, name): None for name in names for kind in (_FILE, _CHUNKS)}
        self._table.write({**gone, **_loose(each for ids in self._ids(names).values() for each in ids)})

    def loose(self) -> list[str]:
        """Return the chunks that no file has."""
        return self._table.names(_LOOSE)

    def forget(self, ids: Sequence[str]) -> None:
        """Record that loose chunks are deleted."""
        self._table.write(_no_longer_loose(ids))

    def reconcile(self, there: set[str]) -> None:
        """Compare with the stored chunks."""
        had = {name: _list(name, value) for name, value in self._table.scan(_CHUNKS)}
        lacking = [name for name, ids in had.items() if not there.issuperset(ids)]
        known = {each for ids in had.values() for each in ids}
        self._table.write({**self._unread(lacking), **_loose(there - known)})

    def rewrite(self) -> list[Residue]:
        """Do nothing: the receipt of the collection tells of the database."""
        return []

    def chunks(self) -> int:
        """Return the number of chunks of all files."""
        return sum(entry.chunks for entry in self.entries().values())

    def close(self) -> None:
        """Do nothing: the collection is closed by the store."""


def _value(entry: Entry) -> bytes:
    return json.dumps(asdict(entry)).encode()


def _entry(name: str, value: bytes | None) -> Entry | None:
    """Return the record of a file; None, after a warning, where it cannot be read: the file is indexed again then."""
    if value is None:
        return None
    try:
        return Entry(**json.loads(value))
    except (ValueError, TypeError) as error:
        _LOG.warning("the record of %s cannot be read (%s); the file is indexed again.", name, error)
        return None


def _list(name: str, value: bytes | None) -> list[str]:
    """Return the ids in a value; none, after a warning, where they cannot be read."""
    try:
        found = json.loads(value) if value is not None else []
    except ValueError as error:
        _LOG.warning("the chunks of %s cannot be read (%s); the file is indexed again.", name, error)
        found = []
    return [str(each) for each in found]


def _loose(ids: Iterable[str]) -> dict[StateKey, bytes | None]:
    return dict.fromkeys(((_LOOSE, each) for each in ids), b"")


def _no_longer_loose(ids: Iterable[str]) -> dict[StateKey, bytes | None]:
    return dict.fromkeys((_LOOSE, each) for each in ids)


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

    def rewrite(self) -> list[Residue]:
        """Rewrite the file, so that nothing of forgotten files is left in it."""
        with self._translated():
            return rewrite_database(self._db, Path(self._path)) if self._path != _MEMORY else []

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
    try:
        return open_sidecar(None if path == _MEMORY else Path(path), _prepare)
    except sqlite3.Error as error:
        if _is_damage(error):
            raise _DamagedError(error) from error
        raise


def _prepare(db: sqlite3.Connection) -> None:
    if db.execute("PRAGMA user_version").fetchone()[0] != _VERSION:
        write_transaction(db, lambda: _create_tables(db))
    _check(db)


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


SUFFIX: Final = ".manifest"
_TABLES: Final = {"files", "loose"}


def is_manifest(path: Path) -> bool:
    """Whether a file is a manifest."""
    return tables_of(path) >= _TABLES


def examine_manifest(path: Path, index: Path | None) -> FileReport:
    """Examine a manifest.

    Args:
        path: the manifest's file.
        index: SQLite file of the index, to compare with; None where it is elsewhere.
    """

    def look(connection: sqlite3.Connection) -> tuple[Mapping[str, Fact], list[Finding]]:
        rows = connection.execute("SELECT name, chunks, ids, problem FROM files ORDER BY name").fetchall()
        (loose,) = connection.execute("SELECT count(*) FROM loose").fetchone()
        facts = {"files": len(rows), "chunks": sum(int(chunks) for _, chunks, _, _ in rows), "loose": loose}
        stored = _stored_ids(index)
        findings = [unfinished(f"{name} could not be indexed: {problem}") for name, _, _, problem in rows if problem]
        for name, chunks, ids, _ in rows:
            findings += _findings(name, chunks, ids, stored)
        if loose:
            findings.append(unfinished(f"{loose:,} chunks are assigned to no file; the next pass settles them"))
        return facts, findings

    return examine_database(path, "manifest of files", look)


def _findings(name: str, chunks: int, ids: str, stored: frozenset[str] | None) -> list[Finding]:
    try:
        named = json.loads(ids)
    except ValueError as error:
        return [damage(f"the record of {name} cannot be read: {error}")]
    if not isinstance(named, list) or len(named) != chunks:
        return [damage(f"the record of {name} has {chunks} chunks, but not as many ids")]
    missing = 0 if stored is None else len(set(named) - stored)
    return [damage(f"{name}: {missing:,} of {chunks:,} chunks are not in the index")] if missing else []


def _stored_ids(index: Path | None) -> frozenset[str] | None:
    """Return the ids of the stored chunks; None where the index cannot be compared with."""
    if index is None or not index.is_file():
        return None
    try:
        with closing(connect_read_only(index)) as connection:
            return frozenset(name for (name,) in connection.execute("SELECT id FROM items"))
    except (CollectionDamagedError, sqlite3.Error):
        # The report of the index says so.
        return None
