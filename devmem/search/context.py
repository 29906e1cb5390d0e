"""The state of one search: the query, the indexes, the filter's matches, and what stages leave for later ones."""

from __future__ import annotations

from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from devmem.indexes.row_column import Rows
from devmem.indexes.top_k import places_in
from devmem.search.query import MAX_QUERY_CHARACTERS, SearchQuery
from devmem.search.readers import IndexesReader, WordQueryReader
from devmem.search.source import FilterMatches, SearchSource
from devmem.text.times import Period, period_of

Column = NDArray[np.float64]
Places = NDArray[np.int64]


class QueryContext:
    """A query and the indexes that it searches; used by one search, in one thread."""

    def __init__(self, source: SearchSource, query: SearchQuery, now: float) -> None:
        """Prepare a search; `now` is in seconds since the epoch and is overridden by the query's own time."""
        self.source, self.query = source, query
        self.text = query.text[:MAX_QUERY_CHARACTERS]
        """The part of the query's text that is analysed."""
        self.asked_at = query.now if query.now is not None else now
        """Time of the question; seconds since the epoch."""
        self._near: Rows = np.empty(0, dtype=np.int64)
        self._similarities: Column = np.empty(0)

    @cached_property
    def period(self) -> Period | None:
        """The time that the query names; None when it names none, or times do not count."""
        names_times = self.query.ranking.time != "off" and self.query.weights is None
        return period_of(self.text, self.asked_at) if names_times else None

    @cached_property
    def matches(self) -> FilterMatches:
        """Items and passages that the filter admits."""
        narrowed = self.period if self.query.ranking.time == "narrow" else None
        return self.source.apply_filter(self.query.where, (narrowed.start, narrowed.end) if narrowed else None)

    @cached_property
    def indexes(self) -> IndexesReader:
        """The indexes, which a source may have restricted to what the filter admits."""
        _ = self.matches
        return self.source.indexes

    @cached_property
    def words(self) -> WordQueryReader:
        """The query's terms, looked up in the postings of the admitted passages."""
        return self.indexes.postings.query(self.text, self.matches.passages)

    def nearest(self, limit: int) -> Rows:
        """Return the admitted passages most similar to the query, at most `limit`, in ascending order."""
        if self.indexes.vectors is None or self.query.vector is None:
            return self._near
        found, near = self.indexes.vectors.nearest(self.query.vector, limit, self.matches.passages)
        order = np.argsort(found)
        self._near, self._similarities = found[order], near[order].astype(np.float64)
        return self._near

    def similarities(self, passages: Rows) -> Column:
        """Return the cosine of some passages and the query; NaN for one without a vector."""
        found = np.full(len(passages), np.nan)
        at = places_in(self._near, passages)
        known = at >= 0
        found[known] = self._similarities[at[known]]
        if self.indexes.vectors is not None and self.query.vector is not None and not known.all():
            found[~known] = self.indexes.vectors.similarities(self.query.vector, passages[~known])
        return found

    def signals(self, passages: Rows) -> tuple[Column, Column]:
        """Return the cosine (NaN without a vector) and the BM25 score of some passages."""
        return self.similarities(passages), self.words.scores_of(passages)

    def turns_around(self, positions: Places, reach: int) -> list[Places]:
        """Return the positions of the admitted items around each in its conversation; see `DocValues.around`."""
        return self.indexes.doc_values.around(positions, reach, self.matches.positions)
