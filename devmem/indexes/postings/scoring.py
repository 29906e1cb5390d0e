"""BM25 over the postings of a query's terms: of every row, of some rows, or of the best ones only.

The best ones are found by MaxScore (Turtle and Flood, "Query Evaluation: Strategies and Optimizations", 1995), a whole
list at a time: once the common terms cannot lift a row among the best any more, they are looked up in the rows that
still can be, instead of being added to all. Terms are always added in the same order, the rarest first, so that a row
has the same score, to the last bit, in each of the three ways.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final, Protocol

import numpy as np

from devmem.indexes.postings.impacts import Impacts
from devmem.indexes.top_k import Positions, Scores, best_positions, lower_bound

_LOOK_UP_BELOW: Final = 40
"""Looking up a row in a list costs as much as adding this many of its postings."""
_SLACK: Final = 1e-4
"""Relative precision of sums of float32: what is that close to the threshold stays a candidate."""


class PostingList(Protocol):
    """Postings of one term, as they are scored."""

    @property
    def peak(self) -> float:
        """Upper bound of the impacts."""
        ...

    @property
    def count(self) -> int:
        """Number of postings."""
        ...

    def add_to(self, scores: Scores, idf: np.float32, table: Impacts) -> None:
        """Add the term's contribution to the score of each position that it occurs at."""
        ...

    def fill(self, found: Scores, positions: Positions, idf: np.float32, table: Impacts) -> None:
        """Set the term's contribution to the score of those of the positions that it occurs at."""
        ...


@dataclass(frozen=True, kw_only=True)
class TermList:
    """The postings of one term of the query."""

    parts: Sequence[PostingList]
    """Of ascending positions."""
    table: Impacts
    texts: int
    """Number of texts that are searched."""
    frequency: int
    """Number of these that the term occurs in."""
    weight: float = 1.0
    """Factor of the term's idf."""

    @cached_property
    def idf(self) -> np.float32:
        """Inverse document frequency, never negative, times the weight."""
        return np.float32(self.weight * np.log1p((self.texts - self.frequency + 0.5) / (self.frequency + 0.5)))

    @cached_property
    def bound(self) -> float:
        """Upper bound of the term's contribution to the score of any row."""
        return float(self.idf) * max((part.peak for part in self.parts), default=0.0)

    def add_to(self, scores: Scores) -> None:
        """Add the term's contribution to the score of each row that it occurs in."""
        for part in self.parts:
            part.add_to(scores, self.idf, self.table)

    def at(self, positions: Positions) -> Scores:
        """Return the term's contribution to the score of some rows."""
        found = np.zeros(len(positions), dtype=np.float32)
        for part in self.parts:
            part.fill(found, positions, self.idf, self.table)
        return found


def scores_at(lists: Sequence[TermList], positions: Positions) -> Scores:
    """Return the scores of some rows."""
    total = np.zeros(len(positions), dtype=np.float32)
    for one in lists:
        total += one.at(positions)
    return total


def are_few(lists: Sequence[TermList], rows: int) -> bool:
    """Whether looking this many rows up in the lists is cheaper than adding the lists to all rows."""
    return rows * len(lists) * _LOOK_UP_BELOW < sum(part.count for one in lists for part in one.parts)


def best_of(lists: Sequence[TermList], scores: Scores, limit: int) -> tuple[Positions, int]:
    """Find the positions with the highest scores above 0.

    Args:
        lists: the terms, the rarest first.
        scores: 0, and -inf for rows that are excluded; the terms are added to it, one after the other.
        limit: maximum number of positions.

    Returns:
        the positions, best first, the later first among equals; and the number of terms that were added to the scores.
    """
    bounds = np.append(np.cumsum([one.bound for one in reversed(lists)])[::-1], 0.0)
    for number, one in enumerate(lists):
        one.add_to(scores)
        rest, left = lists[number + 1 :], float(bounds[number + 1])
        if not rest or left > bounds[0] - left:
            continue
        threshold = lower_bound(scores, limit) * (1 - _SLACK)
        if threshold > left * (1 + _SLACK):
            candidates = np.flatnonzero(scores > threshold - left * (1 + _SLACK))
            if are_few(rest, len(candidates)):
                return _best_candidates(rest, scores, candidates, limit), number + 1
    return best_positions(scores, limit), len(lists)


def _best_candidates(rest: Sequence[TermList], scores: Scores, candidates: Positions, limit: int) -> Positions:
    found = scores[candidates]
    for one in rest:
        found += one.at(candidates)
    return candidates[best_positions(found, limit)]
