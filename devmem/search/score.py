"""Scores of candidates: of their own match, of their conversation, and of properties of their text.

Each contribution is a plain addend, so that a hit's score can be explained. The weights were fitted by softmax
regression over turns of conversations between people and with an assistant, and checked on conversations left out
(`tools.bench`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from operator import attrgetter
from typing import Final

import numpy as np
from numpy.typing import NDArray

from devmem.search.query import Ranking, group_starts, rank_in_group

Column = NDArray[np.float64]

OFFSET: Final = 0.25
"""Late-interaction score of any two texts."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Features:
    """Features of n candidates, arrays of shape (n,); an absent one is 0."""

    match: Column
    """Late interaction, or a substitute: about 0.2 for any text, 0.7 for the same text."""
    coverage: Column
    """BM25 score of the best passage as a share of the maximum for the query's words, 0 to 1."""
    brevity: Column
    """1 for a short text, less the longer it is: a long one needs no context."""
    thread: NDArray[np.int64]
    """Number of the conversation; -1 for none."""
    speaker: Column
    """1 for a speaker whom the query is about, 0 for others whom it names or when it names nobody, -1 for the rest."""
    has_time: Column
    """1 when the query asks for a time and the text names one; a share of it when it asks for something else."""
    names: Column
    """1 when the query asks for a name and the text has one."""
    numbers: Column
    """1 when the query asks for a number and the text has one."""
    second_person: Column
    """1 for a turn of a conversation that speaks of whom it is said to, not of its speaker."""
    is_question: Column
    """Brevity of a text that ends in a question."""
    is_reply: Column
    """Brevity of a text that begins by reacting to another."""
    in_time: Column
    """1 for an event in the period that the query names."""
    standing: Column
    """Similarity of a standing instruction, a little less of a preference, where the query asks for help."""
    recency: Column
    importance: Column


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ContextFeatures:
    """Features of the turns around n candidates, arrays of shape (n,)."""

    window: Column
    """Growth of the late-interaction score when the turns around count too; it counts for short texts."""
    nearby_words: Column
    """Sum of the `coverage` of the turns around, of those that are candidates."""
    answered: Column
    """Similarity of the long text that follows: a long answer scores for its question."""
    restated: Column
    """Similarity of the assistant's answer to a user's turn; it counts for short turns."""
    opening: Column
    """How far the opening of an assistant's answer is on the query's topic; 0 where a number or a time is asked for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Weights:
    lexical: float = 0.085
    window: float = 0.60
    nearby_words: float = 0.035
    answered: float = 0.22
    conversation: float = 0.20
    conversation_words: float = 0.225
    speaker: float = 0.07
    has_time: float = 0.10
    names: float = 0.06
    numbers: float = 0.05
    second_person: float = -0.06
    is_question: float = -0.030
    is_reply: float = -0.015
    in_time: float = 0.12
    standing: float = 0.40
    restated: float = 0.20
    opening: float = 0.60


WEIGHTS: Final = _Weights()
_BEST_OF_CONVERSATION: Final = 3


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ScoreBreakdown:
    """Contribution of each feature to the scores of n candidates, arrays of shape (n,)."""

    match: Column
    lexical: Column
    window: Column
    nearby_words: Column
    answered: Column
    conversation: Column
    speaker: Column
    has_time: Column
    names: Column
    numbers: Column
    second_person: Column
    is_question: Column
    is_reply: Column
    in_time: Column
    standing: Column
    restated: Column
    opening: Column
    recency: Column
    importance: Column
    features: Features
    """The features that the parts were computed from."""
    late_interaction: Column
    """Late-interaction score; NaN for a candidate that has none."""

    def total(self) -> Column:
        """Return the sums."""
        return np.asarray(sum(_columns(self)), dtype=np.float64)

    def parts(self, at: int) -> dict[str, float]:
        """Return the contributions of one candidate that are not 0, by name."""
        return {name: value for name, column in zip(_PARTS, _columns(self), strict=True) if (value := column.item(at))}


_PARTS: Final = tuple(part.name for part in fields(ScoreBreakdown) if part.name not in ("features", "late_interaction"))
_columns: Final[Callable[[ScoreBreakdown], tuple[Column, ...]]] = attrgetter(*_PARTS)


def score_features(of: Features, ranking: Ranking, late_interaction: Column) -> ScoreBreakdown:
    """Return the contribution of each feature to the candidates' scores, without those of their context."""
    lent = 1.0 if ranking.context else 0.0
    conversation = WEIGHTS.conversation * best_of_thread(np.maximum(of.match - OFFSET, 0), of.thread)
    conversation += WEIGHTS.conversation_words * best_of_thread(of.coverage, of.thread)
    return ScoreBreakdown(
        match=of.match,
        lexical=WEIGHTS.lexical * of.coverage,
        window=np.zeros_like(of.match),
        nearby_words=np.zeros_like(of.match),
        answered=np.zeros_like(of.match),
        conversation=lent * conversation,
        speaker=lent * WEIGHTS.speaker * of.speaker,
        has_time=WEIGHTS.has_time * of.has_time,
        names=WEIGHTS.names * of.names,
        numbers=WEIGHTS.numbers * of.numbers,
        second_person=lent * WEIGHTS.second_person * of.second_person,
        is_question=WEIGHTS.is_question * of.is_question,
        is_reply=WEIGHTS.is_reply * of.is_reply,
        in_time=(WEIGHTS.in_time if ranking.time != "off" else 0.0) * of.in_time,
        standing=WEIGHTS.standing * of.standing,
        restated=np.zeros_like(of.match),
        opening=np.zeros_like(of.match),
        recency=ranking.recency * of.recency,
        importance=ranking.importance * of.importance,
        features=of,
        late_interaction=late_interaction,
    )


