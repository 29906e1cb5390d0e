"""Changing the key of files: each is replaced by a copy in one step, so that a crash leaves it with one of the keys.

Several files are changed one after another. Begun again with the same keys, an interrupted change goes on where it
stopped, as the header of each file shows which key it has.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Sequence
from contextlib import closing, suppress
from pathlib import Path
from typing import Final
from uuid import uuid4

from devmem.encryption.files import read_with, seal
from devmem.encryption.keys import HEADER_BYTES, PLAIN_DATABASE, StoreKey, is_database, is_encrypted
from devmem.errors import CollectionBusyError, CollectionDamagedError, CollectionUnwritableError, EncryptionError

_CACHE: Final = ".faiss"
"""Ending of index snapshots, which are rebuilt."""
_LOGS: Final = ("-wal", "-shm", "-journal", ".lock", ".part")
"""Endings of files that belong to an open database or a writer at work."""
_SEALED: Final = (".tombstones", ".json")
"""Endings of devmem's files that are not databases."""
_BLOCK_SIZE: Final = 1 << 20


def files_of(place: Path) -> list[Path]:
    """Return the files of a store, or of a folder, that have its key or would get one; see `protect`."""
    if place.is_dir():
        return [file for file in sorted(place.rglob("*")) if file.is_file()]
    named = (place.name, f"{place.name}.", f"{place.name}-")
    beside = sorted(place.parent.iterdir()) if place.parent.is_dir() else []
    found = [each for each in beside if each.name == named[0] or each.name.startswith(named[1:])]
    return [file for each in found for file in (files_of(each) if each.is_dir() else [each])]


def rekey(places: Sequence[Path], old: StoreKey | None, new: StoreKey | None) -> list[Path]:
    """Change the key of the files of stores and folders, and return those that were changed.

    Args:
        places: files of stores, which no process has open, and folders of sessions.
        old: the key that they have; None for plain files.
        new: the key that they get; None makes them plain.

    Raises:
        EncryptionError: a file has neither key, or cannot be encrypted; nothing was changed.
        CollectionBusyError: a process has a file open; the files before it were changed.
        CollectionDamagedError: a copy is not what the file was; that file was left unchanged.
        OSError: a file cannot be read or written; it was left unchanged.
    """
    files = [file for place in places for file in files_of(place) if not file.name.endswith(_LOGS)]
    pending = [file for file in dict.fromkeys(files) if _is_pending(file, old, new)]
    for file in pending:
        if file.name.endswith(_CACHE):
            file.unlink()
        elif is_database(_header(file)):
            _replace_database(file, old, new)
        else:
            content = read_with(file, old)
            parts = [content] if new is None else list(seal([content], new))
            _replace(file, b"".join(parts))
    return pending


def _is_pending(file: Path, old: StoreKey | None, new: StoreKey | None) -> bool:
    """Whether a file still has the old key.

    Raises:
        EncryptionError: it has another key than both.
    """
    header = _header(file)
    for key, pending in ((new, False), (old, True)):
        if key is not None and header in (key.database_header(), key.sealed_header()):
            return pending
    if is_encrypted(header):
        raise EncryptionError(file, "is encrypted with another key; nothing was changed.")
    if not header or not (header == PLAIN_DATABASE or file.name.endswith((_CACHE, *_SEALED))):
        return False
    # A plain file beside encrypted ones is what an interrupted change left, or was put there: it gets the key as well.
    return new is not None


def _header(file: Path) -> bytes:
    with file.open("rb") as opened:
        return opened.read(HEADER_BYTES)


