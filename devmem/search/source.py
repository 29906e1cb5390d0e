"""The protocol between the search pipeline and a database."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final, Protocol

import numpy as np
from numpy.typing import NDArray

from devmem.model.filters import Filter
from devmem.model.items import MemoryItem, Vector
from devmem.models.embedder import TokenCodes
from devmem.search.indexes.columns import Mask, Positions, Rows, computed_once, places_in
from devmem.search.query import MAX_QUERY_CHARACTERS, SearchQuery
from devmem.text.query_text import QueryText
from devmem.text.times import AskedAt, period_of, session_named


class DocValuesReader(Protocol):
    """Fields of items by position; see `DocValues`."""

    @property
    def has_conversations(self) -> bool:
        """Whether any item is or was of a conversation."""
        ...

    def positions(self, rows: Rows, /) -> Positions:
        """Return the position of each row; -1 for one that is not there."""
        ...

    def rows(self, positions: Positions, /) -> Rows:
        """Return the rows at some positions."""
        ...

    def column(self, name: str, /) -> NDArray[Any]:
        """Return a column, which has a value at each position that was returned before."""
        ...

    def strings(self, name: str, positions: Positions, /) -> list[str | None]:
        """Return the `speaker`, `user` or `conversation` of each item at some positions."""
        ...

    def last_with_cues(self, cues: int, limit: int, admitted: Mask | None = None, /) -> Positions:
        """Return the positions of the last admitted items with one of some cues, in the order of their times."""
        ...

    def in_period(self, start: float, end: float, limit: int, admitted: Mask | None = None, /) -> Positions:
        """Return the positions of the admitted items of a time, in its order; of more than `limit`, an even spread."""
        ...

    def in_session(self, place: int, now: float, limit: int, admitted: Mask | None = None, /) -> Positions:
        """Return the positions of the admitted items of a session, in the order of their times.

        Args:
            place: of the session among those of the admitted items, in the order in which they began; from -1 for the
                last one.
            now: counted from the last, the session that runs at this time is passed over.
            limit: maximum number of items; of more, an even spread is returned.
            admitted: whether each position counts; None admits all.
        """
        ...

    def around(self, positions: Positions, reach: int, visible: Mask | None = None, /) -> list[Positions]:
        """Return the positions of the `reach` items before each in its conversation, then those after."""
        ...

    def with_cues(self, cues: int, admitted: Mask | None = None, /) -> Positions:
        """Return the positions of the admitted items whose text has one of some cues."""
        ...


class PassageMapReader(Protocol):
    """Which passages an item has; see `PassageMap`."""

    @property
    def singles(self) -> bool:
        """Whether no item has more than one passage."""
        ...

    def rows_of(self, passages: Rows, /) -> Rows:
        """Return the row of each passage."""
        ...

    def passages_of(self, rows: Rows, /) -> tuple[Rows, Rows]:
        """Return the passages of some rows, and for each passage its row's place in `rows`."""
        ...

    def all_passages_of(self, rows: Rows, /) -> Rows:
        """Return the passages of some rows, in ascending order."""
        ...


class WordQueryReader(Protocol):
    """The terms of a text and their statistics; see `PostingsQuery`."""

    @property
    def count(self) -> int:
        """Number of passages that may be found."""
        ...

    @property
    def ceiling(self) -> float:
        """Score of a short text that repeats every term; 0 when none occurs."""
        ...

    def frequency(self, term: str, /) -> int:
        """Return the number of passages that a term occurs in."""
        ...

    def top(self, limit: int, /) -> Rows:
        """Return the passages with the highest scores above 0, best first."""
        ...

    def scores_of(self, passages: Rows, /) -> NDArray[np.float64]:
        """Return the BM25 score of some passages; 0 for one that is not there."""
        ...


class PostingsReader(Protocol):
    """The full-text index; see `PostingsIndex`."""

    def query(self, text: QueryText, allowed: Rows | None = None, /) -> WordQueryReader:
        """Look up the terms of a text among the allowed passages; None allows all."""
        ...

    def frequencies(self, terms: Sequence[str], allowed: Rows | None = None, /) -> Mapping[str, int]:
        """Return the number of allowed passages that each of some terms occurs in; None allows all.

        Deleted ones may count.
        """
        ...


class VectorsReader(Protocol):
    """The vectors; see `VectorReader`."""

    @property
    def dimension(self) -> int:
        """Number of components of a vector."""
        ...

    def nearest(self, query: Vector, limit: int, allowed: Rows | None = None, /) -> tuple[Rows, Vector]:
        """Return the passages most similar to the query with their similarities, best first."""
        ...

    def similarities(self, query: Vector, passages: Rows, /) -> NDArray[np.float64]:
        """Return the cosine of the query and each passage; NaN for a passage that has no vector."""
        ...

    def gather(self, passages: Rows, /) -> Vector:
        """Return the vectors of some passages, shape (n, dimension); zeros for a passage that has none."""
        ...


