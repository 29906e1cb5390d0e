"""Features of the candidates, and the scores that they sum up to: own match, conversation, properties of the text.

Each contribution is a plain addend, so that a hit's score can be explained. The weights were fitted by softmax
regression over turns of conversations between people and with an assistant, and checked on conversations left out
(`tools.bench`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, replace
from operator import attrgetter
from typing import Final

import numpy as np
from numpy.typing import NDArray

from devmem.search.candidates import CandidateSet, instructors, read_signals
from devmem.search.indexes.columns import Mask, Rows, group_starts, rank_in_group
from devmem.search.periods import has_cue, in_asked_time
from devmem.search.query import Ranking
from devmem.search.source import Column, Places, QueryContext
from devmem.search.token_matching import MaxSimScorer
from devmem.text.analysis import PASSAGE_LENGTH
from devmem.text.cues import (
    Cue,
    Side,
    asks_for_help,
    asks_for_name,
    asks_for_number,
    asks_for_overview,
    asks_when,
    mentioned,
    side_asked_about,
    side_of,
    subjects,
)
from devmem.text.query_text import asks_something, words_told

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
_LOWEST: Final = 0.2
_SPAN: Final = 0.4
"""The fused score stands in for a missing late-interaction score: from 0.2 for the worst candidate to 0.6."""
_SPAN_WITHOUT: Final = 0.25
"""The same where no candidate has late interaction, so that the fused score decides less beside the other features."""
_PREFERENCE: Final = 0.75
"""Share that a preference counts of what an instruction does."""
_DATED: Final = 0.22
"""Share that an expression of time counts where no time is asked for: dated texts tell more."""
_PAIR: Final = 2
"""Number of speakers of a conversation up to which what others say loses where a query is about one of them."""
_AMONG_MANY: Final = 0.43
"""Share that a named speaker counts in a conversation of more."""
_BY_MEANING: Final = 0.4
_BY_WORDS: Final = 0.5
"""Best score up to which meaning alone ranks what a message tells, and from which it does not count beside the rest."""
_TELLING_WORDS: Final = 4
"""Number of words from which a message that asks nothing tells something; fewer are key words."""
_TELLING: Final = 300
"""Characters beyond which a longer text tells no more of a period."""
_WITH_CONTEXT: Final = 100
"""Number of the best candidates to whose scores the turns before and after add."""


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
    """1 for a speaker whom the query is about, 0 for others whom it names or when it names no one, -1 for the rest."""
    has_time: Column
    """1 when the query asks for a time and the text names one; a share of it when it asks for something else."""
    names: Column
    """1 when the query asks for a name and the text has one."""
    second_person: Column
    """1 for a turn of a conversation that speaks of whom it is said to, not of its speaker."""
    is_question: Column
    """Brevity of a text that ends in a question."""
    in_time: Column
    """1 for an event in the period that the query names."""
    standing: Column
    """Similarity of a standing instruction, a little less of a preference, where the query asks for help."""
    recency: Column
    importance: Column


@dataclass(frozen=True, slots=True, kw_only=True)
class _FeatureWeights:
    lexical: float = 0.12
    window: float = 0.60
    answered: float = 0.22
    conversation: float = 0.225
    conversation_match: float = 0.0
    speaker: float = 0.07
    has_time: float = 0.10
    names: float = 0.06
    second_person: float = -0.06
    is_question: float = -0.030
    in_time: float = 0.15
    standing: float = 0.40
    restated: float = 0.20
    opening: float = 0.60


WEIGHTS: Final = _FeatureWeights()
WEIGHTS_WITHOUT_TOKENS: Final = replace(WEIGHTS, lexical=0.085, conversation_match=0.40)
"""Where no candidate has late interaction: `match` holds the words already, `window` is 0, and the best matches of a
conversation tell more than its best words, which they add nothing to otherwise."""
_ANY_MATCH: Final = 0.25
"""Match of any two texts."""
_BEST_OF_CONVERSATION: Final = 3


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ScoreBreakdown:
    """Contribution of each feature to the scores of n candidates, arrays of shape (n,)."""

    match: Column
    lexical: Column
    window: Column
    answered: Column
    conversation: Column
    speaker: Column
    has_time: Column
    names: Column
    second_person: Column
    is_question: Column
    in_time: Column
    standing: Column
    restated: Column
    opening: Column
    same_event: Column
    latest: Column
    meaning: Column
    recency: Column
    importance: Column
    features: Features
    """The features that the parts were computed from."""
    late_interaction: Column
    """Late-interaction score; NaN for a candidate that has none."""

    def total(self) -> Column:
        """Return the sums."""
        return np.asarray(sum(_columns(self)), dtype=np.float64)

    def scaled(self, share: float, parts: Sequence[str] | None = None) -> ScoreBreakdown:
        """Return the scores with some parts multiplied, or all of them."""
        return replace(self, **{name: share * getattr(self, name) for name in parts or _PARTS})

    def parts_of(self, places: Sequence[int]) -> list[dict[str, float]]:
        """Return the contributions of each of some candidates that are not 0, by name."""
        each = np.array([column[places] for column in _columns(self)]).T.tolist()
        return [{name: value for name, value in zip(_PARTS, values, strict=True) if value} for values in each]


_PARTS: Final = tuple(part.name for part in fields(ScoreBreakdown) if part.name not in ("features", "late_interaction"))
_ADDED_LATER: Final = ("window", "answered", "restated", "opening", "same_event", "latest", "meaning")
"""Parts that the turns around, other records and the meaning of a statement add."""
_OF_A_LOOKUP: Final = ("conversation", "speaker", "has_time", "names", "second_person", "is_question", "standing")
"""Parts that do not count where an overview is asked for."""
_columns: Final[Callable[[ScoreBreakdown], tuple[Column, ...]]] = attrgetter(*_PARTS)


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
    coverage = _share(context, candidates.lexical)
    # Mixed with the cosine as far as the model needs it.
    share = query.tokens.vector_share if query.tokens is not None else 0.0
    match = _match(fused, (1 - share) * max_sim + share * candidates.similarity if share else max_sim)
    # An item whose embedding is pending has its words alone: it must not lose to worse matches with more signals.
    by_words = np.where(np.isnan(candidates.similarity), _LOWEST + _span(max_sim) * coverage, -np.inf)
    features = _features(context, coverage, positions, np.maximum(match, by_words), candidates.similarity)
    breakdown = _score_features(features, query.ranking, max_sim)
    lends = query.ranking.context and doc_values.has_conversations
    if asks_for_overview(context.text) and query.vector is not None:
        known = np.where(np.isnan(candidates.similarity), by_words, candidates.similarity)
        exchanges = _of_exchanges(context, positions, known, coverage) if lends else None
        similarity, words = exchanges or (known, np.zeros_like(known))
        # What is about the subject counts, whoever said it.
        return replace(breakdown.scaled(0.0, _OF_A_LOOKUP), match=similarity, lexical=words)
    if not lends:
        return breakdown
    best = np.argsort(-breakdown.total(), kind="stable")[:_WITH_CONTEXT]
    return _with_context(context, candidates, breakdown, best, matches)


def _span(max_sim: Column) -> float:
    return _SPAN_WITHOUT if np.isnan(max_sim).all() else _SPAN


def _match(fused: Column, max_sim: Column) -> Column:
    """Return the late-interaction score, and where there is none a substitute on the same scale."""
    known = ~np.isnan(max_sim)
    if not known.any():
        return _LOWEST + _span(max_sim) * fused
    low, high = max_sim[known].min(), max_sim[known].max()
    return np.where(known, max_sim, low + (high - low) * fused)


def _share(context: QueryContext, lexical: Column) -> Column:
    """Return BM25 scores as shares of the maximum for the query's words."""
    ceiling = context.words.ceiling
    return lexical / ceiling if ceiling else np.zeros(len(lexical))


