"""The full-text index: postings in memory, ranked with BM25.

It is built from the hashes and counts of terms that the database keeps with each passage (`encode_terms`), so that
opening a collection tokenizes nothing. BM25 as in Robertson and Zaragoza, "The Probabilistic Relevance Framework: BM25
and Beyond" (2009), with the non-negative idf of Lucene.
"""

from __future__ import annotations

import copy
from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, Self

import numpy as np
from numpy.typing import NDArray

from devmem.indexes.postings.impacts import Impacts, impact_table, posting_codes
from devmem.indexes.postings.lengths import Texts
from devmem.indexes.postings.query import WordQuery
from devmem.indexes.postings.scoring import TermList
from devmem.indexes.postings.segment import Postings, Segment
from devmem.indexes.postings.term_codes import EncodedTerms
from devmem.indexes.row_column import Rows

_TAIL: Final = 1024
"""Number of rows that are kept in dictionaries before they are sorted into a segment."""
_LISTS_KEPT: Final = 256
_MOST_DEAD: Final = 8
"""Removed rows are dropped when they are more than one in this many."""

Entries = tuple[NDArray[np.uint64], NDArray[np.int32], NDArray[np.uint16]]
Tail = dict[int, tuple[list[int], list[int]]]
"""Positions and codes of each term's postings."""


