"""The passages that a search may find by words, and the postings of its terms among them.

Where a filter restricts the search, only what it admits is numbered: statistics are those of the admitted passages, and
the postings of the others are left out.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from functools import cached_property, lru_cache
from itertools import chain
from typing import Final

import numpy as np
from numpy.typing import NDArray

from devmem.search.indexes.columns import Positions, Rows, Scores, places_in
from devmem.search.indexes.postings import Postings
from devmem.search.indexes.scoring import (
    K1,
    NOT_THERE,
    Impacts,
    PostingList,
    TermList,
    best_of,
    impact_table,
    scores_at,
    term_hash,
)
from devmem.storage.postgres.database import Connection
from devmem.storage.postgres.schema import PASSAGE_BITS
from devmem.storage.postgres.server.admitted import Admitted, AdmittedPassages
from devmem.storage.postgres.server.loaded import LoadedItems
from devmem.storage.postgres.server.posting_cache import PostingCache, TermPostings
from devmem.storage.postgres.server.segments import NO_SEGMENTS, IndexedTexts, SegmentMap, count_postings, read_terms
from devmem.storage.postgres.server.term_texts import NO_TEXTS, TermTexts
from devmem.text.analysis import term_weight, terms
from devmem.text.query_text import QueryText

_FEW: Final = 20
"""Number of admitted items up to which their terms are read instead of postings, whatever the size of the store."""
_SHARE: Final = 1_000
"""In a large store, terms are read instead of postings for up to one item in this many passages."""
_SHORT: Final = 1 << 20
"""Number of a term's postings up to which they are fetched to be counted."""
_SAMPLE: Final = 1_000
"""Number of items in whose terms more common ones are counted."""
_TABLES: Final = 32
"""Number of impact tables that are kept, of 256 KB each: scopes that are searched in turns have one each."""


class SearchedTexts(ABC):
    """The passages that a search may find by words, numbered from 0 on: those of segments, then those of the tail."""

    def __init__(
        self, connection: Connection, store: int, segments: SegmentMap, tail: TermTexts, cache: PostingCache
    ) -> None:
        self._connection, self._store, self._cache = connection, store, cache
        self._segments, self._tail = segments, tail
        self._first_of_tail = self._count_in_segments()
        self.count = self._first_of_tail + len(tail.passages)
        """Number of passages; deleted ones count until a segment is made without them."""
        total = self._length_in_segments() + float(tail.lengths.sum(dtype=np.float64))
        self.table = _impacts(total / max(self.count, 1))
        """Impacts by code."""

    def term_list(self, parts: Sequence[PostingList], frequency: int, weight: float) -> TermList:
        """Return some postings of a term with its statistics."""
        return TermList(parts=parts, table=self.table, texts=self.count, frequency=frequency, weight=weight)

    @abstractmethod
    def _count_in_segments(self) -> int:
        """Return the number of passages that are in segments."""

    @abstractmethod
    def _length_in_segments(self) -> float:
        """Return the length of these, in terms."""

    @abstractmethod
    def _in_segments(self, term: int, found: TermPostings) -> PostingList | None:
        """Return those of a term's postings that may be found; None where there are none."""

    @abstractmethod
    def _positions_in_segments(self, passages: Rows) -> Positions:
        """Return the position of each passage; -1 for one that is in no segment, or not admitted."""

    @abstractmethod
    def _passages_in_segments(self, positions: Positions) -> Rows:
        """Return the passages at some positions in the segments."""

    @abstractmethod
    def frequencies(self, hashes: Sequence[int]) -> dict[int, int]:
        """Return the number of passages that some terms occur in."""

    def _counts(self, hashes: Sequence[int]) -> dict[int, int]:
        """Return the number of passages in all segments that some terms occur in, whatever is admitted."""
        connection, store, segments = self._connection, self._store, self._segments
        return self._cache.counts(
            segments.segments, hashes, lambda missing: count_postings(connection, store, segments, missing)
        )

    def lists_of(self, weights: Mapping[int, float]) -> dict[int, TermList]:
        """Return the postings of some terms, given the weight of each."""
        found = self._postings(list(weights))
        lists: dict[int, TermList] = {}
        for term, weight in weights.items():
            in_tail = self._tail.postings(term, self.table, self._first_of_tail)
            parts = [part for part in (self._in_segments(term, found[term]), in_tail) if part is not None]
            lists[term] = self.term_list(parts, sum(part.count for part in parts), weight)
        return lists

    def _postings(self, terms: Sequence[int]) -> dict[int, TermPostings]:
        """Return the postings of some terms in the segments, whatever is admitted."""
        return self._cache.read(self._connection, self._segments.layout, terms)

    def passages_at(self, positions: Positions) -> Rows:
        """Return the passages at some positions."""
        found = np.empty(len(positions), dtype=np.int64)
        in_tail = positions >= self._first_of_tail
        found[~in_tail] = self._passages_in_segments(positions[~in_tail])
        found[in_tail] = self._tail.passages[positions[in_tail] - self._first_of_tail]
        return found

    def positions_of(self, passages: Rows) -> Positions:
        """Return the position of each passage; -1 for one that may not be found."""
        found = self._positions_in_segments(passages)
        order = self._order_of_tail
        at = places_in(self._tail.passages[order], passages)
        return np.where(at >= 0, self._first_of_tail + order[at], found) if len(order) else found

    @cached_property
    def _order_of_tail(self) -> Positions:
        return np.argsort(self._tail.passages)

    def terms_of(self, passages: Rows) -> TermTexts:
        """Read the terms of some passages, which ascend."""
        return read_terms(self._connection, self._store, np.unique(passages >> PASSAGE_BITS).tolist())


