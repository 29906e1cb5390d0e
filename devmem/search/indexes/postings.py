"""The full-text index: postings in memory, ranked with BM25.

It is built from the hashes and counts of terms that the database keeps with each passage (`encode_terms`), so that
opening a collection tokenizes nothing. BM25 as in Robertson and Zaragoza, "The Probabilistic Relevance Framework: BM25
and Beyond" (2009), with the non-negative idf of Lucene.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import compress
from typing import Any, Final, Self

import numpy as np
from numpy.typing import NDArray

from devmem.search.indexes.columns import Mask, Positions, RowColumn, Rows, Scores, best_positions, with_room
from devmem.search.indexes.scoring import (
    K1,
    TERM_BITS,
    Codes,
    Docs,
    EncodedTerms,
    Hashes,
    Impacts,
    TermList,
    TermPostings,
    are_few,
    best_of,
    decode_terms,
    impact_table,
    scores_at,
    sorted_by_term,
    term_hash,
)
from devmem.text.query_text import QueryText

Lengths = NDArray[np.float32]

_COMPARED: Final = (1 << TERM_BITS) - 1


class Texts(RowColumn):
    """Texts by position, in the order in which they were added; a removed one keeps its position until compaction."""

    def __init__(self, rows: Rows | None = None, lengths: Lengths | None = None) -> None:
        """Start with texts, arrays of one length; None for none."""
        super().__init__(rows)
        self._lengths: Lengths = np.empty(0, dtype=np.float32) if lengths is None else lengths
        self._total_length = float(self._lengths.sum(dtype=np.float64))

    @property
    def lengths(self) -> Lengths:
        """Length at each position, in terms."""
        return self._lengths[: self.used]

    @property
    def mean_length(self) -> float:
        """Mean length over all positions; 0 without any."""
        return self._total_length / max(self.used, 1)

    def add(self, rows: Sequence[int], lengths: Lengths) -> None:
        """Append texts."""
        start, need = self.used, self.used + len(rows)
        self._lengths = with_room(self._lengths, need)
        self._lengths[start:need] = lengths
        self.append(np.array(rows, dtype=np.int64))
        self._total_length += float(lengths.sum(dtype=np.float64))

    def mean_length_of(self, mask: Mask) -> float:
        """Return the mean length of the texts at some positions; 0 when there is none."""
        return float(self.lengths[mask].sum(dtype=np.float64)) / max(int(np.count_nonzero(mask)), 1)

    def initial_scores(self, allowed: Mask | None) -> Scores:
        """Return scores to add to: 0, and -inf for removed and disallowed rows."""
        if allowed is not None:
            return np.where(allowed, np.float32(0), np.float32(-np.inf))
        scores = np.zeros(self.used, dtype=np.float32)
        if self.dead:
            scores[~self.live] = -np.inf
        return scores

    def compacted(self) -> Texts:
        """Return the same texts without the removed ones."""
        return Texts(self.rows[self.live], self.lengths[self.live])


TermLookup = Callable[[int, float], TermList]
"""Returns the postings of a term, given by its hash, with a weight."""


class PostingsQuery:
    """The terms of a text and their postings; valid until the index changes."""

    def __init__(self, text: QueryText, lookup: TermLookup, texts: Texts, allowed: Mask | None) -> None:
        """Look the terms up.

        Args:
            text: text to search for.
            lookup: finds the postings of a term.
            texts: that are searched.
            allowed: whether each of them may be found; None allows all that are not removed.
        """
        self._lookup, self._texts, self._allowed = lookup, texts, allowed
        found = {term_hash(term): lookup(term_hash(term), weight) for term, weight in text.term_weights().items()}
        self._found = found
        # Those of the rarest term first.
        self._lists = sorted((one for one in found.values() if one.frequency), key=lambda one: one.frequency)
        # The sums that `top` left behind, over the first `_added` terms.
        self._sums: Scores | None = None
        self._added = 0
        live = texts.used - texts.dead
        self.count = live if allowed is None else int(np.count_nonzero(allowed))
        """Number of texts that may be found."""
        self.ceiling = (K1 + 1) * float(sum(one.idf for one in self._lists))
        """Score of a short text that repeats every term; 0 when none occurs."""

    def frequency(self, term: str) -> int:
        """Return the number of texts that a term occurs in; removed ones may count."""
        hashed = term_hash(term)
        known = self._found.get(hashed)
        return (self._lookup(hashed, 1.0) if known is None else known).frequency

    def top(self, limit: int) -> Rows:
        """Return the rows with the highest scores above 0, best first, the one added later first among equals."""
        lists, rows = self._lists, self._texts.rows
        if not lists or limit < 1:
            return np.empty(0, dtype=np.int64)
        if self._allowed is not None and are_few(lists, self.count):
            positions = np.flatnonzero(self._allowed)
            return rows[positions[best_positions(scores_at(lists, positions), limit)]]
        self._sums = self._texts.initial_scores(self._allowed)
        best, self._added = best_of(lists, self._sums, limit)
        return rows[best]

    def scores_of(self, rows: Rows) -> NDArray[np.float64]:
        """Return the BM25 score of some rows; 0 for one that is not there."""
        positions = self._texts.positions(rows)
        there = positions >= 0
        found = np.zeros(len(rows), dtype=np.float64)
        found[there] = self._scores_at(positions[there])
        return found

    def _scores_at(self, positions: Positions) -> Scores:
        if self._sums is None:
            return scores_at(self._lists, positions)
        # Terms are added in the same order here and there, so that the scores are the same to the last bit.
        found = self._sums[positions]
        for one in self._lists[self._added :]:
            found += one.at(positions)
        left_out = np.isneginf(found)
        if left_out.any():
            found[left_out] = scores_at(self._lists, positions[left_out])
        return found


class Segment:
    """The postings of a range of positions, sorted by term and then by position."""

    def __init__(self, terms: Hashes, starts: NDArray[np.int64], docs: Docs, codes: Codes, mean_length: float) -> None:
        self._terms, self._starts, self.docs, self._codes = terms, starts, docs, codes
        self._mean_length = mean_length
        table = impact_table(mean_length)
        self._peaks: Impacts = np.maximum.reduceat(table[codes], starts[:-1]) if len(terms) else np.empty(0, np.float32)

    @classmethod
    def of(cls, hashes: Hashes, docs: Docs, codes: Codes, mean_length: float) -> Segment:
        """Sort postings, given in the order of their positions.

        `mean_length` is the present mean of the texts' lengths, with which the upper bounds are made.
        """
        return cls(*sorted_by_term(hashes, docs, codes), mean_length)

    def find(self, term: int, mean_length: float) -> TermPostings | None:
        """Return the postings of a term at a mean length of texts; None when it does not occur."""
        at = int(np.searchsorted(self._terms, np.uint64(term)))
        if at == len(self._terms) or int(self._terms[at]) != term:
            return None
        part = slice(int(self._starts[at]), int(self._starts[at + 1]))
        # An impact grows at most as much as the mean length.
        growth = max(1.0, mean_length / max(self._mean_length, 1e-9))
        return TermPostings(docs=self.docs[part], codes=self._codes[part], peak=float(self._peaks[at]) * growth)

    def has(self, terms: Hashes) -> Mask:
        """Return whether each of some terms occurs."""
        if not len(self._terms):
            return np.zeros(len(terms), dtype=np.bool_)
        found: Mask = self._terms.take(np.searchsorted(self._terms, terms), mode="clip") == terms
        return found

    def followed_by(self, later: Segment, mean_length: float) -> Segment:
        """Return this segment joined with one of later positions."""
        places = np.minimum(np.searchsorted(self._terms, later._terms), max(len(self._terms) - 1, 0))
        known = self._terms[places] == later._terms if len(self._terms) else np.zeros(len(later._terms), np.bool_)
        # A known term's postings go behind those that are here; a new one's to where the next term begins.
        before = np.searchsorted(self._terms, later._terms, side="right")
        points = np.repeat(self._starts[before], np.diff(later._starts))
        docs = np.insert(self.docs, points, later.docs)
        codes = np.insert(self._codes, points, later._codes)
        terms = np.insert(self._terms, before[~known], later._terms[~known])
        counts = np.insert(np.diff(self._starts), before[~known], 0)
        counts[np.searchsorted(terms, later._terms)] += np.diff(later._starts)
        return Segment(terms, _starts(counts), docs, codes, mean_length)

    def without(self, live: NDArray[np.bool_], mean_length: float) -> Segment:
        """Return the segment without the positions that are not live, the others renumbered."""
        renumbered = np.cumsum(live, dtype=np.int32) - np.int32(1)
        kept = live[self.docs]
        before = np.concatenate([[0], np.cumsum(kept, dtype=np.int64)])
        counts = np.diff(before[self._starts])
        terms = self._terms[counts > 0]
        docs = renumbered[self.docs[kept]]
        return Segment(terms, _starts(counts[counts > 0]), docs, self._codes[kept], mean_length)

    def parts(self) -> dict[str, NDArray[Any]]:
        """Return arrays by name, which `restore` takes."""
        return {
            "terms": self._terms.astype("<u8"),
            "starts": self._starts.astype("<i8"),
            "docs": self.docs.astype("<i4"),
            "codes": self._codes.astype("<u2"),
        }

    @classmethod
    def restore(cls, parts: Mapping[str, NDArray[Any]], texts: Texts) -> Segment:
        """Return the segment of some texts that `parts` was made of; the arrays are not copied.

        Raises:
            ValueError, KeyError, IndexError: they are not such parts.
        """
        terms, starts, docs, codes = (parts[name] for name in ("terms", "starts", "docs", "codes"))
        if (
            len(starts) != len(terms) + 1
            or not len(docs) == len(codes) == starts[-1]
            or docs.max(initial=-1) >= texts.used
        ):
            raise ValueError("its postings are not those of its terms")
        return cls(terms, starts, docs, codes, texts.mean_length)


def _starts(counts: NDArray[np.int64]) -> NDArray[np.int64]:
    return np.concatenate([np.zeros(1, dtype=np.int64), np.cumsum(counts, dtype=np.int64)])


_LEAST_SEGMENT: Final = 1 << 15
"""Number of postings up to which a segment takes in those that come next: that is faster than searching both."""
_LISTS_KEPT: Final = 256
_FEW: Final = 1024
_MOST_DEAD: Final = 8
"""Removed rows are dropped when they are more than one in this many."""


class PostingsIndex:
    """Postings over rows that are known by their number in the database. Not thread-safe but for its views.

    Sorted segments of many rows are each at least twice as long as the next one.
    Until removed rows are dropped they count in the terms' statistics.
    """

    def __init__(self) -> None:
        self._texts = Texts()
        self._segments: tuple[Segment, ...] = ()
        self._table: tuple[float, Impacts] = (0.0, impact_table(0.0))
        self._lists_kept: dict[int, TermList] = {}
        """Until something changes."""

    def __len__(self) -> int:
        return self._texts.used - self._texts.dead

    def view(self) -> Self:
        """Return a snapshot that later changes do not affect."""
        view = copy.copy(self)
        view._texts, view._lists_kept = self._texts.view(), {}  # noqa: SLF001 - a copy of this one
        return view

    def add(self, rows: Sequence[int], encoded: Sequence[EncodedTerms]) -> None:
        """Append rows, in any order, none of which was added before."""
        self._lists_kept.clear()
        start = self._texts.used
        lengths = np.array([entry.length for entry in encoded], dtype=np.float32)
        self._texts.add(rows, lengths)
        each = [entry.hashes for entry in encoded], [entry.counts for entry in encoded]
        hashes, docs, codes = decode_terms(*each, lengths, start)
        hashes &= np.uint64(_COMPARED)
        self._segments = (*self._segments, Segment.of(hashes, docs, codes, self._texts.mean_length))
        while len(self._segments) > 1:
            if len(self._segments[-2].docs) >= max(2 * len(self._segments[-1].docs), _LEAST_SEGMENT):
                break
            self._join_last()

    def remove(self, rows: Iterable[int]) -> None:
        """Drop the rows; those that are not in the index are passed over."""
        self._lists_kept.clear()
        self._texts.remove(np.fromiter(rows, dtype=np.int64))
        if self._texts.dead > max(_FEW, self._texts.used // _MOST_DEAD):
            self.compact()

    def query(self, text: QueryText, allowed: Rows | None = None) -> PostingsQuery:
        """Look up the terms of a text, to find rows by them or to score rows; valid until the index changes.

        Args:
            text: text to search for.
            allowed: the rows that may be found, in any order: statistics are those of an index of these alone, so that
                scores tell nothing about the others. None allows all.
        """
        mask = None if allowed is None else self._texts.mask(allowed)
        if mask is None:
            return PostingsQuery(text, self._list, self._texts, None)
        count, mean = int(np.count_nonzero(mask)), self._texts.mean_length_of(mask)
        table = impact_table(mean)

        def lookup(term: int, weight: float) -> TermList:
            parts = self._parts(term, mean)
            frequency = sum(int(np.count_nonzero(mask[part.docs])) for part in parts)
            return TermList(parts=parts, table=table, texts=count, frequency=frequency, weight=weight)

        return PostingsQuery(text, lookup, self._texts, mask)

    def frequencies(self, terms: Sequence[str], allowed: Rows | None = None) -> dict[str, int]:
        """Return the number of rows that each of some terms occurs in, most of which are nowhere.

        Args:
            terms: the terms.
            allowed: the rows that count, in any order; None counts all, and removed ones may count.
        """
        hashes = np.array([term_hash(term) & _COMPARED for term in terms], dtype=np.uint64)
        there = np.zeros(len(hashes), dtype=np.bool_)
        for segment in self._segments:
            there |= segment.has(hashes)
        found = dict.fromkeys(terms, 0)
        if there.any():
            mask, mean = None if allowed is None else self._texts.mask(allowed), self._texts.mean_length
            for term in compress(terms, there):
                texts = (one.docs for one in self._parts(term_hash(term), mean))
                found[term] = sum(len(each) if mask is None else int(np.count_nonzero(mask[each])) for each in texts)
        return found

    def _impacts(self) -> tuple[float, Impacts]:
        mean = self._texts.mean_length
        if self._table[0] != mean:
            self._table = (mean, impact_table(mean))
        return self._table

    def _list(self, term: int, weight: float) -> TermList:
        """Return the postings of a term; a search asks for the same ones several times."""
        known = self._lists_kept.get(term)
        if known is None or known.weight != weight:
            mean, table = self._impacts()
            parts = self._parts(term, mean)
            frequency = sum(len(part.docs) for part in parts)
            known = TermList(parts=parts, table=table, texts=self._texts.used, frequency=frequency, weight=weight)
            if len(self._lists_kept) >= _LISTS_KEPT:
                self._lists_kept.clear()
            self._lists_kept[term] = known
        return known

    def _parts(self, term: int, mean: float) -> list[TermPostings]:
        """Return the postings of a term in each segment."""
        return [part for segment in self._segments if (part := segment.find(term & _COMPARED, mean))]

    def _join_last(self) -> None:
        *rest, before, last = self._segments
        self._segments = (*rest, before.followed_by(last, self._texts.mean_length))

    def compact(self) -> None:
        """Drop the removed rows, from the statistics too."""
        if not self._texts.dead:
            return
        self._lists_kept.clear()
        live, self._texts = self._texts.live, self._texts.compacted()
        self._segments = tuple(segment.without(live, self._texts.mean_length) for segment in self._segments)

    def parts(self) -> dict[str, NDArray[Any]]:
        """Return arrays by name, which `restore` takes."""
        self.compact()
        while len(self._segments) > 1:
            self._join_last()
        rows, lengths = self._texts.rows.astype("<i8"), self._texts.lengths.astype("<f4")
        return {"rows": rows, "lengths": lengths, **(self._segments[0].parts() if self._segments else {})}

    @classmethod
    def restore(cls, parts: Mapping[str, NDArray[Any]]) -> PostingsIndex:
        """Return the index that `parts` was made of; postings stay in that memory.

        Raises:
            ValueError, KeyError: they are not such parts.
        """
        index = cls()
        index._texts = Texts(parts["rows"], parts["lengths"])
        if "terms" in parts:
            index._segments = (Segment.restore(parts, index._texts),)
        return index