def _features(
    context: QueryContext, coverage: Column, positions: Places, match: Column, similarity: Column
) -> Features:
    """Return the features of the candidates themselves, without those of their context."""
    doc_values, query = context.indexes.doc_values, context.query
    cues, times, threads = (doc_values.column(name)[positions] for name in ("cues", "time", "thread"))
    brevity = brevity_of(doc_values.column("length")[positions])
    thread = np.unique(threads, return_inverse=True)[1] if threads.any() else threads
    return Features(
        match=match,
        coverage=coverage,
        brevity=brevity,
        thread=np.where(threads == 0, -1, thread),
        speaker=_said_by(context, positions, has_cue(cues, Cue.RECORD)),
        has_time=_having(cues, Cue.HAS_TIME, 1.0 if asks_when(context.text) else _DATED),
        names=_having(cues, Cue.NAMES, float(asks_for_name(context.text))),
        second_person=np.where(threads == 0, 0.0, _having(cues, Cue.SECOND_PERSON, 1.0)),
        is_question=np.where(has_cue(cues, Cue.IS_QUESTION), brevity, 0.0),
        in_time=in_asked_time(context, positions),
        standing=_standing(context, cues, positions, similarity),
        recency=0.5 ** (np.maximum(context.now - times, 0) / query.ranking.half_life),
        importance=doc_values.column("importance")[positions].astype(np.float64),
    )