class AllTexts(SearchedTexts):
    """Every passage of a store."""

    def _count_in_segments(self) -> int:
        return len(self._segments.passages)

    def _length_in_segments(self) -> float:
        return self._segments.total_length

    def _in_segments(self, term: int, found: TermPostings) -> PostingList | None:  # noqa: ARG002 - all of them
        return found.scored(self.table)

    def _positions_in_segments(self, passages: Rows) -> Positions:
        return self._segments.positions_of(passages)

    def _passages_in_segments(self, positions: Positions) -> Rows:
        return self._segments.passages[positions]

    def frequencies(self, hashes: Sequence[int]) -> dict[int, int]:
        """Return the number of passages that some terms occur in, deleted ones included."""
        in_segments = self._counts(hashes)
        return {term: in_segments[term] + self._tail.count_of(term) for term in hashes}


_NO_PASSAGES: Final = AdmittedPassages(NO_SEGMENTS, np.empty(0, dtype=np.int64))


class AdmittedTexts(SearchedTexts):
    """The passages of a store that a filter admits."""

    def __init__(self, admitted: Admitted, indexed: IndexedTexts, cache: PostingCache) -> None:
        """Take those of the passages that are admitted; of few items just their terms are read."""
        segments, rows = indexed.segments, admitted.rows
        if len(rows) <= max(_FEW, len(segments.passages) // _SHARE):
            segments, tail = NO_SEGMENTS, read_terms(admitted.connection, admitted.store, rows.tolist())
            self._passages = _NO_PASSAGES
        else:
            tail = indexed.tail.where(places_in(rows, indexed.tail.passages >> PASSAGE_BITS) >= 0)
            self._passages = admitted.set.places(segments, lambda: AdmittedPassages(segments, rows))
        self._rows = rows
        super().__init__(admitted.connection, admitted.store, segments, tail, cache)

    def _count_in_segments(self) -> int:
        return len(self._passages.positions)

    def _length_in_segments(self) -> float:
        return self._passages.length

    @cached_property
    def _mask(self) -> NDArray[np.bool_]:
        """Whether each position in the segments is of an admitted passage."""
        mask = np.zeros(len(self._segments.passages), dtype=np.bool_)
        mask[self._passages.positions] = True
        return mask

    def _in_segments(self, term: int, found: TermPostings) -> PostingList | None:
        docs, codes = self._passages.postings(term, found, lambda: self._mask)
        return Postings(docs=docs, codes=codes, peak=found.peak(self.table)) if len(docs) else None

    def _positions_in_segments(self, passages: Rows) -> Positions:
        at = self._segments.positions_of(passages)
        return np.where(at >= 0, places_in(self._passages.positions, at), -1)

    def _passages_in_segments(self, positions: Positions) -> Rows:
        return self._segments.passages[self._passages.positions[positions]]

    def frequencies(self, hashes: Sequence[int]) -> dict[int, int]:
        """Return the number of passages that some terms occur in; that of very common ones is estimated.

        Only the admitted passages decide it, so that scores tell nothing about the others.
        """
        in_segments = self._counts(hashes)
        short = self._postings([term for term in hashes if in_segments[term] <= _SHORT])
        found = {term: self._count_of(term, postings) for term, postings in short.items()}
        return found | {term: self._estimated(term) for term in hashes if term not in found}

    def _count_of(self, term: int, postings: TermPostings) -> int:
        docs, _ = self._passages.postings(term, postings, lambda: self._mask)
        return len(docs) + self._tail.count_of(term)

    def _estimated(self, term: int) -> int:
        return round(self.count * self._sample.count_of(term) / max(len(self._sample.passages), 1))

    @cached_property
    def _sample(self) -> TermTexts:
        """Terms of some of the items that may be found, evenly spread."""
        if not len(self._rows):
            return NO_TEXTS
        step = max(1, len(self._rows) // _SAMPLE)
        return read_terms(self._connection, self._store, self._rows[::step].tolist())


@lru_cache(maxsize=_TABLES)
def _impacts(mean_length: float) -> Impacts:
    """Return the impacts by code at a mean length of texts; they must not be changed."""
    table = impact_table(mean_length).copy()
    table[NOT_THERE] = 0.0
    return table


_WIDENING: Final = 4
"""Factor by which the limit grows as long as too few of the passages found are admitted."""
_WITHOUT_CHARACTERS: Final = 2
"""Factor by which more passages are found where single characters decide their order."""


class ServerWordQuery:
    """The terms of a text and their postings; see `WordQueryReader`."""

    def __init__(self, text: QueryText, texts: SearchedTexts, loaded: LoadedItems) -> None:
        """Look the terms up."""
        self._texts, self._loaded = texts, loaded
        weighed = text.term_weights()
        self._weights = weights = {term_hash(term): weight for term, weight in weighed.items()}
        # Single characters are looked up for candidates only, unless there is nothing else.
        listed = [term_hash(term) for term in weighed if term_weight(term) == 1.0] or list(weights)
        found = texts.lists_of({term: weights[term] for term in listed})
        # Of these passages alone, whatever statistics they are scored with.
        known = {term: sum(part.count for part in one.parts) for term, one in found.items()}
        every = dict.fromkeys(map(term_hash, chain(terms(text.asked), weighed)))
        others = [term for term in every if term not in known]
        self._frequencies = known | texts.frequencies(others)
        self._lists = sorted((one for one in found.values() if one.frequency), key=lambda one: one.frequency)
        self._occurring = sorted(
            (term for term in weights if self._frequencies[term]), key=self._frequencies.__getitem__
        )
        self._characters = len(listed) < len(weights)
        self.ceiling = (K1 + 1) * float(sum(self._among(NO_TEXTS, term).idf for term in self._occurring))
        """Score of a short text that repeats every term; 0 when none occurs."""
        self._scored: tuple[Rows, Rows, Scores] | None = None

    @property
    def count(self) -> int:
        """Number of passages that may be found."""
        return self._texts.count

    def frequency(self, term: str) -> int:
        """Return the number of passages that a term occurs in; deleted ones may count."""
        hashed = term_hash(term)
        if hashed not in self._frequencies:
            self._frequencies |= self._texts.frequencies([hashed])
        return self._frequencies[hashed]

    def top(self, limit: int) -> Rows:
        """Return the admitted passages with the highest scores above 0, best first."""
        if not self._lists or limit < 1:
            return np.empty(0, dtype=np.int64)
        wanted = limit * _WITHOUT_CHARACTERS if self._characters else limit
        asked = wanted
        while True:
            positions, _ = best_of(self._lists, np.zeros(self._texts.count, dtype=np.float32), asked)
            found = self._texts.passages_at(positions)
            found = found[self._loaded.are_admitted(found >> PASSAGE_BITS)][:wanted]
            if len(found) == wanted or len(positions) < asked:
                break
            asked *= _WIDENING
        if self._characters:
            found = found[np.lexsort((-found, -self.scores_of(found)))]
        return found[:limit]

    def scores_of(self, passages: Rows) -> NDArray[np.float64]:
        """Return the BM25 score of some passages; 0 for one that is not there."""
        found = np.zeros(len(passages), dtype=np.float64)
        if self._characters:
            known, scores = self._scores_with_characters(passages)
            at = places_in(known, passages)
            found[at >= 0] = scores[at[at >= 0]]
        else:
            at = self._texts.positions_of(passages)
            found[at >= 0] = scores_at(self._lists, at[at >= 0])
        return found

    def _scores_with_characters(self, passages: Rows) -> tuple[Rows, Scores]:
        """Return the passages that were loaded, ascending, and the score of each by all terms of the query."""
        self._loaded.load(passages >> PASSAGE_BITS)
        loaded = self._loaded.passages
        if self._scored is None or self._scored[0] is not loaded:
            texts = self._texts.terms_of(loaded)
            order = np.argsort(texts.passages)
            lists = [self._among(texts, term) for term in self._occurring]
            self._scored = loaded, texts.passages[order], scores_at(lists, order)
        return self._scored[1], self._scored[2]

    def _among(self, texts: TermTexts, term: int) -> TermList:
        """Return the postings of a term among some passages, with its statistics among all."""
        part = texts.postings(term, self._texts.table)
        parts = [part] if part else []
        return self._texts.term_list(parts, self._frequencies[term], self._weights[term])
