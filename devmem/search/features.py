"""Features of the candidates, and the scores that they sum up to."""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from devmem.ranking import Features, ScoreBreakdown, add_context, overview_scores, score_features
from devmem.search.candidates import CandidateSet, instructors
from devmem.search.context import Column, Places, QueryContext
from devmem.search.context_features import brevity_of, context_features
from devmem.search.late_interaction import MaxSimScorer
from devmem.text.cues import Cue, asks_when
from devmem.text.named import mentioned, subjects
from devmem.text.questions import (
    Side,
    asks_for_help,
    asks_for_name,
    asks_for_number,
    asks_for_overview,
    side_asked_about,
    side_of,
)

_LOWEST: Final = 0.2
_SPAN: Final = 0.4
"""The fused score stands in for a missing late-interaction score: from 0.2 for the worst candidate to 0.6."""
_SPAN_WITHOUT: Final = 0.25
"""The same where no candidate has late interaction, so that the fused score decides less beside the other features."""
_PREFERENCE: Final = 0.75
"""Share that a preference counts of what an instruction does."""
_DATED: Final = 0.22
"""Share that an expression of time counts where no time is asked for: what is dated tells more."""
_WITH_CONTEXT: Final = 50
"""Number of turns before and after each of the 50 best candidates that add to its score."""


def score_candidates(
    context: QueryContext, candidates: CandidateSet, fused: Column, max_sim: Column, matches: MaxSimScorer | None
) -> ScoreBreakdown:
    """Return each candidate's score, feature by feature.

    Args:
        context: the query and the indexes.
        candidates: n items.
        fused: their score by both signals, shape (n,).
        max_sim: their late-interaction score, NaN where there is none; shape (n,).
        matches: computes late interaction; None where there is none.
    """
    query, doc_values = context.query, context.indexes.doc_values
    positions = doc_values.positions(candidates.rows)
    coverage = _coverage(context, candidates)
    match = _match(fused, _with_vectors(context, candidates, max_sim))
    # What waits for its embedding has its words alone: it shall not lose to what matches worse but has more signals.
    by_words = np.where(np.isnan(candidates.similarity), _LOWEST + _span(max_sim) * coverage, -np.inf)
    features = _features(context, coverage, positions, np.maximum(match, by_words), candidates.similarity)
    breakdown = score_features(features, query.ranking, max_sim)
    if asks_for_overview(context.text) and query.vector is not None:
        waits = np.isnan(candidates.similarity)
        return overview_scores(breakdown, np.where(waits, by_words, candidates.similarity))
    if not query.ranking.context or not doc_values.has_conversations:
        return breakdown
    best = np.argsort(-breakdown.total(), kind="stable")[:_WITH_CONTEXT]
    return add_context(breakdown, context_features(context, candidates, best, coverage, matches))


def _with_vectors(context: QueryContext, candidates: CandidateSet, max_sim: Column) -> Column:
    """Return the late-interaction score, mixed with the cosine as far as the model needs it."""
    share = context.query.tokens.vector_share if context.query.tokens is not None else 0.0
    return max_sim if not share else (1 - share) * max_sim + share * candidates.similarity


def _span(max_sim: Column) -> float:
    return _SPAN_WITHOUT if np.isnan(max_sim).all() else _SPAN


def _match(fused: Column, max_sim: Column) -> Column:
    """Return the late-interaction score, and where there is none a substitute on the same scale."""
    known = ~np.isnan(max_sim)
    if not known.any():
        return _LOWEST + _span(max_sim) * fused
    low, high = max_sim[known].min(), max_sim[known].max()
    return np.where(known, max_sim, low + (high - low) * fused)


def _coverage(context: QueryContext, candidates: CandidateSet) -> Column:
    ceiling = context.words.ceiling
    return candidates.lexical / ceiling if ceiling else np.zeros(len(candidates.rows))


def _features(
    context: QueryContext, coverage: Column, positions: Places, match: Column, similarity: Column
) -> Features:
    """Return the features of the candidates themselves, without those of their context."""
    doc_values, query, period = context.indexes.doc_values, context.query, context.period
    cues, times, threads = (doc_values.column(name)[positions] for name in ("cues", "time", "thread"))
    brevity = brevity_of(doc_values.column("length")[positions])
    _, thread = np.unique(threads, return_inverse=True)
    nothing = np.zeros(len(positions))
    return Features(
        match=match,
        coverage=coverage,
        brevity=brevity,
        thread=np.where(threads == 0, -1, thread),
        speaker=_said_by(context.text, doc_values.speakers(positions)),
        tells_when=_having(cues, Cue.TELLS_WHEN, 1.0 if asks_when(context.text) else _DATED),
        names=_having(cues, Cue.NAMES, float(asks_for_name(context.text))),
        numbers=_having(cues, Cue.NUMBERS, float(asks_for_number(context.text))),
        addresses=np.where(threads == 0, 0.0, _having(cues, Cue.ADDRESSES, 1.0)),
        only_asks=np.where((cues & Cue.ASKS) > 0, brevity, 0.0),
        reacts=np.where((cues & Cue.REACTS) > 0, brevity, 0.0),
        in_time=((times >= period.start) & (times < period.end)).astype(np.float64) if period else nothing,
        standing=_standing(context, cues, positions, similarity),
        recency=0.5 ** (np.maximum(context.asked_at - times, 0) / query.ranking.half_life),
        importance=doc_values.column("importance")[positions].astype(np.float64),
    )


def _having(cues: NDArray[np.uint8], cue: Cue, value: float) -> Column:
    """Return a value for the texts that have a cue, and 0 for the others."""
    return np.where((cues & cue) > 0, value, 0.0)


def _said_by(query: str, speakers: list[str | None]) -> Column:
    """Return 1 for what was said by whom the query is about, 0 by others whom it names, and -1 by anybody else.

    A query that names nobody may be about a side of the conversation.
    """
    known = {speaker for speaker in speakers if speaker}
    names = mentioned(query, known) if known else None
    if names:
        about = subjects(query, names)
        return np.array([1.0 if speaker in about else 0.0 if speaker in names else -1.0 for speaker in speakers])
    asked_about = side_asked_about(query) if known else None
    if asked_about is None:
        return np.zeros(len(speakers))
    values = {speaker: _side_value(side_of(speaker), asked_about) for speaker in known}
    return np.array([values[speaker] if speaker else 0.0 for speaker in speakers])


def _side_value(side: Side | None, asked_about: Side) -> float:
    return 0.0 if side is None else 1.0 if side is asked_about else -1.0


def _standing(context: QueryContext, cues: NDArray[np.uint8], positions: Places, similarity: Column) -> Column:
    """Return the similarity of what is to be kept in mind on the query's topic, where the query asks for help."""
    if not asks_for_help(context.text):
        return np.zeros(len(positions))
    share = np.where((cues & Cue.INSTRUCTS) > 0, 1.0, np.where((cues & Cue.PREFERS) > 0, _PREFERENCE, 0.0))
    share[~instructors(context.indexes.doc_values.speakers(positions))] = 0.0
    return np.asarray(share * np.nan_to_num(np.maximum(similarity, 0.0)), dtype=np.float64)
