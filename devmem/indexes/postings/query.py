"""A text that rows are searched for: its words, and what they are worth in each row."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from devmem.indexes.postings.impacts import K1
from devmem.indexes.postings.lengths import Texts
from devmem.indexes.postings.scoring import TermList, are_few, best_of, scores_at
from devmem.indexes.top_k import Positions, Scores, best_positions
from devmem.indexes.vectors import Rows


class WordQuery:
    """The words of a text and the rows that they occur in; good until the index changes."""

    def __init__(self, lists: Sequence[TermList], texts: Texts) -> None:
        """Take the postings of the words that occur, those of the rarest word first."""
        self._lists, self._texts = lists, texts
        # What `top` has added up: the worth of the first so many words in every row that it looked at.
        self._sums: Scores | None = None
        self._added = 0

    @cached_property
    def ceiling(self) -> float:
        """What a short text that repeats every word could score; 0 when none occurs."""
        return (K1 + 1) * float(sum(one.idf for one in self._lists))

    def top(self, limit: int, allowed: Rows | None = None) -> Rows:
        """Give the rows with the highest scores above 0, best first, the newer one first among equals.

        `allowed` restricts them.
        """
        lists, rows = self._lists, self._texts.rows
        if not lists or limit < 1:
            return np.empty(0, dtype=np.int64)
        if allowed is not None and are_few(lists, len(allowed)):
            positions = self._texts.positions(allowed)
            positions = np.sort(positions[positions >= 0])
            return rows[positions[best_positions(scores_at(lists, positions), limit)]]
        self._sums = self._texts.admitted(allowed)
        best, self._added = best_of(lists, self._sums, limit)
        return rows[best]

    def scores_of(self, rows: Rows) -> NDArray[np.float64]:
        """Give BM25 of some rows; 0 for one that is not there."""
        positions = self._texts.positions(rows)
        there = positions >= 0
        found = np.zeros(len(rows), dtype=np.float64)
        found[there] = self._scores_at(positions[there])
        return found

    def _scores_at(self, positions: Positions) -> Scores:
        if self._sums is None:
            return scores_at(self._lists, positions)
        # Words are added in the same order here and there, so that the scores are the same to the last bit.
        found = self._sums[positions]
        for one in self._lists[self._added :]:
            found += one.at(positions)
        left_out = np.isneginf(found)
        if left_out.any():
            found[left_out] = scores_at(self._lists, positions[left_out])
        return found
