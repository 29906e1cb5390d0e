"""What is context of the indexes, with what one stage of a search leaves for the next."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from devmem.indexes.top_k import places_in
from devmem.indexes.vectors import Rows
from devmem.search.query import SearchQuery
from devmem.search.source import SearchSource

Column = NDArray[np.float64]
Places = NDArray[np.int64]


class QueryContext:
    """A query and the indexes that it is context of; good for one search."""

    def __init__(self, source: SearchSource, query: SearchQuery) -> None:
        """Look the query's words up."""
        self.source, self.indexes, self.query = source, source.indexes, query
        self.words = self.indexes.postings.query(query.text)
        self._near: Rows = np.empty(0, dtype=np.int64)
        self._similarities: Column = np.empty(0)

    def nearest(self, limit: int, allowed: Rows | None) -> Rows:
        """Give the passages most similar to the query, in ascending order; `allowed` restricts them, None does not."""
        if self.indexes.vectors is None or self.query.vector is None:
            return self._near
        found, near = self.indexes.vectors.nearest(self.query.vector, limit, allowed)
        order = np.argsort(found)
        self._near, self._similarities = found[order], near[order].astype(np.float64)
        return self._near

    def similarities(self, passages: Rows) -> Column:
        """Give the cosine of some passages and the query; NaN where one of them has no vector."""
        found = np.full(len(passages), np.nan)
        at = places_in(self._near, passages)
        known = at >= 0
        found[known] = self._similarities[at[known]]
        if self.indexes.vectors is not None and self.query.vector is not None and not known.all():
            found[~known] = self.indexes.vectors.similarities(self.query.vector, passages[~known])
        return found

    def signals(self, passages: Rows) -> tuple[Column, Column]:
        """Give the cosine (NaN where there is no vector) and the BM25 of some passages."""
        return self.similarities(passages), self.words.scores_of(passages)
