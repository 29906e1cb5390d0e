"""The `SearchSource` of a PostgreSQL database whose indexes this process follows."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Final

import numpy as np
from numpy.typing import NDArray

from devmem.model.filters import Filter, Wanted
from devmem.model.items import MemoryItem
from devmem.models.embedder import TokenCodes
from devmem.search.candidates import filter_indexes
from devmem.search.indexes.codes import TokenCache
from devmem.search.indexes.columns import Rows
from devmem.search.indexes.doc_values import ConditionLookup
from devmem.search.indexes.index_set import IndexReader
from devmem.search.source import FilterMatches
from devmem.storage.postgres.database import Connection, RowNumbers, composed
from devmem.storage.postgres.predicates import DIALECT
from devmem.storage.postgres.rows import fetch_bodies
from devmem.storage.postgres.server.term_texts import numbers_from

_BATCH_SIZE: Final = 500
# One row is transferred faster than hundreds.
_CODES: Final = (
    "SELECT string_agg(int8send(passage), ''::bytea), string_agg(int4send(octet_length(codes)), ''::bytea), "
    "string_agg(codes, ''::bytea) FROM tokens WHERE store = {store:d} AND passage = ANY(%s)"
)


class PostgresTokenRows:
    """The token codes of a store; see `TokenRows`."""

    def __init__(self, connection: Connection, store: int) -> None:
        self._connection, self._store = connection, store

    def count_after(self, passage: int, limit: int) -> tuple[int, int]:
        """Return the number of passages with codes after one, at most `limit`, and the last of these."""
        query = (
            "SELECT count(*), COALESCE(max(passage), 0) FROM ("
            "SELECT passage FROM tokens WHERE store = %s AND passage > %s ORDER BY passage LIMIT %s) AS next"
        )
        count, last = self._connection.execute(composed(query), (self._store, passage, limit)).fetchone() or (0, 0)
        return int(count), int(last)

    def after(self, passage: int) -> Iterator[list[tuple[int, bytes]]]:
        """Return the codes of every passage after one in ascending order, in batches."""
        query = "SELECT passage, codes FROM tokens WHERE store = %s AND passage > %s ORDER BY passage LIMIT %s"
        while True:
            found = self._connection.execute(query, (self._store, passage, _BATCH_SIZE), binary=True).fetchall()
            if not found:
                return
            yield [(number, codes) for number, codes in found]
            passage = found[-1][0]

    def of(self, passages: Sequence[int]) -> list[tuple[int, bytes]]:
        """Return the codes of passages; one without codes is left out."""
        query = composed(_CODES.format(store=self._store))
        ((numbers, lengths, codes),) = self._connection.execute(query, (RowNumbers(passages),), binary=True).fetchall()
        ends = np.cumsum(numbers_from(lengths, ">i4")).tolist()
        parts = zip(numbers_from(numbers, ">i8").tolist(), pairwise([0, *ends]), strict=True)
        return [(number, codes[start:end]) for number, (start, end) in parts]


class PostgresSource:
    """A store as of the connection's read transaction; see `SearchSource`."""

    def __init__(
        self,
        connection: Connection,
        store: int,
        indexes: IndexReader,
        tokens: TokenCache,
        conditions: ConditionLookup,
    ) -> None:
        """Take what shows one moment.

        Args:
            connection: in a read transaction.
            store: number of the store.
            indexes: of the same moment.
            tokens: the collection's token codes.
            conditions: remembers which rows match.
        """
        self._conditions = conditions
        self._connection, self._store, self._indexes, self._tokens = connection, store, indexes, tokens

    @property
    def indexes(self) -> IndexReader:
        """The indexes in memory."""
        return self._indexes

    def apply_filter(self, where: Filter, period: tuple[float, float] | None) -> FilterMatches:
        """Return what a filter admits."""
        return filter_indexes(self._indexes, self.rows_with_metadata, where, period)

    def rows_with_metadata(self, metadata: Mapping[str, Wanted], among: Rows) -> Rows:
        """Return those of the rows whose metadata match."""
        condition, values = DIALECT.metadata(metadata)
        return self._conditions(repr(dict(metadata)), among, lambda rows: self._matching(condition, values, rows))

    def _matching(self, condition: str, values: Sequence[object], among: Rows) -> Rows:
        """Compare rows in the database."""
        query = f"SELECT row FROM items WHERE store = %s AND row = ANY(%s) AND {condition}"
        found = self._connection.execute(
            composed(query), (self._store, among.tolist(), *values), binary=True
        ).fetchall()
        return np.array([row for (row,) in found], dtype=np.int64)

    def items(self, rows: Sequence[int]) -> dict[int, MemoryItem]:
        """Return items by row number, without their embeddings; one that is damaged or not there is `MISSING`."""
        return fetch_bodies(self._connection, self._store, rows)

    def token_codes(self, passages: Rows, width: int) -> tuple[TokenCodes, NDArray[np.int64]]:
        """Return the token codes of passages, joined in their order, and the number of codes of each."""
        return self._tokens.gather(PostgresTokenRows(self._connection, self._store), passages, width)