def add_context(breakdown: ScoreBreakdown, context: ContextFeatures) -> ScoreBreakdown:
    """Return the scores with the contributions of the turns around the candidates."""
    return replace(
        breakdown,
        window=WEIGHTS.window * context.window * breakdown.features.brevity,
        nearby_words=WEIGHTS.nearby_words * context.nearby_words,
        answered=WEIGHTS.answered * context.answered,
        restated=WEIGHTS.restated * context.restated * breakdown.features.brevity,
        opening=WEIGHTS.opening * context.opening,
    )


def overview_scores(breakdown: ScoreBreakdown, similarity: Column) -> ScoreBreakdown:
    """Return the scores for a query that asks for an overview: what is about its subject counts, in whatever words.

    Args:
        breakdown: the scores for a look-up.
        similarity: cosine of each candidate, or what stands for it, shape (n,).
    """
    nothing = np.zeros_like(similarity)
    return replace(
        breakdown,
        match=similarity,
        lexical=nothing,
        conversation=nothing,
        speaker=nothing,
        has_time=nothing,
        names=nothing,
        numbers=nothing,
        second_person=nothing,
        is_question=nothing,
        is_reply=nothing,
    )


def best_of_thread(values: Column, thread: NDArray[np.int64]) -> Column:
    """Return for each candidate the mean of the three best values of its conversation, missing ones counting 0.

    Args:
        values: shape (n,).
        thread: number of each one's conversation, -1 for none; shape (n,).
    """
    if (thread < 0).all():
        return np.zeros_like(values)
    order = np.lexsort((-values, thread))
    grouped = thread[order]
    starts = group_starts(grouped)
    best = np.where(rank_in_group(grouped) < _BEST_OF_CONVERSATION, values[order], 0.0)
    means = np.add.reduceat(best, starts) / _BEST_OF_CONVERSATION if len(order) else best
    lent = np.empty_like(values)
    lent[order] = np.repeat(means, np.diff(np.append(starts, len(order))))
    return np.where(thread >= 0, lent, 0.0)
