"""From candidates to evidence: every signal of each, and what it adds to the score."""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from devmem.ranking import Features, ScoreBreakdown, add_context, score_features
from devmem.search.candidates import CandidateSet
from devmem.search.context import Column, Places, QueryContext
from devmem.search.late_interaction import MaxSimScorer
from devmem.text.cues import Cue, asks_when, mentioned
from devmem.text.times import Period

_BRIEF: Final = 150
"""Characters up to which a text needs what was said around it."""
_ANSWER_OFFSET: Final = 0.1
"""Similarity that any two texts have."""
_LOWEST: Final = 0.2
_SPAN: Final = 0.4
"""What stands for a token-by-token match where there is none: from 0.2 for the worst candidate to 0.6."""
_REACH: Final = 2
"""So many turns before and after are looked at,"""
_WITH_CONTEXT: Final = 50
"""for so many of the best."""


def score_candidates(
    context: QueryContext,
    found: CandidateSet,
    first: Column,
    scores: Column,
    matches: MaxSimScorer | None,
    *,
    period: Period | None,
    asked_at: float,
) -> ScoreBreakdown:
    """Weigh all that speaks for each candidate.

    Args:
        context: the query, and the indexes.
        found: the candidates.
        first: their score at the first look.
        scores: their token-by-token match, NaN where there is none.
        matches: what gave it; None where there is no late interaction.
        period: the time that the query names.
        asked_at: when it is context, in seconds since the epoch.
    """
    query = context.query
    positions = context.indexes.doc_values.positions(found.rows)
    coverage = _coverage(context, found)
    match = _match(first, scores)
    # What waits for its embedding has its words alone: it shall not lose to what matches worse but has more signals.
    by_words = np.where(np.isnan(found.similarity), _LOWEST + _SPAN * coverage, -np.inf)
    signals = _own_signals(context, coverage, positions, np.maximum(match, by_words), period, asked_at)
    evidence = score_features(signals, query.ranking, scores)
    if not query.ranking.context or not context.indexes.doc_values.has_conversations:
        return evidence
    best = np.argsort(-evidence.total(), kind="stable")[:_WITH_CONTEXT]
    return add_context(evidence, *_surroundings(context, positions, best, matches))


def _match(first: Column, scores: Column) -> Column:
    """Give the token-by-token match, and where there is none what stands for it, on the same scale."""
    known = ~np.isnan(scores)
    if not known.any():
        return _LOWEST + _SPAN * first
    low, high = scores[known].min(), scores[known].max()
    return np.where(known, scores, low + (high - low) * first)


def _coverage(context: QueryContext, found: CandidateSet) -> Column:
    ceiling = context.words.ceiling
    return found.lexical / ceiling if ceiling else np.zeros(len(found.rows))


def _own_signals(
    context: QueryContext,
    coverage: Column,
    positions: Places,
    match: Column,
    period: Period | None,
    asked_at: float,
) -> Features:
    """Give what a candidate says by itself."""
    doc_values, query = context.indexes.doc_values, context.query
    facts = doc_values.facts(positions)
    cues, times, threads = facts["cues"], facts["time"], facts["thread"]
    brevity = _brevity(facts["length"])
    _, thread = np.unique(threads, return_inverse=True)
    nothing = np.zeros(len(positions))
    return Features(
        match=match,
        coverage=coverage,
        brevity=brevity,
        thread=np.where(threads == 0, -1, thread),
        speaker=_said_by(query.text, doc_values.speakers(positions)),
        tells_when=np.where((cues & Cue.TELLS_WHEN) > 0, float(asks_when(query.text)), 0.0),
        only_asks=np.where((cues & Cue.ASKS) > 0, brevity, 0.0),
        in_time=((times >= period.start) & (times < period.end)).astype(np.float64) if period else nothing,
        recency=0.5 ** (np.maximum(asked_at - times, 0) / query.ranking.half_life),
        importance=facts["importance"].astype(np.float64),
    )


def _brevity(lengths: NDArray[np.int32]) -> Column:
    """Give 1 for a short text, and the less the longer it is; lengths are in characters."""
    return np.asarray(np.minimum(1.0, _BRIEF / np.maximum(lengths, 1)), dtype=np.float64)


def _said_by(query: str, speakers: list[str | None]) -> Column:
    known = {speaker for speaker in speakers if speaker}
    names = mentioned(query, known) if known else None
    if not names:
        return np.zeros(len(speakers))
    return np.array([1.0 if speaker in names else -1.0 for speaker in speakers])


def _surroundings(
    context: QueryContext, positions: Places, best: Places, matches: MaxSimScorer | None
) -> tuple[Column, Column]:
    """Give what the turns around the best candidates lend them: by their tokens, and as their answer."""
    doc_values = context.indexes.doc_values
    around = doc_values.around(positions[best], _REACH)
    window, answered = np.zeros(len(positions)), np.zeros(len(positions))
    if all((step < 0).all() for step in around):
        return window, answered
    if matches is not None:
        rows = [np.where(step >= 0, doc_values.rows(step), -1) for step in around]
        window[best] = matches.gains(doc_values.rows(positions[best]), rows)
    answered[best] = _answers(context, around[_REACH])
    return window, answered


def _answers(context: QueryContext, following: Places) -> Column:
    """Give the similarity of the long texts at some positions; 0 where there is none (-1)."""
    lent = np.zeros(len(following))
    there = np.flatnonzero(following >= 0)
    if not len(there):
        return lent
    facts = context.indexes.doc_values.facts(following[there])
    long = 1 - _brevity(facts["length"])
    passages, owner = context.indexes.passage_map.passages_of(facts["row"])
    best = np.zeros(len(there))
    np.maximum.at(best, owner, np.nan_to_num(context.similarities(passages)))
    lent[there] = long * np.maximum(best - _ANSWER_OFFSET, 0)
    return lent
