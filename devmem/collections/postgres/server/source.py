"""The `SearchSource` of a store whose indexes are in the database."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from devmem.collections.postgres.rows import fetch_bodies
from devmem.collections.postgres.schema import PASSAGE_BITS
from devmem.collections.postgres.server.admitted import Admitted, Moment, count_hidden, is_scope_alone
from devmem.collections.postgres.server.caches import Caches
from devmem.collections.postgres.server.documents import ServerDocValues, ServerPassageMap
from devmem.collections.postgres.server.loaded import LoadedItems
from devmem.collections.postgres.server.nearest_codes import NearestCodes
from devmem.collections.postgres.server.searched_texts import AdmittedTexts, AllTexts, SearchedTexts
from devmem.collections.postgres.server.segments import IndexedTexts
from devmem.collections.postgres.server.state import State
from devmem.collections.postgres.server.vector_cache import KnownVectors
from devmem.collections.postgres.server.vector_codes import CodedPassages
from devmem.collections.postgres.server.vectors import ServerVectors
from devmem.collections.postgres.server.words import ServerWordQuery
from devmem.collections.postgres.source import PostgresTokenRows
from devmem.collections.searching import MISSING
from devmem.embedding import TokenCodes
from devmem.indexes.row_column import Rows
from devmem.model.items import MemoryItem
from devmem.search.filters import Filter
from devmem.search.query import SearchQuery
from devmem.search.source import FilterMatches


class _Postings:
    """The full-text index; see `PostingsReader`."""

    def __init__(self, texts: Callable[[], SearchedTexts], loaded: LoadedItems) -> None:
        self._texts, self._loaded = texts, loaded

    def query(self, text: str, allowed: Rows | None = None) -> ServerWordQuery:  # noqa: ARG002 - it is the search's
        """Look up the terms of a text among the admitted passages."""
        return ServerWordQuery(text, self._texts(), self._loaded)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Indexes:
    """See `IndexesReader`; they show what the filter admits."""

    loaded: LoadedItems
    """Items that they have read."""
    doc_values: ServerDocValues
    passage_map: ServerPassageMap
    postings: _Postings
    vectors: ServerVectors | None


class ServerSource:
    """A store as of the connection's read transaction, for one search; see `SearchSource`."""

    def __init__(
        self,
        moment: Moment,
        state: State,
        indexed: IndexedTexts,
        coded: tuple[CodedPassages, CodedPassages] | None,
        caches: Caches,
        vectors: KnownVectors | None,
        query: SearchQuery,
    ) -> None:
        """Prepare a search.

        Args:
            moment: what it sees.
            state: of the store.
            indexed: its passages.
            coded: the codes of their vectors; None where the process does not keep them.
            caches: what the process keeps.
            vectors: the vectors that it keeps; None where the search may not use them.
            query: what is searched for.
        """
        self._moment, self._connection, self._store = moment, moment.connection, moment.store
        self._state, self._indexed, self._coded, self._caches, self._query = state, indexed, coded, caches, query
        self._vectors = vectors
        self._indexes: _Indexes | None = None

    @property
    def indexes(self) -> _Indexes:
        """The indexes, which show what the filter admits."""
        assert self._indexes is not None, "the filter comes first"  # noqa: S101 - `apply_filter` was called
        return self._indexes

    def apply_filter(self, where: Filter, period: tuple[float, float] | None) -> FilterMatches:
        """Restrict the indexes to what a filter admits."""
        state, admitted = self._state, Admitted.of(self._moment, where, period)
        vector = self._query.vector if state.dimension is not None else None
        codes = NearestCodes(vector, admitted, self._coded) if vector is not None and self._coded else None
        loaded = LoadedItems(admitted, vector, self._indexed.passages_of_rows, self._caches.fields, self._vectors)
        if codes is not None:
            loaded.expect(codes.nearest(max(self._query.candidates, self._query.limit)) >> PASSAGE_BITS)
        self._indexes = _Indexes(
            loaded=loaded,
            doc_values=ServerDocValues(admitted, loaded, vector, has_conversations=state.has_conversations),
            passage_map=ServerPassageMap(loaded),
            postings=_Postings(lambda: self._texts(admitted), loaded),
            vectors=None
            if state.dimension is None
            else ServerVectors(state.dimension, admitted, loaded, codes, has_hnsw=state.has_hnsw),
        )
        narrows = period is not None or not is_scope_alone(where)
        return FilterMatches(hidden=count_hidden(admitted, where, self._moment.now) if narrows else 0)

    def _texts(self, admitted: Admitted) -> SearchedTexts:
        if admitted.restricts:
            return AdmittedTexts(admitted, self._indexed, self._caches.postings)
        segments, tail = self._indexed.segments, self._indexed.tail
        return AllTexts(self._connection, self._store, segments, tail, self._caches.postings)

    def items(self, rows: Sequence[int]) -> dict[int, MemoryItem]:
        """Return items by row number, without their embeddings; a row that is not there is `MISSING`."""
        found = fetch_bodies(self._connection, self._store, rows)
        return {row: found.get(row, MISSING) for row in rows}

    def token_codes(self, passages: Sequence[int], width: int) -> tuple[TokenCodes, NDArray[np.int64]]:
        """Return the token codes of passages, joined in their order, and the number of codes of each.

        Whoever compares tokens looks at the items' fields next: the server reads them meanwhile.
        """
        found = self._caches.tokens.gather(PostgresTokenRows(self._connection, self._store), passages, width)
        if self._indexes is not None:
            self._indexes.loaded.expect_fields(np.array(passages, dtype=np.int64) >> PASSAGE_BITS)
        return found
