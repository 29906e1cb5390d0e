"""Deleting on a full disk: a deletion writes too, to the log, before it frees anything."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from contextlib import suppress
from typing import Final, TypeVar

from devmem.errors import CollectionUnwritableError

T = TypeVar("T")

_CODES: Final = ("SQLITE_FULL", "SQLITE_IOERR_WRITE")


def with_room(location: str, delete: Callable[[], T], make_room: Callable[[], None]) -> T:
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


def shorten_log(connection: sqlite3.Connection) -> None:
    """Move the log into the database as far as there is room, and cut it off."""
    with suppress(sqlite3.OperationalError):
        # What did not fit stays in the log; the next attempt at writing reports it.
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")


def _is_full(error: CollectionUnwritableError) -> bool:
    return getattr(error.__cause__, "sqlite_errorname", "") in _CODES
