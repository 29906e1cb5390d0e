"""A query's terms: the rows that match them best, and the BM25 score of any row."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from devmem.indexes.postings.impacts import K1
from devmem.indexes.postings.lengths import Texts
from devmem.indexes.postings.scoring import TermList, are_few, best_of, scores_at
from devmem.indexes.row_column import Rows
from devmem.indexes.top_k import Positions, Scores, best_positions


class WordQuery:
    """The terms of a text and their postings; valid until the index changes."""

    def __init__(self, lists: Sequence[TermList], texts: Texts) -> None:
        """Take the postings of the terms that occur, those of the rarest term first."""
        self._lists, self._texts = lists, texts
        # The sums that `top` left behind, over the first `_added` terms.
        self._sums: Scores | None = None
        self._added = 0

    @cached_property
    def ceiling(self) -> float:
        """Score of a short text that repeats every term; 0 when none occurs."""
        return (K1 + 1) * float(sum(one.idf for one in self._lists))

    def top(self, limit: int, allowed: Rows | None = None) -> Rows:
        """Return the rows with the highest scores above 0, best first, the one added later first among equals.

        Args:
            limit: maximum number of rows.
            allowed: restricts the rows; None does not.
        """
        lists, rows = self._lists, self._texts.rows
        if not lists or limit < 1:
            return np.empty(0, dtype=np.int64)
        if allowed is not None and are_few(lists, len(allowed)):
            positions = self._texts.positions(allowed)
            positions = np.sort(positions[positions >= 0])
            return rows[positions[best_positions(scores_at(lists, positions), limit)]]
        self._sums = self._texts.initial_scores(allowed)
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
