"""Postings of a term that most texts of a segment have: a code for each position instead of a list of positions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from devmem.indexes.postings.impacts import Codes, Impacts
from devmem.indexes.top_k import Positions, Scores

NOT_THERE: Final = np.uint16(0xFFFF)
"""Code of a position without the term; counts end at 255, so no posting has it. Its impact has to be 0."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DensePostings:
    """The postings of one term at positions that follow each other; see `PostingList`."""

    first: int
    """Position of the first code."""
    codes: Codes
    count: int
    """Number of postings."""
    peak: float
    """Upper bound of the impacts."""

    def add_to(self, scores: Scores, idf: np.float32, table: Impacts) -> None:
        """Add the term's contribution to the score of each position; the impact of `NOT_THERE` is 0."""
        scores[self.first : self.first + len(self.codes)] += idf * table.take(self.codes)

    def fill(self, found: Scores, positions: Positions, idf: np.float32, table: Impacts) -> None:
        """Set the term's contribution to the score of those of the positions that the codes are of."""
        local = positions - self.first
        there = (local >= 0) & (local < len(self.codes))
        found[there] = idf * table.take(self.codes[local[there]])
