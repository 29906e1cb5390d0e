"""The checksum of the recorded properties: a row of `meta` over all its others, kept by every transaction that writes.

Files of before have none; their next write adds it.
"""

from __future__ import annotations

import sqlite3
import zlib
from collections.abc import Callable, Mapping
from typing import Final, TypeVar

from devmem.collections.transactions import write_transaction

T = TypeVar("T")

KEY: Final = "checksum"


def is_sealed(meta: Mapping[str, object]) -> bool:
    """Whether properties are those of their checksum, or have none."""
    return KEY not in meta or meta[KEY] == _checksum(meta)


def seal(connection: sqlite3.Connection) -> None:
    """Record the checksum of the properties as they are, within the caller's write transaction."""
    meta = dict(connection.execute("SELECT key, value FROM meta"))
    connection.execute("INSERT OR REPLACE INTO meta(key, value) VALUES (?, ?)", (KEY, _checksum(meta)))


def sealed_transaction(connection: sqlite3.Connection, operation: Callable[[], T]) -> T:
    """Run an operation in a write transaction, and record the checksum of the properties that it leaves."""

    def sealed() -> T:
        result = operation()
        seal(connection)
        return result

    return write_transaction(connection, sealed)


def _checksum(meta: Mapping[str, object]) -> int:
    values = sorted((key, value) for key, value in meta.items() if key != KEY)
    return zlib.crc32(repr(values).encode("utf-8", "surrogatepass"))
