"""Online backups of a collection's file, and putting them back."""

from __future__ import annotations

import os
import sqlite3
import sys
from contextlib import closing
from pathlib import Path

from devmem.encryption.files import connect
from devmem.encryption.keys import key_of, protect
from devmem.errors import CollectionDamagedError, EncryptionError
from devmem.storage.sqlite.collection import SqliteCollection
from devmem.storage.sqlite.database import translate_errors
from devmem.storage.sqlite.examination import connect_read_only
from devmem.storage.tables import NOW
from devmem.storage.tombstones import SUFFIX
from devmem.text.files import create_beside, remove_leftovers

_BESIDE = ("-wal", "-shm", ".faiss")
"""Files that belong to a database's old content: with another one they would damage it, or be taken for its own."""


def back_up(path: Path, out: Path) -> int:
    """Copy a collection's file, while others may be writing to it, and check the copy; return its number of items.

    The copy has the key of the file, if that has one. `devmem` opens it directly.

    Raises:
        FileExistsError: there is something at `out` already.
        FileNotFoundError: there is no such file.
        CollectionDamagedError: the file, and so its copy, is damaged; nothing is left at `out`.
        CollectionError: the copy cannot be written.
    """
    if out.exists():
        raise FileExistsError(17, "already exists and was not changed", str(out))
    protect(out, key_of(path))
    remove_leftovers(out)
    partial, lock = create_beside(out)
    try:
        with lock:  # As long as it is open, no other backup takes the partial file for a leftover.
            with closing(connect_read_only(path)) as source, translate_errors(str(path)):
                items = _copy(source, partial, out)
            os.fsync(lock.fileno())
            if sys.platform == "win32":
                lock.close()  # An open file cannot be renamed there.
            partial.replace(out)
    finally:
        for suffix in ("", "-journal", "-wal", "-shm"):
            Path(f"{partial}{suffix}").unlink(missing_ok=True)
    return items


def restore(backup: Path, path: Path, *, force: bool = False) -> int:
    """Put a backup in place and return its number of items.

    Over an existing file (`force`) it is one transaction, so that processes which have the file open stay consistent.

    Raises:
        FileExistsError: there is a file at `path` already, and `force` is not set.
        CollectionDamagedError: the backup, or the file that it would replace, is damaged; nothing was changed.
        CollectionError: the file cannot be written.
    """
    if not path.exists():
        for suffix in _BESIDE:
            path.with_name(path.name + suffix).unlink(missing_ok=True)
        return back_up(backup, path)
    if not force:
        raise FileExistsError(17, "already exists and was not changed; --force replaces its items", str(path))
    if (key_of(backup) is None) != (key_of(path) is None):
        raise EncryptionError(
            path, f"only one of it and {backup} is encrypted: change one of them with `devmem rekey`."
        )
    with closing(connect_read_only(backup)) as source, translate_errors(str(path)):
        items = _checked(source, backup)
        with closing(connect_read_only(path)) as current:
            (generation,) = current.execute("SELECT value FROM meta WHERE key = 'generation'").fetchone()
        with closing(connect(path)) as target:
            source.backup(target)
            # What other processes hold in memory was built from the old rows.
            target.execute("UPDATE meta SET value = max(value, ?) + 1 WHERE key = 'generation'", (generation,))
            target.commit()
    return items


def erase_again(path: Path) -> int:
    """Erase of a file that was put in place what the tombstones beside it stand for; return the number of items.

    Raises:
        CollectionError: the file cannot be opened or written.
        DataFileError: the tombstones cannot be read.
    """
    if not Path(f"{path}{SUFFIX}").exists():
        return 0
    with closing(SqliteCollection(path)) as collection:
        return collection.apply_tombstones().items


def _copy(source: sqlite3.Connection, partial: Path, out: Path) -> int:
    """Copy a database into an empty file, which is to be named `out`, and check it; return its number of items."""
    with closing(connect(partial)) as target:
        # What is not finished needs no journal, which a killed process would leave behind.
        target.execute("PRAGMA journal_mode = MEMORY")
        try:
            source.backup(target)
            # One file, without a log beside it; opening it as a store turns the log on again.
            target.execute("PRAGMA journal_mode = DELETE")
        except sqlite3.OperationalError as error:
            if "full" not in str(error):
                raise
            with translate_errors(str(out)):  # The source is only read.
                raise
        items = _checked(target, out)
        with translate_errors(str(out)):
            # The copy of a page has what is left of erased items in its unused part.
            target.execute("VACUUM")
        return items


def _checked(connection: sqlite3.Connection, path: Path) -> int:
    """Return the number of items of a sound database."""
    try:
        (verdict,) = connection.execute("PRAGMA integrity_check(1)").fetchone()
        (items,) = connection.execute(f"SELECT count(*) FROM items WHERE {NOW}").fetchone()
    except sqlite3.DatabaseError as error:
        raise _damaged(path, str(error)) from error
    if verdict != "ok":
        raise _damaged(path, verdict)
    return int(items)


def _damaged(path: Path, reason: str) -> CollectionDamagedError:
    what = " ".join(reason.split())
    return CollectionDamagedError(path, f"is damaged ({what}); nothing was changed. `devmem doctor` shows the damage.")