class IndexesReader(Protocol):
    """The indexes as of one moment; see `IndexReader`."""

    @property
    def doc_values(self) -> DocValuesReader:
        """Fields of the items."""
        ...

    @property
    def passage_map(self) -> PassageMapReader:
        """Which passages an item has."""
        ...

    @property
    def postings(self) -> PostingsReader:
        """The full-text index."""
        ...

    @property
    def vectors(self) -> VectorsReader | None:
        """The vectors; None as long as no item has an embedding."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class FilterMatches:
    """The items and passages that a filter admits; None admits all that the indexes show, which none expired is."""

    positions: Mask | None = None
    """Whether each position of the doc values is admitted."""
    passages: Rows | None = None
    """The admitted passages, ascending."""
    filtered: int = 0
    """Number of items within the filter's scope that the rest of it does not admit."""


class SearchSource(Protocol):
    """A database as one search sees it: everything that it returns is of one moment.

    Row and passage numbers tell items and passages apart, and the higher one counts as the newer one. Nothing else
    follows from them: transactions may commit in another order than that of their numbers, so an item with a lower
    number may become visible after one with a higher number. See `IndexSet` for what a follower has to guarantee.
    """

    @property
    def indexes(self) -> IndexesReader:
        """The indexes, which show the same moment of the database."""
        ...

    def apply_filter(self, where: Filter, period: tuple[float, float] | None) -> FilterMatches:
        """Return what a filter admits; called once, before the indexes are searched.

        A source may restrict its indexes to that instead of returning it.

        Args:
            where: the filter.
            period: restricts the items to those of a time, from and until, in seconds since the epoch; None does not.
        """
        ...

    def items(self, rows: Sequence[int]) -> dict[int, MemoryItem]:
        """Return items by row number, without their embeddings."""
        ...

    def token_codes(self, passages: Rows, width: int) -> tuple[TokenCodes, NDArray[np.int64]]:
        """Return the token codes of passages, joined in their order, and the number of codes of each.

        Args:
            passages: passage numbers, in any order.
            width: bytes of a token's code; codes of another width are those of another model and are left out.
        """
        ...


Column = NDArray[np.float64]
Places = NDArray[np.int64]

_MOST_ASKED: Final = 2000
"""Maximum number of items of a session or a period that are looked at."""


class QueryContext:
    """A query and the indexes that it searches; used by one search, in one thread."""

    def __init__(self, source: SearchSource, query: SearchQuery, now: float) -> None:
        """Prepare a search; `now` is in seconds since the epoch and is overridden by the query's own time."""
        self.source, self.query = source, query
        focus = query.ranking.focus and query.weights is None
        self.query_text = QueryText.of(query.text[:MAX_QUERY_CHARACTERS], focus=focus)
        """The part of the query's text that is analysed."""
        self.text = self.query_text.asked
        """The sentences of it that ask something, or all of it."""
        self.asked_at: AskedAt = query.now if query.now is not None else now
        """Time of the question, with the asker's zone where that is known."""
        self.now = self.asked_at.timestamp() if isinstance(self.asked_at, datetime) else self.asked_at
        """The same in seconds since the epoch."""
        names_times = query.ranking.time != "off" and query.weights is None
        self.period = period_of(self.text, self.asked_at) if names_times else None
        """The time that the query names; None when it names none, or times do not count."""
        self.session = session_named(self.text) if names_times else None
        """Place of the session that the query names; see `session_named`."""
        self._near: Rows = np.empty(0, dtype=np.int64)
        self._similarities: Column = np.empty(0)

    @computed_once
    def matches(self) -> FilterMatches:
        """Items and passages that the filter admits."""
        narrowed = self.period if self.query.ranking.time == "narrow" else None
        return self.source.apply_filter(self.query.where, (narrowed.start, narrowed.end) if narrowed else None)

    @computed_once
    def indexes(self) -> IndexesReader:
        """The indexes, which a source may have restricted to what the filter admits."""
        _ = self.matches
        return self.source.indexes

    @computed_once
    def asked_positions(self) -> Places:
        """Positions of the items of the session or the period that the query names, in the order of their times.

        Of more than some thousand, an even spread.
        """
        doc_values, admitted = self.indexes.doc_values, self.matches.positions
        if self.session is not None:
            return doc_values.in_session(self.session, self.now, _MOST_ASKED, admitted)
        if self.period is not None:
            return doc_values.in_period(self.period.start, self.period.end, _MOST_ASKED, admitted)
        return np.empty(0, dtype=np.int64)

    @computed_once
    def words(self) -> WordQueryReader:
        """The query's terms, looked up in the postings of the admitted passages."""
        return self.indexes.postings.query(self.query_text, self.matches.passages)

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