def _having(cues: NDArray[np.uint16], cue: Cue, value: float) -> Column:
    """Return a value for the texts that have a cue, and 0 for the others."""
    return np.where(has_cue(cues, cue), value, 0.0)


def _said_by(context: QueryContext, positions: Places, is_record: Mask) -> Column:
    """Return 1 for what was said by whom the query is about, 0 by others whom it names, and -1 by anybody else.

    A query without names may be about a side of the conversation. Among more than two speakers, who speaks says less
    about what is said: what is asked of one is told by others too; so it is with whom a record is shared.
    """
    doc_values = context.indexes.doc_values
    speakers = doc_values.strings("speaker", positions)
    said_by = _speaker_values(context.text, speakers)
    if not said_by.any():
        return said_by
    conversations = doc_values.strings("conversation", positions)
    heard: dict[str, set[str]] = {}
    for speaker, conversation in zip(speakers, conversations, strict=True):
        if speaker and conversation:
            heard.setdefault(conversation, set()).add(speaker)
    crowded = {conversation for conversation, names in heard.items() if len(names) > _PAIR}
    if not (crowded or is_record.any()):
        return said_by
    is_crowded = is_record | np.array([conversation in crowded for conversation in conversations])
    return np.where(is_crowded, _AMONG_MANY * np.maximum(said_by, 0), said_by)


def _speaker_values(query: str, speakers: list[str | None]) -> Column:
    known = {speaker for speaker in speakers if speaker}
    names = mentioned(query, known) if known else None
    if names:
        about = subjects(query, names)
        return np.array([1.0 if speaker in about else 0.0 if speaker in names else -1.0 for speaker in speakers])
    asked_about = side_asked_about(query) if known else None
    if asked_about is None:
        return np.zeros(len(speakers))
    sides = {speaker: side_of(speaker) for speaker in known}
    values = {speaker: 1.0 if side is asked_about else -1.0 for speaker, side in sides.items() if side is not None}
    return np.array([values.get(speaker or "", 0.0) for speaker in speakers])


def _standing(context: QueryContext, cues: NDArray[np.uint16], positions: Places, similarity: Column) -> Column:
    """Return the similarity of standing instructions on the query's topic, where the query asks for help."""
    if not asks_for_help(context.text):
        return np.zeros(len(positions))
    share = np.where(has_cue(cues, Cue.INSTRUCTS), 1.0, _having(cues, Cue.PREFERS, _PREFERENCE))
    share[~instructors(context.indexes.doc_values.strings("speaker", positions))] = 0.0
    return np.asarray(share * np.nan_to_num(np.maximum(similarity, 0.0)), dtype=np.float64)


def brevity_of(lengths: NDArray[np.int32]) -> Column:
    """Return 1 for a short text, and the less the longer it is; lengths are in characters."""
    return np.asarray(np.minimum(1.0, _BRIEF / np.maximum(lengths, 1)), dtype=np.float64)


