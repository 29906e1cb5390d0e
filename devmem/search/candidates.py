"""Candidates: the items that share words or meaning with the query, and the turns around the best of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from devmem.indexes.row_column import Rows
from devmem.ranking import Weights, fuse
from devmem.ranking.groups import group_starts
from devmem.search.context import Column, QueryContext
from devmem.text.cues import Cue
from devmem.text.questions import Side, asks_for_help, side_of

_ITEMS: Final = 50
"""Distinct items to find at least, whatever the query's limit is."""
_WIDENING: Final = 8
"""Factor by which the passage limit grows until enough distinct items are found."""
_STANDING: Final = 20
"""Maximum number of instructions and preferences that become candidates too."""
_EXPANDED: Final = 20
_REACH: Final = 2
"""Number of turns before and after each of the 20 best candidates that become candidates too."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class CandidateSet:
    """Items with the signals of their best passages, arrays of shape (n,); rows ascend."""

    rows: Rows
    similarity: Column
    """Cosine; NaN for an item without embedding."""
    lexical: Column
    """BM25 score."""

    def where(self, keep: NDArray[np.bool_] | NDArray[np.int64]) -> CandidateSet:
        """Return the candidates at some places."""
        return CandidateSet(rows=self.rows[keep], similarity=self.similarity[keep], lexical=self.lexical[keep])

    def joined(self, others: CandidateSet) -> CandidateSet:
        """Return the union with candidates none of which is among these."""
        rows = np.concatenate([self.rows, others.rows])
        order = np.argsort(rows)
        return CandidateSet(
            rows=rows[order],
            similarity=np.concatenate([self.similarity, others.similarity])[order],
            lexical=np.concatenate([self.lexical, others.lexical])[order],
        )

    def fused(self, weights: Weights) -> Column:
        """Return one score from 0 to 1 for each, of both signals."""
        return fuse(self.similarity, self.lexical, weights)


def find_candidates(context: QueryContext) -> CandidateSet:
    """Return the best items by words and the best by meaning, each with both signals."""
    by_words = _of_enough_items(context, context.words.top)
    by_meaning = _of_enough_items(context, context.nearest)
    rows = context.indexes.passage_map.rows_of(np.sort(np.concatenate([by_words, by_meaning])))
    return read_signals(context, rows[group_starts(rows)])


def _of_enough_items(context: QueryContext, best: Callable[[int], Rows]) -> Rows:
    """Return the best passages, with a wider limit when they are of too few items: one long item may have them all."""
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
        limit *= _WIDENING


def neighboring_turns(context: QueryContext, candidates: CandidateSet, scores: Column) -> CandidateSet:
    """Return the admitted turns around the best candidates that are no candidates themselves.

    An answer may share neither words nor meaning with the question that it follows. `scores` are the candidates'.
    """
    doc_values = context.indexes.doc_values
    best = np.argsort(-scores, kind="stable")[:_EXPANDED]
    around = np.concatenate(context.turns_around(doc_values.positions(candidates.rows[best]), _REACH))
    return read_signals(context, np.setdiff1d(doc_values.rows(around[around >= 0]), candidates.rows))


def standing_requests(context: QueryContext, candidates: CandidateSet) -> CandidateSet:
    """Return the instructions and preferences nearest to a query that asks for help, but for the candidates' own.

    They share its topic, and often no word: "always show types" and "write a function that ...".
    """
    indexes, query = context.indexes, context.query
    nothing = candidates.where(np.empty(0, dtype=np.int64))
    if query.vector is None or indexes.vectors is None or not asks_for_help(context.text):
        return nothing
    doc_values = indexes.doc_values
    positions = doc_values.with_cues(Cue.INSTRUCTS | Cue.PREFERS, context.matches.positions)
    rows = doc_values.rows(positions[instructors(doc_values.speakers(positions))])
    if not len(rows):
        return nothing
    nearest, _ = indexes.vectors.nearest(query.vector, _STANDING, indexes.passage_map.all_passages_of(rows))
    found = np.unique(indexes.passage_map.rows_of(np.sort(nearest)))
    return read_signals(context, np.setdiff1d(found, candidates.rows))


def instructors(speakers: Sequence[str | None]) -> NDArray[np.bool_]:
    """Whether each speaker may instruct an assistant: its user, or nobody named; people who chat by name do not."""
    return np.array([not speaker or side_of(speaker) is Side.USER for speaker in speakers], dtype=np.bool_)


def read_signals(context: QueryContext, rows: Rows) -> CandidateSet:
    """Return items with both signals of their best passages; rows must ascend."""
    passages, owner = context.indexes.passage_map.passages_of(rows)
    similarity, lexical = context.signals(passages)
    starts = group_starts(owner)
    # `fmax` passes over NaN, which a passage without a vector has.
    return CandidateSet(
        rows=rows[owner[starts]],
        similarity=np.fmax.reduceat(similarity, starts) if len(starts) else similarity,
        lexical=np.maximum.reduceat(lexical, starts) if len(starts) else lexical,
    )