def _replace_database(file: Path, old: StoreKey | None, new: StoreKey | None) -> None:
    # Imported here, as by whatever else opens encrypted files.
    from devmem.encryption import sqlcipher

    is_plain = _header(file) == PLAIN_DATABASE
    copy = _copy_name(file)
    try:
        with closing(
            sqlcipher.connect(str(file), None if is_plain else old, isolation_level=None, timeout=1.0)
        ) as source:
            mode = _alone(source, file)
            try:
                sqlcipher.export(source, copy, new, journal_mode=mode)
                _check_copy(source, file, copy, new)
                _sync(copy)
                _put_in_place(copy, file, wipe=is_plain)
            except BaseException:
                with suppress(sqlite3.Error):
                    source.execute(f"PRAGMA journal_mode = {mode}")
                raise
    except sqlite3.OperationalError as error:
        way_out = "Make room, and run" if "full" in str(error) else "Run"
        raise CollectionUnwritableError(
            file, f"could not be copied ({error}); its key was not changed. {way_out} the command again."
        ) from error
    except sqlite3.DatabaseError as error:
        raise CollectionDamagedError(file, f"could not be copied whole ({error}); it was left unchanged.") from error
    finally:
        for suffix in ("", "-wal", "-shm", "-journal"):
            Path(f"{copy}{suffix}").unlink(missing_ok=True)


def _alone(source: sqlite3.Connection, file: Path) -> str:
    """Check that no other connection has a database open, checkpoint its log, and return its journal mode."""
    try:
        (mode,) = source.execute("PRAGMA journal_mode").fetchone()
        source.execute("PRAGMA locking_mode = EXCLUSIVE")
        (now,) = source.execute("PRAGMA journal_mode = DELETE").fetchone()
        if now != "delete":
            raise CollectionBusyError(file, "another process uses it; its key was not changed.")
        source.execute("BEGIN EXCLUSIVE")
        source.execute("COMMIT")
    except sqlite3.OperationalError as error:
        if "locked" not in str(error):
            raise
        raise CollectionBusyError(file, "another process uses it; its key was not changed.") from error
    except sqlite3.DatabaseError as error:
        raise CollectionDamagedError(file, f"cannot be read ({error}); its key was not changed.") from error
    return str(mode)


def _check_copy(source: sqlite3.Connection, file: Path, copy: Path, key: StoreKey | None) -> None:
    """Raise `CollectionDamagedError` unless a copy is sound and has as many rows in each table."""
    from devmem.encryption import sqlcipher

    with closing(sqlcipher.connect(str(copy), key, isolation_level=None)) as target:
        verdict = [row[0] for row in target.execute("PRAGMA integrity_check(1)")]
        if verdict != ["ok"] or _counts(source) != _counts(target):
            raise CollectionDamagedError(file, "could not be copied whole; it was left unchanged.")


def _counts(connection: sqlite3.Connection) -> dict[str, int]:
    names = [name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
    quoted = {name: name.replace('"', '""') for name in names}
    return {name: connection.execute(f'SELECT count(*) FROM "{quoted[name]}"').fetchone()[0] for name in names}  # noqa: S608 - names of the database itself, quoted


def _replace(file: Path, content: bytes) -> None:
    copy = _copy_name(file)
    try:
        with open(copy, "xb", opener=lambda path, flags: os.open(path, flags, 0o600)) as written:
            written.write(content)
        _sync(copy)
        _put_in_place(copy, file, wipe=False)
    finally:
        copy.unlink(missing_ok=True)


def _copy_name(file: Path) -> Path:
    return file.with_name(f"{file.name}.{uuid4().hex}.part")


def _sync(file: Path) -> None:
    with file.open("r+b") as opened:
        os.fsync(opened.fileno())


def _put_in_place(copy: Path, file: Path, *, wipe: bool) -> None:
    """Replace a file with a copy of its mode, durably; a plain file is overwritten once nothing refers to it.

    What a file system or a drive keeps of overwritten blocks is out of reach.
    """
    copy.chmod(file.stat().st_mode)
    with file.open("r+b") as replaced:
        copy.replace(file)
        if hasattr(os, "O_DIRECTORY"):
            folder = os.open(file.parent, os.O_RDONLY)
            try:
                os.fsync(folder)
            finally:
                os.close(folder)
        if wipe and os.fstat(replaced.fileno()).st_nlink == 0:
            size = os.fstat(replaced.fileno()).st_size
            for start in range(0, size, _BLOCK_SIZE):
                replaced.write(bytes(min(_BLOCK_SIZE, size - start)))
            replaced.flush()
            os.fsync(replaced.fileno())
