"""The first look: which items share words or meaning with the query."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from devmem.indexes.top_k import places_in
from devmem.indexes.vectors import Rows
from devmem.ranking import Weights, fuse
from devmem.ranking.groups import group_starts
from devmem.search.context import Column, QueryContext

_ITEMS: Final = 50
_MORE: Final = 8
"""So many times as many passages are context for when they are of fewer items than that, or than are wanted."""
_SURROUNDED: Final = 20
_REACH: Final = 2
"""The turns up to so many before and after each of so many of the best are candidates too."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class CandidateSet:
    """Items and their best passages' signals, arrays of shape (n,); rows ascend."""

    rows: Rows
    similarity: Column
    """Cosine; NaN for an item without embedding."""
    lexical: Column
    """BM25."""

    def where(self, keep: NDArray[np.bool_] | NDArray[np.int64]) -> CandidateSet:
        """Give some of them."""
        return CandidateSet(rows=self.rows[keep], similarity=self.similarity[keep], lexical=self.lexical[keep])

    def joined(self, others: CandidateSet) -> CandidateSet:
        """Give these and others, none of which is among these."""
        rows = np.concatenate([self.rows, others.rows])
        order = np.argsort(rows)
        return CandidateSet(
            rows=rows[order],
            similarity=np.concatenate([self.similarity, others.similarity])[order],
            lexical=np.concatenate([self.lexical, others.lexical])[order],
        )

    def fused(self, weights: Weights) -> Column:
        """Put both signals into one score from 0 to 1."""
        return fuse(self.similarity, self.lexical, weights)


def find_candidates(context: QueryContext, allowed: Rows | None) -> CandidateSet:
    """Give the best items by each signal, every one with both; `allowed` are passages, None allows all."""
    by_words = _of_enough_items(context, lambda limit: context.words.top(limit, allowed))
    by_meaning = _of_enough_items(context, lambda limit: context.nearest(limit, allowed))
    rows = context.indexes.passage_map.rows_of(np.sort(np.concatenate([by_words, by_meaning])))
    return read_signals(context, rows[group_starts(rows)])


def _of_enough_items(context: QueryContext, best: Callable[[int], Rows]) -> Rows:
    """Give the best passages, more when they are of too few items: those of a long one may be the best of all."""
    passage_map, query = context.indexes.passage_map, context.query
    limit = max(query.candidates, query.limit)
    wanted = max(query.limit, min(_ITEMS, limit))
    while True:
        passages = best(limit)
        if passage_map.singles or len(passages) < limit:
            return passages
        rows = passage_map.rows_of(np.sort(passages))
        if len(rows[group_starts(rows)]) >= wanted:
            return passages
        limit *= _MORE


def neighboring_turns(context: QueryContext, found: CandidateSet, scores: Column, allowed: Rows | None) -> CandidateSet:
    """Give the turns around the best candidates that are none themselves.

    An answer may share neither words nor meaning with the question that it follows.

    Args:
        context: the query, and the indexes.
        found: the candidates.
        scores: of the candidates.
        allowed: passages that may be found, ascending; None allows all.
    """
    doc_values, passage_map = context.indexes.doc_values, context.indexes.passage_map
    best = np.argsort(-scores, kind="stable")[:_SURROUNDED]
    around = np.concatenate(doc_values.around(doc_values.positions(found.rows[best]), _REACH))
    rows = np.setdiff1d(doc_values.rows(around[around >= 0]), found.rows)
    if allowed is not None:
        passages, owner = passage_map.passages_of(rows)
        rows = rows[np.unique(owner[places_in(allowed, passages) >= 0])]
    return read_signals(context, rows)


def read_signals(context: QueryContext, rows: Rows) -> CandidateSet:
    """Give both signals of some items, those of the best passage; rows must ascend."""
    passages, owner = context.indexes.passage_map.passages_of(rows)
    similarity, lexical = context.signals(passages)
    starts = group_starts(owner)
    # `fmax` passes over NaN, which a passage without a vector has.
    return CandidateSet(
        rows=rows[owner[starts]],
        similarity=np.fmax.reduceat(similarity, starts) if len(starts) else similarity,
        lexical=np.maximum.reduceat(lexical, starts) if len(starts) else lexical,
    )
