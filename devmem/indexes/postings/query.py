"""A query's terms: the rows that match them best, and the BM25 score of any row."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from devmem.indexes.postings.impacts import K1
from devmem.indexes.postings.lengths import Texts
from devmem.indexes.postings.scoring import TermList, are_few, best_of, scores_at
from devmem.indexes.postings.term_codes import term_hash
from devmem.indexes.row_column import Mask, Rows
from devmem.indexes.top_k import Positions, Scores, best_positions
from devmem.text.analysis import query_terms, term_weight

TermLookup = Callable[[int, float], TermList]
"""Returns the postings of a term, given by its hash, with a weight."""


class WordQuery:
    """The terms of a text and their postings; valid until the index changes."""

    def __init__(self, text: str, lookup: TermLookup, texts: Texts, allowed: Mask | None) -> None:
        """Look the terms up.

        Args:
            text: what is searched for.
            lookup: finds the postings of a term.
            texts: that are searched.
            allowed: whether each of them may be found; None allows all that are not removed.
        """
        self._lookup, self._texts, self._allowed = lookup, texts, allowed
        found = [lookup(term_hash(term), term_weight(term)) for term in query_terms(text)]
        # Those of the rarest term first.
        self._lists = sorted((one for one in found if one.frequency), key=lambda one: one.frequency)
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
        return self._lookup(term_hash(term), 1.0).frequency

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
