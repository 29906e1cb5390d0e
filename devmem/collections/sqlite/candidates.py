"""The first look: which items share words or meaning with the query."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from devmem.collections.sqlite.asked import Asked, Column
from devmem.collections.vectors import Rows
from devmem.ranking import Weights, fuse
from devmem.ranking.runs import run_starts


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Found:
    """Items and their best passages' signals, arrays of shape (n,); rows ascend."""

    rows: Rows
    similarity: Column
    """Cosine; NaN for an item without embedding."""
    lexical: Column
    """BM25."""

    def where(self, keep: NDArray[np.bool_] | NDArray[np.int64]) -> Found:
        """Give some of them."""
        return Found(rows=self.rows[keep], similarity=self.similarity[keep], lexical=self.lexical[keep])

    def fused(self, weights: Weights) -> Column:
        """Put both signals into one score from 0 to 1."""
        return fuse(self.similarity, self.lexical, weights)


def find(asked: Asked, allowed: Rows | None) -> Found:
    """Give the best items by each signal, every one with both; `allowed` are passages, None allows all."""
    limit = max(asked.query.candidates, asked.query.limit)
    passages = np.sort(np.concatenate([asked.words.top(limit, allowed), asked.nearest(limit, allowed)]))
    rows = asked.cache.directory.rows_of(passages)
    return look_at(asked, rows[run_starts(rows)])


def look_at(asked: Asked, rows: Rows) -> Found:
    """Give both signals of some items, those of the best passage; rows must ascend."""
    passages, owner = asked.cache.directory.passages_of(rows)
    similarity, lexical = asked.signals(passages)
    starts = run_starts(owner)
    # `fmax` passes over NaN, which a passage without a vector has.
    return Found(
        rows=rows[owner[starts]],
        similarity=np.fmax.reduceat(similarity, starts) if len(starts) else similarity,
        lexical=np.maximum.reduceat(lexical, starts) if len(starts) else lexical,
    )
