"""SQLCipher behind the interface of the standard library's `sqlite3`, whose errors its connections raise."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable
from functools import wraps
from importlib import import_module
from pathlib import Path
from typing import Any, Final, ParamSpec, TypeVar, cast

from devmem.encryption.keys import StoreKey
from devmem.errors import MissingExtraError

try:
    dbapi2: Any = import_module("sqlcipher3.dbapi2")
except ModuleNotFoundError as missing:
    raise MissingExtraError(feature="An encrypted store", package="sqlcipher3", extra="encrypted") from missing

P = ParamSpec("P")
T = TypeVar("T")

_FORMAT: Final = 4
"""Version of SQLCipher whose parameters the files have, so that a later one with other defaults reads them."""
_PAGE_BYTES: Final = 8192
"""Size of a page, that of a plain collection; the header of an encrypted file does not show it."""


def _translating(method: Callable[P, T]) -> Callable[P, T]:
    """Return a method that raises the errors of `sqlite3` in the place of SQLCipher's, with their codes."""

    @wraps(method)
    def call(*args: P.args, **kwargs: P.kwargs) -> T:
        try:
            return method(*args, **kwargs)
        except dbapi2.Error as error:
            raise _translated(error) from error
        except dbapi2.Warning as error:
            raise sqlite3.Warning(*error.args) from error

    return call


def _translated(error: Exception) -> sqlite3.Error:
    translated: sqlite3.Error = getattr(sqlite3, type(error).__name__, sqlite3.DatabaseError)(*error.args)
    for name in ("sqlite_errorcode", "sqlite_errorname"):
        if hasattr(error, name):
            setattr(translated, name, getattr(error, name))
    return translated


class _Cursor(dbapi2.Cursor):  # type: ignore[misc] # The package has no types.
    execute = _translating(dbapi2.Cursor.execute)
    executemany = _translating(dbapi2.Cursor.executemany)
    executescript = _translating(dbapi2.Cursor.executescript)
    fetchone = _translating(dbapi2.Cursor.fetchone)
    fetchmany = _translating(dbapi2.Cursor.fetchmany)
    fetchall = _translating(dbapi2.Cursor.fetchall)
    __next__ = _translating(dbapi2.Cursor.__next__)


class _CipherConnection(dbapi2.Connection):  # type: ignore[misc] # The package has no types.
    # `execute`, `executemany` and `executescript` of a connection make a cursor and call its method.
    def cursor(self, factory: type[_Cursor] = _Cursor) -> _Cursor:
        return cast("_Cursor", _make_cursor(self, factory))

    commit = _translating(dbapi2.Connection.commit)
    rollback = _translating(dbapi2.Connection.rollback)
    close = _translating(dbapi2.Connection.close)
    backup = _translating(dbapi2.Connection.backup)
    create_function = _translating(dbapi2.Connection.create_function)
    __exit__ = _translating(dbapi2.Connection.__exit__)
    in_transaction = property(_translating(dbapi2.Connection.in_transaction.__get__))


_make_cursor: Final = _translating(dbapi2.Connection.cursor)


def connect(place: str, key: StoreKey | None, **options: object) -> sqlite3.Connection:
    """Open a database with a key, or a plain one; the options are those of `sqlite3.connect`.

    Nothing is read yet, so that a wrong key shows at the first statement.

    Raises:
        sqlite3.Error: the file cannot be opened.
    """
    connection = _translating(dbapi2.connect)(place, factory=_CipherConnection, **options)
    try:
        connection.execute("PRAGMA cipher_log_level = NONE")
        if key is not None:
            # Not a statement, of which a trace or a message could show the text.
            connection.set_key(key.database_key())
            connection.execute(f"PRAGMA cipher_compatibility = {_FORMAT}")
            connection.execute(f"PRAGMA cipher_page_size = {_PAGE_BYTES}")
        connection.execute("PRAGMA temp_store = MEMORY")
    except BaseException:
        connection.close()
        raise
    return cast("sqlite3.Connection", connection)


def export(source: sqlite3.Connection, copy: Path, key: StoreKey | None, *, journal_mode: str) -> None:
    """Copy a database that `connect` opened into a new file with another key, or into a plain one.

    Raises:
        sqlite3.Error: it cannot be read, or the file cannot be written.
    """
    os.close(os.open(copy, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
    # What is attached begins with the parameters that hold for the process.
    source.execute(f"PRAGMA cipher_default_compatibility = {_FORMAT}")
    source.execute(f"PRAGMA cipher_default_page_size = {_PAGE_BYTES}")
    source.execute("ATTACH ? AS copy KEY ?", (str(copy), "" if key is None else key.database_key()))
    try:
        if key is None:
            source.execute(f"PRAGMA copy.page_size = {_PAGE_BYTES}")
        source.execute("SELECT sqlcipher_export('copy')").fetchall()
        for name in ("user_version", "application_id"):
            source.execute(f"PRAGMA copy.{name} = {int(source.execute(f'PRAGMA main.{name}').fetchone()[0])}")
        source.execute(f"PRAGMA copy.journal_mode = {journal_mode}")
    finally:
        source.execute("DETACH copy")