class PostingsIndex:
    """Postings over rows that are known by their number in the database. Not thread-safe but for its views.

    New rows go to a small tail, and from there into sorted segments, each at least twice as long as the next one.
    Until removed rows are dropped they count in the terms' statistics.
    """

    def __init__(self) -> None:
        self._texts = Texts()
        self._segments: tuple[Segment, ...] = ()
        self._tail: Tail = {}
        self._entries: list[Entries] = []
        self._in_segments = 0
        self._table: tuple[float, Impacts] = (0.0, impact_table(0.0))
        self._lists_kept: dict[int, TermList] = {}
        """Until something changes."""

    def __len__(self) -> int:
        return self._texts.used - self._texts.dead

    def view(self) -> Self:
        """Return a snapshot that later changes do not affect.

        It shares the tail, of which it reads no posting beyond its own last position.
        """
        view = copy.copy(self)
        view._texts, view._lists_kept = self._texts.view(), {}  # noqa: SLF001 - a copy of this one
        return view

    def add(self, rows: Sequence[int], encoded: Sequence[EncodedTerms]) -> None:
        """Append rows, in any order, none of which was added before."""
        self._lists_kept.clear()
        start = self._texts.used
        lengths = np.array([entry.length for entry in encoded], dtype=np.float32)
        self._texts.add(rows, lengths)
        per_row = np.fromiter((len(entry.counts) for entry in encoded), dtype=np.int64, count=len(encoded))
        hashes = np.frombuffer(b"".join(entry.hashes for entry in encoded), dtype="<u8").astype(np.uint64)
        counts = np.frombuffer(b"".join(entry.counts for entry in encoded), dtype=np.uint8)
        docs = np.repeat(np.arange(start, self._texts.used, dtype=np.int32), per_row)
        codes = posting_codes(counts, np.repeat(lengths, per_row))
        self._entries.append((hashes, docs, codes))
        if self._texts.used - self._in_segments > _TAIL:
            self._sort_tail()
            return
        for term, doc, code in zip(hashes.tolist(), docs.tolist(), codes.tolist(), strict=True):
            tail_docs, tail_codes = self._tail.setdefault(term, ([], []))
            tail_docs.append(doc)
            tail_codes.append(code)

    def remove(self, rows: Iterable[int]) -> None:
        """Drop the rows; those that are not in the index are passed over."""
        self._lists_kept.clear()
        self._texts.remove(np.fromiter(rows, dtype=np.int64))
        if self._texts.dead > max(_TAIL, self._texts.used // _MOST_DEAD):
            self._compact()

    def query(self, text: str, allowed: Rows | None = None) -> WordQuery:
        """Look up the terms of a text, to find rows by them or to score rows; valid until the index changes.

        Args:
            text: what is searched for.
            allowed: the rows that may be found, in any order: statistics are those of an index of these alone, so that
                scores tell nothing about the others. None allows all.
        """
        if allowed is None:
            return WordQuery(text, self._list, self._texts, None)
        mask = self._texts.mask(allowed)
        count, mean = int(np.count_nonzero(mask)), self._texts.mean_length_of(mask)
        table = impact_table(mean)

        def lookup(term: int, weight: float) -> TermList:
            parts = self._parts(term, mean, table)
            frequency = sum(int(np.count_nonzero(mask[part.docs])) for part in parts)
            return TermList(parts=parts, table=table, texts=count, frequency=frequency, weight=weight)

        return WordQuery(text, lookup, self._texts, mask)

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
            parts = self._parts(term, mean, table)
            frequency = sum(len(part.docs) for part in parts)
            known = TermList(parts=parts, table=table, texts=self._texts.used, frequency=frequency, weight=weight)
            if len(self._lists_kept) >= _LISTS_KEPT:
                self._lists_kept.clear()
            self._lists_kept[term] = known
        return known

    def _parts(self, term: int, mean: float, table: Impacts) -> list[Postings]:
        """Return the postings of a term in each segment and in the tail."""
        parts = [part for segment in self._segments if (part := segment.find(term, mean))]
        tail = self._in_tail(term, table)
        return [*parts, tail] if tail else parts

    def _in_tail(self, term: int, table: Impacts) -> Postings | None:
        docs, codes = self._tail.get(term, ((), ()))
        count = bisect_left(docs, self._texts.used)
        if not count:
            return None
        found = np.array(codes[:count], dtype=np.uint16)
        return Postings(docs=np.array(docs[:count], dtype=np.int32), codes=found, peak=float(table[found].max()))

    def _sort_tail(self) -> None:
        """Make a segment of the tail, and join segments until each is at least twice as long as the next one."""
        hashes, docs, codes = (np.concatenate(column) for column in zip(*self._entries, strict=True))
        self._segments = (*self._segments, Segment.of(hashes, docs, codes, self._texts.mean_length))
        self._tail, self._entries, self._in_segments = {}, [], self._texts.used
        while len(self._segments) > 1 and len(self._segments[-2].docs) < 2 * len(self._segments[-1].docs):
            self._join_last()

    def _join_last(self) -> None:
        *rest, before, last = self._segments
        self._segments = (*rest, before.followed_by(last, self._texts.mean_length))

    def _join_all(self) -> None:
        self._lists_kept.clear()
        if self._entries:
            self._sort_tail()
        while len(self._segments) > 1:
            self._join_last()

    def _compact(self) -> None:
        """Drop the removed rows, from the statistics too."""
        if not self._texts.dead:
            return
        self._join_all()
        live, self._texts = self._texts.live, self._texts.compacted()
        self._in_segments = self._texts.used
        self._segments = tuple(segment.without(live, self._texts.mean_length) for segment in self._segments)

    def parts(self) -> dict[str, NDArray[Any]]:
        """Return arrays by name, which `restore` takes."""
        self._compact()
        self._join_all()
        rows, lengths = self._texts.rows.astype("<i8"), self._texts.lengths.astype("<f4")
        return {"rows": rows, "lengths": lengths, **(self._segments[0].parts() if self._segments else {})}

    @classmethod
    def restore(cls, parts: Mapping[str, NDArray[Any]]) -> PostingsIndex:
        """Return the index that `parts` was made of; the postings stay in that memory, which may be a file's.

        Raises:
            ValueError, KeyError: they are not such parts.
        """
        index = cls()
        index._texts = Texts(np.array(parts["rows"]), np.array(parts["lengths"]))
        index._in_segments = index._texts.used
        if "terms" in parts:
            index._segments = (Segment.restore(parts, index._texts.mean_length),)
        return index
