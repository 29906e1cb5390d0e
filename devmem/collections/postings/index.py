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

from devmem.collections.postings.encoding import EncodedTerms, term_hash
from devmem.collections.postings.impacts import K1, Impacts, impact_table, posting_codes
from devmem.collections.postings.ranking import TermList, are_few, best_of, score_all, scores_at
from devmem.collections.postings.run import Postings, Run
from devmem.collections.selecting import Positions, Scores, best_positions, rows_mask
from devmem.collections.vectors import Rows
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
        self._rows: Rows = np.empty(0, dtype=np.int64)
        self._lengths: NDArray[np.float32] = np.empty(0, dtype=np.float32)
        self._alive: NDArray[np.bool_] = np.empty(0, dtype=np.bool_)
        self._used, self._dead, self._total_length = 0, 0, 0.0
        self._runs: list[Run] = []
        self._tail: dict[int, tuple[list[int], list[int]]] = {}
        self._entries: list[Entries] = []
        self._in_runs = 0
        self._table: tuple[float, Impacts] = (0.0, impact_table(0.0))
        self._lists_kept: dict[int, TermList] = {}
        """Until something changes."""

    def __len__(self) -> int:
        return self._used - self._dead

    def add(self, rows: Sequence[int], encoded: Sequence[EncodedTerms]) -> None:
        """Append rows, in ascending order and above those that are there."""
        self._lists_kept.clear()
        start = self._used
        self._grow(start + len(rows))
        lengths = np.array([entry.length for entry in encoded], dtype=np.float32)
        self._rows[start : self._used] = rows
        self._lengths[start : self._used] = lengths
        self._alive[start : self._used] = True
        self._total_length += float(lengths.sum(dtype=np.float64))
        per_row = np.fromiter((len(entry.counts) for entry in encoded), dtype=np.int64, count=len(encoded))
        hashes = np.frombuffer(b"".join(entry.hashes for entry in encoded), dtype="<u8").astype(np.uint64)
        counts = np.frombuffer(b"".join(entry.counts for entry in encoded), dtype=np.uint8)
        docs = np.repeat(np.arange(start, self._used, dtype=np.int32), per_row)
        codes = posting_codes(counts, np.repeat(lengths, per_row))
        self._entries.append((hashes, docs, codes))
        if self._used - self._in_runs > _TAIL:
            self._sort_tail()
            return
        for term, doc, code in zip(hashes.tolist(), docs.tolist(), codes.tolist(), strict=True):
            tail_docs, tail_codes = self._tail.setdefault(term, ([], []))
            tail_docs.append(doc)
            tail_codes.append(code)

    def remove(self, rows: Iterable[int]) -> None:
        """Drop the rows; those that are not in the index are passed over."""
        self._lists_kept.clear()
        positions = self._positions(np.fromiter(rows, dtype=np.int64))
        self._alive[positions[positions >= 0]] = False
        self._dead = self._used - int(np.count_nonzero(self._alive[: self._used]))
        if self._dead > max(_TAIL, self._used // _MOST_DEAD):
            self._compact()

    def scores(self, text: str, allowed: Rows | None = None) -> Scores | None:
        """Score every row for the text; give None when no word of it occurs.

        Returns:
            BM25 by position, shape (positions,); 0 for rows without a match, deleted or not allowed.
        """
        lists = self._lists(text)
        if not lists:
            return None
        return np.maximum(score_all(lists, self._admitted(allowed)), 0)

    def best(self, scores: Scores, limit: int) -> Rows:
        """Give the rows with the highest scores above 0, best first, the newer one first among equals."""
        return self._rows[best_positions(scores, limit)]

    def at(self, scores: Scores, rows: Rows) -> NDArray[np.float64]:
        """Give the scores of some rows; 0 for one that is not there."""
        positions = self._positions(rows)
        return np.where(positions >= 0, scores[positions], 0.0).astype(np.float64)

    def top(self, text: str, limit: int, allowed: Rows | None = None) -> Rows:
        """Give what `best` of `scores` gives, without scoring rows that cannot be among them.

        `allowed` restricts them.
        """
        lists = self._lists(text)
        if not lists or limit < 1:
            return np.empty(0, dtype=np.int64)
        if allowed is not None and are_few(lists, len(allowed)):
            positions = self._positions(allowed)
            positions = np.sort(positions[positions >= 0])
            return self._rows[positions[best_positions(scores_at(lists, positions), limit)]]
        return self._rows[best_of(lists, self._admitted(allowed), limit)]

    def scores_of(self, text: str, rows: Rows) -> NDArray[np.float64]:
        """Score some rows for the text, as `scores` would; 0 for one that is not there."""
        positions = self._positions(rows)
        there = positions >= 0
        found = np.zeros(len(rows), dtype=np.float64)
        found[there] = scores_at(self._lists(text), positions[there])
        return found

    def frequency(self, term: str) -> int:
        """Say in how many texts a term occurs; deleted ones count until they are dropped."""
        return self._list(term_hash(term), self._mean_length()).frequency

    def ceiling(self, text: str) -> float:
        """Give what a short text that repeats every known word of `text` could score; 0 when none is known."""
        return (K1 + 1) * float(sum(one.idf for one in self._lists(text)))

    def _admitted(self, allowed: Rows | None) -> Scores:
        """Make the scores to add to: 0, and -inf for rows that are deleted or not allowed."""
        if allowed is None:
            scores = np.zeros(self._used, dtype=np.float32)
            if self._dead:
                scores[~self._alive[: self._used]] = -np.inf
            return scores
        mask = rows_mask(self._rows[: self._used], allowed) & self._alive[: self._used]
        return np.where(mask, np.float32(0), np.float32(-np.inf))

    def _mean_length(self) -> float:
        return self._total_length / max(self._used, 1)

    def _lists(self, text: str) -> list[TermList]:
        """Give the postings of each word of the text that occurs, the rarest word first."""
        mean = self._mean_length()
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
            known = TermList(parts=parts, table=self._table[1], texts=self._used, weight=weight)
            if len(self._lists_kept) >= _LISTS_KEPT:
                self._lists_kept.clear()
            self._lists_kept[term] = known
        return known

    def _sort_tail(self) -> None:
        """Make a run of the tail, and join runs until each is at least twice as long as the next one."""
        hashes, docs, codes = (np.concatenate(column) for column in zip(*self._entries, strict=True))
        self._runs.append(Run.of(hashes, docs, codes, self._mean_length()))
        self._tail, self._entries, self._in_runs = {}, [], self._used
        while len(self._runs) > 1 and len(self._runs[-2].docs) < 2 * len(self._runs[-1].docs):
            self._join_last()

    def _join_last(self) -> None:
        last = self._runs.pop()
        self._runs[-1] = self._runs[-1].followed_by(last, self._mean_length())

    def _join_all(self) -> None:
        self._lists_kept.clear()
        if self._entries:
            self._sort_tail()
        while len(self._runs) > 1:
            self._join_last()

    def _compact(self) -> None:
        """Drop the deleted rows, from the statistics too."""
        if not self._dead:
            return
        self._lists_kept.clear()
        self._join_all()
        alive = self._alive[: self._used]
        self._rows, self._lengths = self._rows[: self._used][alive], self._lengths[: self._used][alive]
        self._total_length = float(self._lengths.sum(dtype=np.float64))
        self._used = self._in_runs = len(self._rows)
        self._runs = [run.without(alive, self._mean_length()) for run in self._runs]
        self._alive, self._dead = np.ones(self._used, dtype=np.bool_), 0

    def parts(self) -> dict[str, NDArray[Any]]:
        """Give what `restore` takes: arrays by name."""
        self._compact()
        self._join_all()
        rows, lengths = self._rows[: self._used].astype("<i8"), self._lengths[: self._used].astype("<f4")
        return {"rows": rows, "lengths": lengths, **(self._runs[0].parts() if self._runs else {})}

    @classmethod
    def restore(cls, parts: Mapping[str, NDArray[Any]]) -> PostingsIndex:
        """Make an index from the parts that `parts` gave; the postings stay in that memory, which may be a file's.

        Raises:
            ValueError, KeyError: they are not such parts.
        """
        index = cls()
        index._rows, index._lengths = np.array(parts["rows"]), np.array(parts["lengths"])
        index._used = index._in_runs = len(index._rows)
        index._alive = np.ones(index._used, dtype=np.bool_)
        index._total_length = float(index._lengths.sum(dtype=np.float64))
        if "terms" in parts:
            index._runs = [Run.restore(parts, index._mean_length())]
        return index

    def _grow(self, used: int) -> None:
        if used > len(self._rows):
            room = max(used, 2 * len(self._rows), 1024)
            self._rows, self._lengths, self._alive = (
                np.resize(self._rows, room),
                np.resize(self._lengths, room),
                np.resize(self._alive, room),
            )
        self._used = used

    def _positions(self, rows: Rows) -> Positions:
        used = self._rows[: self._used]
        if not len(used):
            return np.full(len(rows), -1, dtype=np.int64)
        at = np.minimum(np.searchsorted(used, rows), self._used - 1)
        return np.where((used[at] == rows) & self._alive[at], at, -1)


def _tail_postings(docs: list[int], codes: list[int], table: Impacts) -> Postings:
    found = np.array(codes, dtype=np.uint16)
    return Postings(docs=np.array(docs, dtype=np.int32), codes=found, peak=float(table[found].max()))
