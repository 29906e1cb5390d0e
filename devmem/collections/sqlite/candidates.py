"""The first look: which items share words or meaning with the query."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from devmem.collections.protocol import SearchQuery
from devmem.collections.sqlite.cache import SearchCache
from devmem.collections.vectors import Rows
from devmem.ranking import Weights, fuse
from devmem.ranking.runs import run_starts

Column = NDArray[np.float64]


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


def find(cache: SearchCache, query: SearchQuery, allowed: Rows | None) -> Found:
    """Give the best items by each signal, every one with both; `allowed` are passages, None allows all."""
    limit = max(query.candidates, query.limit)
    passages = cache.postings.top(query.text, limit, allowed)
    if cache.vectors is not None and query.vector is not None:
        passages = np.union1d(passages, cache.vectors.search(query.vector, limit, allowed))
    rows = np.unique(cache.directory.rows_of(passages))
    return look_at(cache, query, rows)


def look_at(cache: SearchCache, query: SearchQuery, rows: Rows) -> Found:
    """Give both signals of some items, those of the best passage; rows must ascend."""
    passages, owner = cache.directory.passages_of(rows)
    similarity, lexical = passage_signals(cache, query, passages)
    starts = run_starts(owner)
    # `fmax` passes over NaN, which a passage without a vector has.
    return Found(
        rows=rows[owner[starts]],
        similarity=np.fmax.reduceat(similarity, starts) if len(starts) else similarity,
        lexical=np.maximum.reduceat(lexical, starts) if len(starts) else lexical,
    )


def passage_signals(cache: SearchCache, query: SearchQuery, passages: Rows) -> tuple[Column, Column]:
    """Give the cosine (NaN where there is no vector) and the BM25 of some passages."""
    similarity = np.full(len(passages), np.nan)
    if cache.vectors is not None and query.vector is not None:
        similarity = cache.vectors.similarities(query.vector, passages)
    return similarity, cache.postings.scores_of(query.text, passages)
