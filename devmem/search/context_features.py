"""Features of the turns around the best candidates: a short turn is understood by what was said before and after it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from devmem.indexes.row_column import Rows
from devmem.indexes.top_k import places_in
from devmem.ranking import ContextFeatures
from devmem.ranking.groups import group_starts
from devmem.search.candidates import CandidateSet
from devmem.search.context import Column, Places, QueryContext
from devmem.search.late_interaction import MaxSimScorer
from devmem.text.cues import asks_when
from devmem.text.passages import PASSAGE_LENGTH
from devmem.text.questions import Side, asks_for_number, side_of

_BRIEF: Final = 150
"""Characters up to which a text needs its context in full."""
_ANSWER_OFFSET: Final = 0.1
"""Similarity of any two texts."""
_RESTATED_OFFSET: Final = 0.3
"""Similarity of an answer that is about something else than the query."""
_ON_TOPIC: Final = 0.65
"""Share of the best candidate's similarity beyond which an answer's opening counts."""
_REACH: Final = 2
"""Number of turns before and after a candidate that count."""


def brevity_of(lengths: NDArray[np.int32]) -> Column:
    """Return 1 for a short text, and the less the longer it is; lengths are in characters."""
    return np.asarray(np.minimum(1.0, _BRIEF / np.maximum(lengths, 1)), dtype=np.float64)


def context_features(
    context: QueryContext, candidates: CandidateSet, best: Places, coverage: Column, matches: MaxSimScorer | None
) -> ContextFeatures:
    """Return the features of the turns around the best candidates; 0 for the others.

    Args:
        context: the query and the indexes.
        candidates: n items.
        best: places of the best among them.
        coverage: share of the query's words in each, shape (n,).
        matches: computes late interaction; None where there is none.
    """
    doc_values = context.indexes.doc_values
    positions = doc_values.positions(candidates.rows[best])
    around = context.turns_around(positions, _REACH)
    window, nearby, answered, restated, opening = np.zeros((5, len(candidates.rows)))
    sides = [speaker and side_of(speaker) for speaker in doc_values.speakers(positions)]
    if any((step >= 0).any() for step in around):
        rows = [np.where(step >= 0, doc_values.rows(step), -1) for step in around]
        nearby[best] = _nearby_words(candidates.rows, rows, coverage)
        if matches is not None:
            window[best] = matches.gains(candidates.rows[best], rows)
        following = around[_REACH]
        similarity = _similarities(context, following)
        long = 1 - brevity_of(doc_values.column("length")[following])
        answered[best] = np.where(following >= 0, long * np.maximum(similarity - _ANSWER_OFFSET, 0), 0.0)
        users = [side is Side.USER for side in sides]
        restated[best] = np.where(users, np.maximum(similarity - _RESTATED_OFFSET, 0), 0.0)
    if Side.ASSISTANT in sides and not (asks_for_number(context.text) or asks_when(context.text)):
        # A number or a time is stated anywhere in an answer.
        answers = best[[side is Side.ASSISTANT for side in sides]]
        least = _ON_TOPIC * np.fmax.reduce(candidates.similarity, initial=0.0)
        opening[answers] = np.maximum(_opening_similarities(context, candidates.rows[answers]) - least, 0.0)
    return ContextFeatures(window=window, nearby_words=nearby, answered=answered, restated=restated, opening=opening)


def _opening_similarities(context: QueryContext, rows: Rows) -> Column:
    """Return the similarity of the first passage of each long text; 0 for a text of one passage.

    An answer opens with what it was asked for, in other words; of what follows, the more there is the more matches by
    chance.
    """
    doc_values = context.indexes.doc_values
    lengths = doc_values.column("length")[doc_values.positions(rows)]
    passages, owner = context.indexes.passage_map.passages_of(rows)
    starts = group_starts(owner)
    # Fields are passages too, so that a short text may have several.
    is_long = (np.diff(np.append(starts, len(owner))) > 1) & (lengths[owner[starts]] > PASSAGE_LENGTH)
    first = starts[is_long]
    found = np.zeros(len(rows))
    found[owner[first]] = np.nan_to_num(context.similarities(passages[first]))
    return found


def _nearby_words(candidates: Rows, around: Sequence[Rows], coverage: Column) -> Column:
    """Return the sum of the coverage of some rows; one that is no candidate has hardly any of the query's words."""
    at = places_in(candidates, np.stack(around))
    return np.asarray(np.where(at >= 0, coverage[at], 0.0).sum(axis=0), dtype=np.float64)


def _similarities(context: QueryContext, positions: Places) -> Column:
    """Return the similarity of the best passages of some items, at least 0; 0 where there is none (-1)."""
    found = np.zeros(len(positions))
    there = np.flatnonzero(positions >= 0)
    if not len(there):
        return found
    passages, owner = context.indexes.passage_map.passages_of(context.indexes.doc_values.rows(positions[there]))
    best = np.zeros(len(there))
    np.maximum.at(best, owner, np.nan_to_num(context.similarities(passages)))
    found[there] = best
    return found