def _with_context(
    context: QueryContext,
    candidates: CandidateSet,
    breakdown: ScoreBreakdown,
    best: Places,
    matches: MaxSimScorer | None,
) -> ScoreBreakdown:
    """Return the scores with the contributions of the turns around the best candidates, whose places are given.

    The window is the growth of the late-interaction score when the turns around count too. A long answer scores for the
    user's turn that it follows (`answered`), and so does its similarity to the query (`restated`); its opening scores
    for itself, but where a number or a time is asked for, which is stated anywhere in an answer.
    """
    weights, brevity = _weights(breakdown.late_interaction), breakdown.features.brevity
    doc_values = context.indexes.doc_values
    positions = doc_values.positions(candidates.rows[best])
    around = context.turns_around(positions, _REACH)
    window, answered, restated, opening = np.zeros((4, len(candidates.rows)))
    sides = [speaker and side_of(speaker) for speaker in doc_values.strings("speaker", positions)]
    if any((step >= 0).any() for step in around):
        rows = [np.where(step >= 0, doc_values.rows(step), -1) for step in around]
        if matches is not None:
            window[best] = matches.gains(candidates.rows[best], rows)
        following = around[_REACH]
        similarity = _similarities(context, following)
        long = 1 - brevity_of(doc_values.column("length")[following])
        users = np.array([side is Side.USER for side in sides])
        answered[best] = np.where(users & (following >= 0), long * np.maximum(similarity - _ANSWER_OFFSET, 0), 0.0)
        restated[best] = np.where(users, np.maximum(similarity - _RESTATED_OFFSET, 0), 0.0)
    if Side.ASSISTANT in sides and not (asks_for_number(context.text) or asks_when(context.text)):
        answers = best[[side is Side.ASSISTANT for side in sides]]
        least = _ON_TOPIC * np.fmax.reduce(candidates.similarity, initial=0.0)
        opening[answers] = np.maximum(_opening_similarities(context, candidates.rows[answers]) - least, 0.0)
    return replace(
        breakdown,
        window=weights.window * window * brevity,
        answered=weights.answered * answered,
        restated=weights.restated * restated * brevity,
        opening=weights.opening * opening,
    )


def _of_exchanges(
    context: QueryContext, positions: Places, similarity: Column, coverage: Column
) -> tuple[Column, Column] | None:
    """Return similarity and coverage, averaged over each user's turn and the assistant's answer to it.

    A summary is of what was asked and what was answered, and the words of both tell exchanges apart. None where no
    candidate is of an exchange: words alone say less than meaning.

    Args:
        context: the query and the indexes.
        positions: of n candidates.
        similarity: of each, shape (n,).
        coverage: share of the query's words in each, shape (n,).
    """
    doc_values = context.indexes.doc_values
    before, after = context.turns_around(positions, 1)
    sides = [speaker and side_of(speaker) for speaker in doc_values.strings("speaker", positions)]
    is_user, is_assistant = (np.array([side is one for side in sides], dtype=np.bool_) for one in Side)
    other = np.where(is_user, after, np.where(is_assistant, before, -1))
    paired = np.flatnonzero(other >= 0)
    if not len(paired):
        return None
    rows, places = np.unique(doc_values.rows(other[paired]), return_inverse=True)
    found = read_signals(context, rows)
    similarity, coverage = similarity.copy(), coverage.copy()
    similarity[paired] = (similarity[paired] + np.nan_to_num(found.similarity)[places]) / 2
    coverage[paired] = (coverage[paired] + _share(context, found.lexical)[places]) / 2
    return similarity, coverage


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


def _weights(late_interaction: Column) -> _FeatureWeights:
    return WEIGHTS_WITHOUT_TOKENS if np.isnan(late_interaction).all() else WEIGHTS


