"""The full-text index: postings in memory, ranked with BM25.

Its input is what the database keeps of each item's text: the hashes and counts of its terms (`encode_terms`), so
opening a collection tokenizes nothing. BM25 as in Robertson and Zaragoza, "The Probabilistic Relevance Framework: BM25
and Beyond" (2009), with the non-negative idf of Lucene.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from devmem.indexes.postings.impacts import Impacts, impact_table, posting_codes
from devmem.indexes.postings.lengths import Texts
from devmem.indexes.postings.query import WordQuery
from devmem.indexes.postings.scoring import TermList
from devmem.indexes.postings.segment import Postings, Segment
from devmem.indexes.postings.term_codes import EncodedTerms, term_hash
from devmem.text.analysis import query_terms, term_weight

_TAIL: Final = 1024
"""So many rows are kept in dictionaries before they are sorted into a run."""
_LISTS_KEPT: Final = 256
_MOST_DEAD: Final = 8
"""Deleted rows are dropped when they are more than one in so many."""

Entries = tuple[NDArray[np.uint64], NDArray[np.int32], NDArray[np.uint16]]


class PostingsIndex:
    """Postings over rows that are known by their number in the database. Not thread-safe: its owner holds a lock.

    New rows go to a small tail, and from there into sorted runs, each at least twice as long as the next one.
    Until deleted rows are dropped they count in the words' statistics.
    """

    def __init__(self) -> None:
        self._texts = Texts()
        self._runs: list[Segment] = []
        self._tail: dict[int, tuple[list[int], list[int]]] = {}
        self._entries: list[Entries] = []
        self._in_runs = 0
        self._table: tuple[float, Impacts] = (0.0, impact_table(0.0))
        self._lists_kept: dict[int, TermList] = {}
        """Until something changes."""

    def __len__(self) -> int:
        return self._texts.used - self._texts.dead

    def add(self, rows: Sequence[int], encoded: Sequence[EncodedTerms]) -> None:
        """Append rows, in ascending order and above those that are there."""
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
        if self._texts.used - self._in_runs > _TAIL:
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

    def query(self, text: str) -> WordQuery:
        """Look up the words of a text, to find rows by them or to score rows; good until the index changes."""
        return WordQuery(self._lists(text), self._texts)

    def frequency(self, term: str) -> int:
        """Say in how many texts a term occurs; deleted ones count until they are dropped."""
        return self._list(term_hash(term), self._texts.mean_length).frequency

    def _lists(self, text: str) -> list[TermList]:
        """Give the postings of each word of the text that occurs, the rarest word first."""
        mean = self._texts.mean_length
        if self._table[0] != mean:
            self._table = (mean, impact_table(mean))
            self._lists_kept.clear()
        found = [self._list(term_hash(term), mean, term_weight(term)) for term in query_terms(text)]
        return sorted((one for one in found if one.frequency), key=lambda one: one.frequency)

    def _list(self, term: int, mean: float, weight: float = 1.0) -> TermList:
        """Give the postings of a word; a search asks for the same ones several times."""
        known = self._lists_kept.get(term)
        if known is None or known.weight != weight:
            parts = [part for run in self._runs if (part := run.find(term, mean))]
            if term in self._tail:
                docs, codes = self._tail[term]
                parts.append(_tail_postings(docs, codes, self._table[1]))
            known = TermList(parts=parts, table=self._table[1], texts=self._texts.used, weight=weight)
            if len(self._lists_kept) >= _LISTS_KEPT:
                self._lists_kept.clear()
            self._lists_kept[term] = known
        return known

    def _sort_tail(self) -> None:
        """Make a run of the tail, and join runs until each is at least twice as long as the next one."""
        hashes, docs, codes = (np.concatenate(column) for column in zip(*self._entries, strict=True))
        self._runs.append(Segment.of(hashes, docs, codes, self._texts.mean_length))
        self._tail, self._entries, self._in_runs = {}, [], self._texts.used
        while len(self._runs) > 1 and len(self._runs[-2].docs) < 2 * len(self._runs[-1].docs):
            self._join_last()

    def _join_last(self) -> None:
        last = self._runs.pop()
        self._runs[-1] = self._runs[-1].followed_by(last, self._texts.mean_length)

    def _join_all(self) -> None:
        self._lists_kept.clear()
        if self._entries:
            self._sort_tail()
        while len(self._runs) > 1:
            self._join_last()

    def _compact(self) -> None:
        """Drop the deleted rows, from the statistics too."""
        if not self._texts.dead:
            return
        self._lists_kept.clear()
        self._join_all()
        alive, self._texts = self._texts.alive, self._texts.compacted()
        self._in_runs = self._texts.used
        self._runs = [run.without(alive, self._texts.mean_length) for run in self._runs]

    def parts(self) -> dict[str, NDArray[Any]]:
        """Give what `restore` takes: arrays by name."""
        self._compact()
        self._join_all()
        rows, lengths = self._texts.rows.astype("<i8"), self._texts.lengths.astype("<f4")
        return {"rows": rows, "lengths": lengths, **(self._runs[0].parts() if self._runs else {})}

    @classmethod
    def restore(cls, parts: Mapping[str, NDArray[Any]]) -> PostingsIndex:
        """Make an index from the parts that `parts` gave; the postings stay in that memory, which may be a file's.

        Raises:
            ValueError, KeyError: they are not such parts.
        """
        index = cls()
        index._texts = Texts(np.array(parts["rows"]), np.array(parts["lengths"]))
        index._in_runs = index._texts.used
        if "terms" in parts:
            index._runs = [Segment.restore(parts, index._texts.mean_length)]
        return index


def _tail_postings(docs: list[int], codes: list[int], table: Impacts) -> Postings:
    found = np.array(codes, dtype=np.uint16)
    return Postings(docs=np.array(docs, dtype=np.int32), codes=found, peak=float(table[found].max()))
