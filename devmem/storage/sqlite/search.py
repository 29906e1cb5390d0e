"""The source of a search in a SQLite database: its indexes in memory, and what is read of the file."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Final

import numpy as np
from numpy.typing import NDArray

from devmem.model.filters import Filter, Wanted
from devmem.model.items import MemoryItem
from devmem.models.embedder import TokenCodes
from devmem.search.candidates import filter_indexes
from devmem.search.indexes.codes import TokenCache
from devmem.search.indexes.columns import Rows, locked
from devmem.search.indexes.doc_values import ConditionLookup
from devmem.search.indexes.index_set import IndexReader
from devmem.search.source import FilterMatches
from devmem.storage.reading import BATCH_SIZE
from devmem.storage.sqlite.compact_rows import (
    IS_FIRST_PART,
    PARTS_OF_PASSAGE,
    PASSAGE_OF_PART,
    joined_codes,
)
from devmem.storage.sqlite.predicates import SqliteDialect
from devmem.storage.sqlite.tables import fetch_items

_SELECTED_BELOW: Final = 5000
"""Up to this many rows, they are selected by number; beyond, the metadata of all are compared. With an index on one of
the keys that pays off earlier."""


class SqliteTokenRows:
    """The token codes of a SQLite database; see `TokenRows`."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection

    def all(self, limit: int) -> dict[int, bytes]:
        """Return the codes of every passage; nothing where more than `limit` have some."""
        counted = f"SELECT count(*) FROM (SELECT 1 FROM tokens WHERE {IS_FIRST_PART} LIMIT ?)"
        (count,) = self._connection.execute(counted, (limit + 1,)).fetchone()
        every = f"SELECT {PASSAGE_OF_PART}, codes FROM tokens ORDER BY part"
        return dict(joined_codes(self._connection.execute(every))) if count <= limit else {}

    def of(self, passages: Sequence[int]) -> dict[int, bytes]:
        """Return the codes of passages; one without codes is left out."""
        query = (
            "SELECT passage, codes FROM (SELECT value AS passage FROM json_each(?)) "
            f"CROSS JOIN tokens ON {PARTS_OF_PASSAGE} ORDER BY part"
        )
        return dict(joined_codes(self._connection.execute(query, (json.dumps(sorted(passages)),))))


class SqliteSource:
    """The database as of the connection's read transaction; see `SearchSource`."""

    def __init__(
        self,
        connection: sqlite3.Connection,
        indexes: IndexReader,
        tokens: TokenCache,
        conditions: ConditionLookup,
        lock: AbstractContextManager[object],
        indexed: frozenset[str] = frozenset(),
    ) -> None:
        """Take what shows one moment.

        Args:
            connection: in a read transaction.
            indexes: of the same moment.
            tokens: the collection's token codes.
            conditions: remembers which rows match.
            lock: held for each use of the connection, which other searches may share.
            indexed: metadata keys that have an index.
        """
        self._connection, self._indexes, self._tokens, self._lock = connection, indexes, tokens, lock
        self._conditions, self._indexed = conditions, indexed

    @property
    def indexes(self) -> IndexReader:
        """The indexes in memory."""
        return self._indexes

    def apply_filter(self, where: Filter, period: tuple[float, float] | None) -> FilterMatches:
        """Return what a filter admits."""
        return filter_indexes(self._indexes, self.rows_with_metadata, where, period)

    def rows_with_metadata(self, metadata: Mapping[str, Wanted], among: Rows) -> Rows:
        """Return those of the rows whose metadata match."""
        condition, values = SqliteDialect(self._indexed).metadata(metadata)
        return self._conditions(
            repr(dict(metadata)), among, lambda rows: self._matching(metadata, condition, values, rows)
        )

    def _matching(self, metadata: Mapping[str, Wanted], condition: str, values: Sequence[object], among: Rows) -> Rows:
        """Compare rows in the database."""
        if len(among) > (_SELECTED_BELOW if self._indexed.isdisjoint(metadata) else BATCH_SIZE):
            query = f"SELECT row FROM items WHERE {condition}"
            found = locked(self._lock, lambda: self._connection.execute(query, values).fetchall())
            return np.intersect1d(np.array([row for (row,) in found], dtype=np.int64), among)
        matching: list[int] = []
        for part in np.split(among, range(BATCH_SIZE, len(among), BATCH_SIZE)):
            marks = ", ".join("?" * len(part))
            query = f"SELECT row FROM items WHERE row IN ({marks}) AND {condition}"
            with self._lock:
                matching += [row for (row,) in self._connection.execute(query, [*part.tolist(), *values])]
        return np.array(matching, dtype=np.int64)

    def items(self, rows: Sequence[int]) -> dict[int, MemoryItem]:
        """Return items by row number, without their embeddings."""
        return locked(self._lock, lambda: fetch_items(self._connection, rows))

    def token_codes(self, passages: Rows, width: int) -> tuple[TokenCodes, NDArray[np.int64]]:
        """Return the token codes of passages, joined in their order, and the number of codes of each."""
        return locked(self._lock, lambda: self._tokens.gather(SqliteTokenRows(self._connection), passages, width))
