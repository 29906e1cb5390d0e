"""Checksums of rows: what a flipped bit has changed is left out, counted and logged, and never returned."""

from __future__ import annotations

import logging
import sqlite3
import threading
import zlib
from collections.abc import Sequence
from typing import Any, Final

_ITEM_COLUMNS: Final = (
    *("CAST(id AS BLOB)", "CAST(content_hash AS BLOB)", "created_at", "event_time", "expires_at", "trust"),
    *("importance", "CAST(agent AS BLOB)", "CAST(user AS BLOB)", "CAST(session AS BLOB)"),
    *("CAST(conversation AS BLOB)", "CAST(trace AS BLOB)", "CAST(run AS BLOB)", "CAST(source_kind AS BLOB)"),
    *("CAST(source_name AS BLOB)", "CAST(speaker AS BLOB)", "cues", "length"),
)
"""All but `waiting`, which changes, and `body`, which has a checksum of its own. A damaged text need not be UTF-8."""
_CHANGE_COLUMNS: Final = (
    *("CAST(operation AS BLOB)", "CAST(change_run AS BLOB)", "recorded_from", "CAST(change_actor AS BLOB)"),
)
_ENDING_COLUMNS: Final = (
    *("recorded_until", "CAST(end_operation AS BLOB)", "CAST(end_run AS BLOB)", "CAST(end_actor AS BLOB)"),
)
_PASSAGE_COLUMNS: Final = ("row", "term_hashes", "term_counts", "term_length")


def _joined(columns: Sequence[str]) -> str:
    return f"CAST(joined_{len(columns)}({', '.join(columns)}) AS BLOB)"


_TEXT_TYPES: Final = ", ".join(
    f"typeof{column.removeprefix('CAST').removesuffix(' AS BLOB)')})" for column in _ITEM_COLUMNS if "CAST" in column
)

# NULL, which equals no checksum, where a value is of another type: text and blob differ in one bit of the row's header.
ITEM_CHECKSUM: Final = f"CASE WHEN 'blob' NOT IN ({_TEXT_TYPES}) THEN crc32({_joined(_ITEM_COLUMNS)}) END"
CHANGE_CHECKSUMS: Final = {
    "items": f"crc32({_joined(_CHANGE_COLUMNS)})",
    "versions": f"crc32({_joined((*_CHANGE_COLUMNS, *_ENDING_COLUMNS))})",
}
"""Of the changes that began and ended the rows of a table; those written by formats before 5 have none."""
BODY_CHECKSUM: Final = "crc32(COALESCE(CAST(body AS BLOB), X''))"
PASSAGE_CHECKSUM: Final = f"crc32({_joined(_PASSAGE_COLUMNS)})"
VECTOR_CHECKSUM: Final = "CASE WHEN typeof(vector) = 'blob' AND length(vector) THEN crc32(vector) END"
CODES_CHECKSUM: Final = "CASE WHEN typeof(codes) = 'blob' THEN crc32(codes) END"


def ended_checksum(began: Sequence[str], ended: Sequence[str]) -> str:
    """Return the SQL of the checksum of a version's changes.

    Args:
        began: SQL of the operation, run, recorded time and actor of the change that began it.
        ended: likewise of the recorded time, operation, run and actor of the one that ended it.
    """
    values = (f"CAST({each} AS BLOB)" if at not in (2, 4) else each for at, each in enumerate((*began, *ended)))
    return f"crc32({_joined(tuple(values))})"


_LOG: Final = logging.getLogger(__name__)


def checksum(*values: bytes | str | float | None) -> int:
    """Return the CRC-32 of one blob, or of several column values."""
    if len(values) == 1 and isinstance(values[0], bytes):
        return zlib.crc32(values[0])
    return zlib.crc32(
        _FORMATS[len(values)](*[each.encode() if isinstance(each, str) else each for each in values]).encode()
    )


_COUNTS: Final = {len(_ITEM_COLUMNS), len(_PASSAGE_COLUMNS), len(_CHANGE_COLUMNS), 2 * len(_CHANGE_COLUMNS)}
_FORMATS: Final = {count: ("{!r};" * count).format for count in _COUNTS}


def is_intact(blob: bytes | str | float | None, its_checksum: int) -> bool:
    """Whether a value that was selected is the blob that was stored; an empty one never was."""
    return isinstance(blob, bytes) and blob != b"" and checksum(blob) == its_checksum


def define_functions(connection: sqlite3.Connection) -> None:
    """Define the SQL functions of the checksums in a connection.

    They have no Python code of their own: SQLite would turn Ctrl-C in it into an error of the statement.
    """
    connection.create_function("crc32", 1, zlib.crc32, deterministic=True)
    for count, joined in _FORMATS.items():
        connection.create_function(f"joined_{count}", count, joined, deterministic=True)


class DamagedRows:
    """The damaged rows of one file that were met since it was opened. Thread-safe."""

    def __init__(self, location: str) -> None:
        self._location = location
        self._found: set[tuple[str, int]] = set()
        self._taken: set[tuple[str, int]] = set()
        self._lock = threading.Lock()

    def without(self, table: str, found: Sequence[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
        """Return the intact ones of selected rows, which begin with whether they are and with their number."""
        for is_intact, row, *_ in found:
            if not is_intact:
                self.add(table, row)
        return [columns[1:] for columns in found if columns[0]]

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
