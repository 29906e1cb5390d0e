"""The first look: which items share words or meaning with the query."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from devmem.collections.selecting import places_in
from devmem.collections.sqlite.asked import Asked, Column
from devmem.collections.vectors import Rows
from devmem.ranking import Weights, fuse
from devmem.ranking.runs import run_starts

_ITEMS: Final = 50
_MORE: Final = 8
"""So many times as many passages are asked for when they are of fewer items than that, or than are wanted."""
_SURROUNDED: Final = 20
_REACH: Final = 2
"""The turns up to so many before and after each of so many of the best are candidates too."""


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

    def joined(self, others: Found) -> Found:
        """Give these and others, none of which is among these."""
        rows = np.concatenate([self.rows, others.rows])
        order = np.argsort(rows)
        return Found(
            rows=rows[order],
            similarity=np.concatenate([self.similarity, others.similarity])[order],
            lexical=np.concatenate([self.lexical, others.lexical])[order],
        )

    def fused(self, weights: Weights) -> Column:
        """Put both signals into one score from 0 to 1."""
        return fuse(self.similarity, self.lexical, weights)


def find(asked: Asked, allowed: Rows | None) -> Found:
    """Give the best items by each signal, every one with both; `allowed` are passages, None allows all."""
    by_words = _of_enough_items(asked, lambda limit: asked.words.top(limit, allowed))
    by_meaning = _of_enough_items(asked, lambda limit: asked.nearest(limit, allowed))
    rows = asked.cache.directory.rows_of(np.sort(np.concatenate([by_words, by_meaning])))
    return look_at(asked, rows[run_starts(rows)])


def _of_enough_items(asked: Asked, best: Callable[[int], Rows]) -> Rows:
    """Give the best passages, more when they are of too few items: those of a long one may be the best of all."""
    directory, query = asked.cache.directory, asked.query
    limit = max(query.candidates, query.limit)
    wanted = max(query.limit, min(_ITEMS, limit))
    while True:
        passages = best(limit)
        if directory.singles or len(passages) < limit:
            return passages
        rows = directory.rows_of(np.sort(passages))
        if len(rows[run_starts(rows)]) >= wanted:
            return passages
        limit *= _MORE


def turns_around(asked: Asked, found: Found, scores: Column, allowed: Rows | None) -> Found:
    """Give the turns around the best candidates that are none themselves.

    An answer may share neither words nor meaning with the question that it follows.

    Args:
        asked: the query, and the indexes.
        found: the candidates.
        scores: of the candidates.
        allowed: passages that may be found, ascending; None allows all.
    """
    ledger, directory = asked.cache.ledger, asked.cache.directory
    best = np.argsort(-scores, kind="stable")[:_SURROUNDED]
    around = np.concatenate(ledger.around(ledger.positions(found.rows[best]), _REACH))
    rows = np.setdiff1d(ledger.rows(around[around >= 0]), found.rows)
    if allowed is not None:
        passages, owner = directory.passages_of(rows)
        rows = rows[np.unique(owner[places_in(allowed, passages) >= 0])]
    return look_at(asked, rows)


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
