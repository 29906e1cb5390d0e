"""The `SearchSource` of a store whose indexes are in the database."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from devmem.collections.postgres.database import Connection
from devmem.collections.postgres.rows import fetch_bodies
from devmem.collections.postgres.server.admitted import Admitted, count_hidden, is_scope_alone
from devmem.collections.postgres.server.documents import ServerDocValues, ServerPassageMap
from devmem.collections.postgres.server.loaded import LoadedItems
from devmem.collections.postgres.server.segments import IndexedTexts
from devmem.collections.postgres.server.vectors import ServerVectors
from devmem.collections.postgres.server.words import SearchedTexts, ServerWordQuery
from devmem.collections.postgres.source import PostgresTokenRows
from devmem.collections.searching import MISSING
from devmem.embedding import TokenCodes
from devmem.indexes.row_column import Rows
from devmem.indexes.token_codes import TokenCache
from devmem.model.items import MemoryItem
from devmem.search.filters import Filter
from devmem.search.query import SearchQuery
from devmem.search.source import FilterMatches


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreState:
    """Properties of a store that a search needs beforehand."""

    dimension: int | None
    """Of its vectors; None as long as there are none."""
    has_hnsw: bool
    """Whether its vectors have an HNSW index."""
    has_conversations: bool
    """Whether any item is of a conversation."""


class _Postings:
    """The full-text index; see `PostingsReader`."""

    def __init__(self, texts: SearchedTexts, loaded: LoadedItems) -> None:
        self._texts, self._loaded = texts, loaded

    def query(self, text: str, allowed: Rows | None = None) -> ServerWordQuery:  # noqa: ARG002 - it is the search's
        """Look up the terms of a text among the admitted passages."""
        return ServerWordQuery(text, self._texts, self._loaded)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Indexes:
    """See `IndexesReader`; they show what the filter admits."""

    doc_values: ServerDocValues
    passage_map: ServerPassageMap
    postings: _Postings
    vectors: ServerVectors | None


class ServerSource:
    """A store as of the connection's read transaction, for one search; see `SearchSource`."""

    def __init__(
        self,
        connection: Connection,
        store: int,
        state: StoreState,
        indexed: IndexedTexts,
        tokens: TokenCache,
        query: SearchQuery,
        now: float,
    ) -> None:
        """Prepare a search.

        Args:
            connection: in a read transaction.
            store: number of the store.
            state: of the store, of the same moment.
            indexed: its passages, of the same moment.
            tokens: the collection's token codes.
            query: what is searched for.
            now: items that expired until then are not found; seconds since the epoch.
        """
        self._connection, self._store, self._state = connection, store, state
        self._indexed, self._tokens, self._query, self._now = indexed, tokens, query, now
        self._indexes: _Indexes | None = None

    @property
    def indexes(self) -> _Indexes:
        """The indexes, which show what the filter admits."""
        assert self._indexes is not None, "the filter comes first"  # noqa: S101 - `apply_filter` was called
        return self._indexes

    def apply_filter(self, where: Filter, period: tuple[float, float] | None) -> FilterMatches:
        """Restrict the indexes to what a filter admits."""
        connection, store, state = self._connection, self._store, self._state
        admitted = Admitted.of(connection, store, where, period, self._now)
        vector = self._query.vector if state.dimension is not None else None
        loaded = LoadedItems(admitted, vector)
        self._indexes = _Indexes(
            doc_values=ServerDocValues(admitted, loaded, vector, has_conversations=state.has_conversations),
            passage_map=ServerPassageMap(loaded),
            postings=_Postings(SearchedTexts(self._indexed, admitted), loaded),
            vectors=None
            if state.dimension is None
            else ServerVectors(state.dimension, admitted, loaded, has_hnsw=state.has_hnsw),
        )
        narrows = period is not None or not is_scope_alone(where)
        return FilterMatches(hidden=count_hidden(admitted, where, self._now) if narrows else 0)

    def items(self, rows: Sequence[int]) -> dict[int, MemoryItem]:
        """Return items by row number, without their embeddings; a row that is not there is `MISSING`."""
        found = fetch_bodies(self._connection, self._store, rows)
        return {row: found.get(row, MISSING) for row in rows}

    def token_codes(self, passages: Sequence[int], width: int) -> tuple[TokenCodes, NDArray[np.int64]]:
        """Return the token codes of passages, joined in their order, and the number of codes of each."""
        return self._tokens.gather(PostgresTokenRows(self._connection, self._store), passages, width)
