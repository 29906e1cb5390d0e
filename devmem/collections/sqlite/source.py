"""The `SearchSource` of a SQLite database."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Final

import numpy as np
from numpy.typing import NDArray

from devmem.collections.sqlite.integrity import CODES_CHECKSUM, DamagedRows
from devmem.collections.sqlite.predicates import metadata_sql
from devmem.collections.sqlite.rows import fetch_items
from devmem.embedding import TokenCodes
from devmem.indexes.condition_cache import ConditionLookup
from devmem.indexes.index_set import IndexReader
from devmem.indexes.locking import locked
from devmem.indexes.row_column import Rows
from devmem.indexes.token_codes import TokenCache
from devmem.model.items import MemoryItem
from devmem.search.conditions import Condition, Scalar
from devmem.search.filtering import filter_indexes
from devmem.search.filters import Filter
from devmem.search.source import FilterMatches

_BATCH: Final = 500
_SELECTED_BELOW: Final = 5000
"""Up to this many rows, they are selected by number; beyond, the metadata of all are compared. With an index on one of
the keys that pays off earlier."""


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
        query = f"SELECT passage, codes FROM tokens WHERE passage > ? AND {CODES_CHECKSUM} = checksum ORDER BY passage"
        cursor = self._connection.execute(query, (passage,))
        while found := cursor.fetchmany(_BATCH):
            yield found

    def of(self, passages: Sequence[int]) -> list[tuple[int, bytes]]:
        """Return the codes of passages; one without codes is left out."""
        found: list[tuple[int, bytes]] = []
        for start in range(0, len(passages), _BATCH):
            part = passages[start : start + _BATCH]
            marks = ", ".join("?" * len(part))
            query = f"SELECT passage, codes FROM tokens WHERE passage IN ({marks}) AND {CODES_CHECKSUM} = checksum"
            found += self._connection.execute(query, part)
        return found


class SqliteSource:
    """The database as of the connection's read transaction; see `SearchSource`."""

    def __init__(
        self,
        connection: sqlite3.Connection,
        indexes: IndexReader,
        tokens: TokenCache,
        conditions: ConditionLookup,
        lock: AbstractContextManager[object],
        damaged: DamagedRows,
        indexed: frozenset[str] = frozenset(),
    ) -> None:
        """Take what shows one moment.

        Args:
            connection: in a read transaction.
            indexes: of the same moment.
            tokens: the collection's token codes.
            conditions: remembers which rows match.
            lock: held for each use of the connection, which other searches may share.
            damaged: records the rows that are left out.
            indexed: metadata keys that have an index.
        """
        self._indexed = indexed
        self._connection, self._indexes, self._tokens, self._lock = connection, indexes, tokens, lock
        self._conditions, self._damaged = conditions, damaged

    @property
    def indexes(self) -> IndexReader:
        """The indexes in memory."""
        return self._indexes

    def apply_filter(self, where: Filter, period: tuple[float, float] | None) -> FilterMatches:
        """Return what a filter admits."""
        return filter_indexes(self._indexes, self.rows_with_metadata, where, period)

    def rows_with_metadata(self, metadata: Mapping[str, Scalar | Condition], among: Rows) -> Rows:
        """Return those of the rows whose metadata match."""
        condition, values = metadata_sql(metadata, self._indexed)
        return self._conditions(
            repr(dict(metadata)), among, lambda rows: self._matching(metadata, condition, values, rows)
        )

    def _matching(
        self, metadata: Mapping[str, Scalar | Condition], condition: str, values: Sequence[object], among: Rows
    ) -> Rows:
        """Compare rows in the database."""
        if len(among) > (_SELECTED_BELOW if self._indexed.isdisjoint(metadata) else _BATCH):
            query = f"SELECT row FROM items WHERE {condition}"
            found = locked(self._lock, lambda: self._connection.execute(query, values).fetchall())
            return np.intersect1d(np.array([row for (row,) in found], dtype=np.int64), among)
        rows: list[int] = []
        for part in np.split(among, range(_BATCH, len(among), _BATCH)):
            marks = ", ".join("?" * len(part))
            query = f"SELECT row FROM items WHERE row IN ({marks}) AND {condition}"
            with self._lock:
                rows += [row for (row,) in self._connection.execute(query, [*part.tolist(), *values])]
        return np.array(rows, dtype=np.int64)

    def items(self, rows: Sequence[int]) -> dict[int, MemoryItem]:
        """Return items by row number, without their embeddings; a damaged row is `MISSING`."""
        return locked(self._lock, lambda: fetch_items(self._connection, list(rows), self._damaged))

    def token_codes(self, passages: Sequence[int], width: int) -> tuple[TokenCodes, NDArray[np.int64]]:
        """Return the token codes of passages, joined in their order, and the number of codes of each."""
        return locked(self._lock, lambda: self._tokens.gather(SqliteTokenRows(self._connection), passages, width))