def _score_features(of: Features, ranking: Ranking, late_interaction: Column) -> ScoreBreakdown:
    """Return the contribution of each feature to the candidates' scores, without those of their context."""
    lent, weights = 1.0 if ranking.context else 0.0, _weights(late_interaction)
    conversation = weights.conversation * best_of_thread(of.coverage, of.thread)
    if weights.conversation_match:
        best_matches = best_of_thread(np.maximum(of.match - _ANY_MATCH, 0), of.thread)
        conversation += weights.conversation_match * best_matches
    return ScoreBreakdown(
        match=of.match,
        lexical=weights.lexical * of.coverage,
        conversation=lent * conversation,
        speaker=lent * weights.speaker * of.speaker,
        has_time=weights.has_time * of.has_time,
        names=weights.names * of.names,
        second_person=lent * weights.second_person * of.second_person,
        is_question=weights.is_question * of.is_question,
        in_time=(weights.in_time if ranking.time != "off" else 0.0) * of.in_time,
        standing=weights.standing * of.standing,
        recency=ranking.recency * of.recency,
        importance=ranking.importance * of.importance,
        features=of,
        late_interaction=late_interaction,
        **dict.fromkeys(_ADDED_LATER, np.zeros_like(of.match)),
    )


def period_scores(context: QueryContext, candidates: CandidateSet, breakdown: ScoreBreakdown) -> ScoreBreakdown:
    """Return the scores for a query that asks for a time or a session alone: what is of it counts, in its order.

    The longest of each stretch comes first, so that the hits tell of all of the time. What is not of it follows.
    """
    doc_values, of_period = context.indexes.doc_values, context.asked_positions
    positions = doc_values.positions(candidates.rows)
    share, times = breakdown.features.in_time, doc_values.column("time")
    inside = np.flatnonzero(share > 0)
    if not len(inside):
        return breakdown
    inside = inside[np.lexsort((candidates.rows[inside], times[positions[inside]]))]
    # Short turns tell little, and so do others than those who are asked about.
    told = np.minimum(doc_values.column("length")[positions[inside]], _TELLING).astype(np.float64)
    told[breakdown.speaker[inside] < 0] *= 0.1
    stretches = min(context.query.limit, max(len(of_period), 1))
    stretch = np.searchsorted(times[of_period], times[positions[inside]]) * stretches // max(len(of_period), 1)
    stretch = np.minimum(stretch, stretches - 1)
    first = np.lexsort((-told, -share[inside], stretch))
    scores = 1 + share[inside] - np.arange(len(inside)) / len(inside)
    scores[first[group_starts(stretch[first])]] += 2
    in_time = np.zeros_like(share)
    in_time[inside] = scores
    return replace(breakdown.scaled(0.0), in_time=in_time, match=np.where(share > 0, 0.0, breakdown.total()))


def blend_by_meaning(context: QueryContext, candidates: CandidateSet, breakdown: ScoreBreakdown) -> ScoreBreakdown:
    """Return the scores for a message that tells something: the less its words find, the more the meaning counts.

    Late interaction rewards chance matches of tokens where nothing answers. Meaning is the cosine less the mean of the
    candidates: what they have in common is near to everything.
    """
    text = context.text
    best = float(np.max(breakdown.total(), initial=-np.inf))
    share = float(np.clip((_BY_WORDS - best) / (_BY_WORDS - _BY_MEANING), 0, 1))
    if not share or len(candidates.rows) < 2 or asks_something(text) or asks_for_overview(text):
        return breakdown
    vectors = context.indexes.vectors
    if vectors is None or context.query.vector is None or words_told(text) < _TELLING_WORDS:
        return breakdown
    passages, owner = context.indexes.passage_map.passages_of(candidates.rows)
    cosines = np.nan_to_num(context.similarities(passages), nan=-1.0)
    order = np.lexsort((-cosines, owner))
    best_of_each = order[group_starts(owner[order])]
    cosine, found = cosines[best_of_each], vectors.gather(passages[best_of_each]).astype(np.float64)
    known = cosine > -1
    if not known.any():
        return breakdown
    mean, common = found[known].mean(axis=0), cosine[known].mean()
    own, square = found @ mean, mean @ mean
    lengths = np.linalg.norm(found - mean, axis=1) * np.sqrt(max(1 - 2 * common + square, 1e-6))
    meaning = np.where(known, (cosine - common - own + square) / np.maximum(lengths, 1e-6), 0.0)
    return replace(breakdown.scaled(1 - share), meaning=share * meaning, second_person=breakdown.second_person)


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
