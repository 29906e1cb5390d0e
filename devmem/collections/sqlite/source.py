"""What a search needs of a SQLite database."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from devmem.collections.sqlite.follower import SearchCache
from devmem.collections.sqlite.rows import fetch_items, where_sql
from devmem.collections.sqlite.writes import any_expired
from devmem.embedding import TokenCodes
from devmem.indexes.snapshot import Indexes
from devmem.indexes.vectors import Rows
from devmem.model.items import MemoryItem
from devmem.search.query import Filter

_AT_ONCE: Final = 500


class SqliteTokenRows:
    """The token codes of a SQLite database; see `TokenRows`."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection

    def count_after(self, passage: int, limit: int) -> tuple[int, int]:
        """Return the number of passages with codes after one, at most `limit`, and the last of these."""
        counted = (
            "SELECT count(*), COALESCE(max(passage), 0) FROM (SELECT passage FROM tokens WHERE passage > ? LIMIT ?)"
        )
        count, last = self._connection.execute(counted, (passage, limit)).fetchone()
        return int(count), int(last)

    def after(self, passage: int) -> Iterator[list[tuple[int, bytes]]]:
        """Return the codes of every passage after one in ascending order, in batches."""
        query = "SELECT passage, codes FROM tokens WHERE passage > ? ORDER BY passage"
        cursor = self._connection.execute(query, (passage,))
        while found := cursor.fetchmany(_AT_ONCE):
            yield found

    def of(self, passages: Sequence[int]) -> list[tuple[int, bytes]]:
        """Return the codes of passages; one without codes is left out."""
        found: list[tuple[int, bytes]] = []
        for start in range(0, len(passages), _AT_ONCE):
            part = passages[start : start + _AT_ONCE]
            marks = ", ".join("?" * len(part))
            found += self._connection.execute(f"SELECT passage, codes FROM tokens WHERE passage IN ({marks})", part)
        return found


class SqliteSource:
    """The database as of the connection's read transaction, which the cache follows; see `SearchSource`."""

    def __init__(self, connection: sqlite3.Connection, cache: SearchCache, now: float) -> None:
        self._connection, self._cache, self._now = connection, cache, now
        self.indexes: Indexes = cache.indexes()

    def allowed(self, where: Filter, period: tuple[float, float] | None) -> Rows | None:
        """Return the passages that a filter admits, in ascending order; None when it admits all."""
        if period is None and where.everything() and not any_expired(self._connection, self._now):
            return None
        condition, values = where_sql(where, self._now)
        if period is not None:
            condition += " AND COALESCE(event_time, created_at) >= ? AND COALESCE(event_time, created_at) < ?"
            values += period
        asked = f"SELECT passage FROM items JOIN passages USING (row) WHERE {condition} ORDER BY passage"
        return np.array([passage for (passage,) in self._connection.execute(asked, values)], dtype=np.int64)

    def items(self, rows: Sequence[int]) -> dict[int, MemoryItem]:
        """Return items by row number, without their embeddings."""
        return fetch_items(self._connection, list(rows))

    def token_codes(self, passages: Sequence[int], width: int) -> tuple[TokenCodes, NDArray[np.int64]]:
        """Return the token codes of passages, joined in their order, and the number of codes of each."""
        return self._cache.tokens.gather(SqliteTokenRows(self._connection), passages, width)

    def count(self) -> int:
        """Return the number of all items, expired ones included."""
        return int(self._connection.execute("SELECT count(*) FROM items").fetchone()[0])
