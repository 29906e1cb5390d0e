"""Checksums of rows: what a flipped bit has changed is left out, counted and logged, and never returned."""

from __future__ import annotations

import logging
import sqlite3
import threading
import zlib
from typing import Final, TypeAlias

Value: TypeAlias = bytes | int | float | None
"""A column's value; texts are compared as their UTF-8 bytes, which need not be valid any more."""

ITEM_COLUMNS: Final = (
    *("CAST(id AS BLOB)", "CAST(content_hash AS BLOB)", "created_at", "event_time", "expires_at", "trust"),
    *("importance", "CAST(agent AS BLOB)", "CAST(user AS BLOB)", "CAST(session AS BLOB)"),
    *("CAST(conversation AS BLOB)", "CAST(trace AS BLOB)", "CAST(run AS BLOB)", "CAST(source_kind AS BLOB)"),
    *("CAST(source_name AS BLOB)", "CAST(speaker AS BLOB)", "cues", "length"),
)
"""Arguments of an item's `columns_checksum`: all but `waiting`, which changes, and `body`, which has its own."""
INTACT_ITEM: Final = f"intact('items', row, columns_checksum, {', '.join(ITEM_COLUMNS)})"
"""Condition on `items` that leaves out damaged rows."""
INTACT_PASSAGE: Final = "intact('passages', passage, checksum, row, term_hashes, term_counts, term_length)"
"""Condition on `passages` that leaves out damaged rows."""
INTACT_VECTOR: Final = "intact('vectors', vectors.passage, vectors.checksum, vector)"
"""Condition on `vectors` that leaves out damaged rows."""
INTACT_CODES: Final = "intact('tokens', tokens.passage, tokens.checksum, codes)"
"""Condition on `tokens` that leaves out damaged rows."""

_LOG: Final = logging.getLogger(__name__)


def checksum(*values: Value) -> int:
    """Return the CRC-32 of column values."""
    found = 0
    for value in values:
        found = zlib.crc32(value if isinstance(value, bytes) else repr(value).encode(), found)
    return found


class DamagedRows:
    """The damaged rows of one file that were met since it was opened. Thread-safe."""

    def __init__(self, location: str) -> None:
        self._location = location
        self._found: set[tuple[str, int]] = set()
        self._taken: set[tuple[str, int]] = set()
        self._lock = threading.Lock()

    def attach(self, connection: sqlite3.Connection) -> None:
        """Define the SQL functions `intact` and `checksum_of` in a connection."""
        connection.create_function("intact", -1, self._is_intact)
        connection.create_function("checksum_of", -1, checksum, deterministic=True)

    def add(self, table: str, row: int) -> None:
        """Record a damaged row; the first one is logged."""
        with self._lock:
            first = not self._found
            self._found.add((table, row))
            self._taken.discard((table, row))
        if first:
            _LOG.error(
                "%s: row %d of the table %r is damaged (its checksum differs) and is left out, as are others like it; "
                "`info()` counts them. Restore a backup, or copy what can be read to another file.",
                self._location, row, table,
            )  # fmt: skip

    def __len__(self) -> int:
        return len(self._found)

    def of(self, table: str) -> set[int]:
        """Return the damaged rows of a table."""
        with self._lock:
            return {row for each, row in self._found if each == table} if self._found else set()

    def take(self, table: str) -> list[int]:
        """Return the damaged rows of a table that no earlier call returned."""
        with self._lock:
            new = {(each, row) for each, row in self._found - self._taken if each == table}
            self._taken |= new
            return sorted(row for _, row in new)

    def _is_intact(self, table: str, row: int, expected: int, *values: Value) -> bool:
        if checksum(*values) == expected:
            return True
        self.add(table, row)
        return False
