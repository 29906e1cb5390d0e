"""The search pipeline: filter, candidates, late interaction, features, selection."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import Final

import numpy as np

from devmem.model.results import HitGroup, RejectedCandidate, RejectReason, SearchReport
from devmem.search.candidates import (
    CandidateSet,
    find_candidates,
    latest_records,
    neighboring_turns,
    standing_requests,
)
from devmem.search.conversations import rank_conversations
from devmem.search.indexes.columns import best_first
from devmem.search.periods import asks_for_period, event_gains, period_candidates, resolve_period
from devmem.search.query import MAX_QUERY_CHARACTERS, SearchQuery, Weights
from devmem.search.score import ScoreBreakdown, blend_by_meaning, period_scores, score_candidates
from devmem.search.selection import HitSelector
from devmem.search.source import Column, QueryContext, SearchSource
from devmem.search.spelling import SpellingCheck
from devmem.search.token_matching import MaxSimScorer, query_tokens

_THRESHOLD_CUTS: Final = 10
"""Maximum number of candidates below the similarity threshold that a report names."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Scored:
    """Candidates with their scores."""

    candidates: CandidateSet
    scores: Column
    found: int
    """Number of candidates before the threshold and the shortlist."""
    best_similarity: float | None = None
    best_score: float | None = None
    asks_for_period: bool = False
    breakdown: ScoreBreakdown | None = None
    matches: MaxSimScorer | None = None


class SearchPipeline:
    """One search over a source, used once."""

    def __init__(self, source: SearchSource, query: SearchQuery, now: float) -> None:
        """Prepare the search; `now` is in seconds since the epoch."""
        self._context = QueryContext(source, query, now)
        self._stage_ms: dict[str, float] = {}
        self._cut: list[RejectedCandidate] = []

    def corrections(self, check: SpellingCheck) -> dict[str, str]:
        """Return the misspelled words of the query, each with the word that is meant."""
        with self._stage("filter"):
            _ = self._context.matches
        with self._stage("spelling"):
            return check.corrections(self._context)

    def run(self) -> SearchReport:
        """Return the best hits, and what was cut where the query asks for it."""
        scored, explain = self._score(), self._context.query.explain
        period, breakdown = self._context.period, scored.breakdown
        with self._stage("selection"):
            selector = self._selector(scored)
            hits = selector.hits()
            if explain:
                selector.explain_rest()
        return SearchReport(
            hits=tuple(hits),
            cut=(*selector.cut, *self._cut) if explain else (),
            candidates=scored.found,
            reranked=int(np.count_nonzero(~np.isnan(breakdown.late_interaction))) if breakdown else 0,
            filtered=self._context.matches.filtered,
            query_cut=max(len(self._context.query.text) - MAX_QUERY_CHARACTERS, 0),
            asked=self._context.text if self._context.query_text.rest else None,
            corrected=self._context.query.corrected,
            period=(period.start, period.end) if period else None,
            best_similarity=scored.best_similarity,
            best_score=scored.best_score,
            asks_for_period=scored.asks_for_period,
            stage_ms=self._stage_ms,
        )

    def conversations(self, hits_each: int) -> list[HitGroup]:
        """Return the best conversations, at most the query's limit, each with at most `hits_each` hits."""
        # Turns that only surround a match tell conversations apart no better, measured on LoCoMo.
        scored = self._score(expand=False)
        ranked = rank_conversations(self._context, scored.candidates, scored.scores, scored.matches)
        selector = self._selector(scored)
        numbers = ranked.best(self._context.query.limit)
        found = selector.best_of_each([ranked.members[number].tolist() for number in numbers], hits_each)
        return [
            HitGroup.of(hits, float(ranked.scores[number]), ranked.parts(number))
            for number, hits in zip(numbers, found, strict=True)
            if hits
        ]

    def _selector(self, scored: _Scored) -> HitSelector:
        return HitSelector(self._context, scored.candidates, scored.scores, scored.breakdown, scored.matches)

    def _score(self, *, expand: bool = True) -> _Scored:
        """Find candidates, compare the best token by token, and sum the features of each up to a score."""
        context = self._context
        with self._stage("filter"):
            _ = context.matches
        with self._stage("candidates"):
            candidates = find_candidates(context)
            found, known = len(candidates.rows), candidates.similarity[~np.isnan(candidates.similarity)]
            best_similarity = float(known.max()) if len(known) else None
            resolve_period(context, candidates)
            of_period = asks_for_period(context)
            if context.query.explain:
                self._report_below_threshold(candidates)
            candidates = self._above_threshold(candidates)
            candidates, fused = self._shortlist(candidates, of_period=of_period, expand=expand)
        if context.query.weights is not None:
            return _Scored(candidates=candidates, scores=fused, found=found, best_similarity=best_similarity)
        with self._stage("late interaction"):
            tokens = query_tokens(context)
            matches = MaxSimScorer(context, tokens) if tokens is not None else None
            max_sim = matches.scores(candidates.rows) if matches else np.full(len(fused), np.nan)
        with self._stage("features"):
            breakdown = score_candidates(context, candidates, fused, max_sim, matches)
            gained, latest = event_gains(context, candidates.rows, breakdown.total())
            breakdown = replace(breakdown, same_event=gained, latest=latest)
            best_score = float(np.max(breakdown.total(), initial=0.0))
            rank = period_scores if of_period else blend_by_meaning
            breakdown = rank(context, candidates, breakdown)
        return _Scored(
            candidates=candidates,
            scores=breakdown.total(),
            found=found,
            best_similarity=best_similarity,
            best_score=best_score,
            asks_for_period=of_period,
            breakdown=breakdown,
            matches=matches,
        )

    def _shortlist(self, candidates: CandidateSet, *, of_period: bool, expand: bool) -> tuple[CandidateSet, Column]:
        """Return the best by both signals, with the turns around the very best, and the fused score of each."""
        context, query = self._context, self._context.query
        scores = candidates.fused(query.weights or Weights())
        if query.weights is not None:
            return candidates, scores
        depth = max(query.ranking.depth, query.limit)
        if len(scores) > depth:
            # The newer item comes first among equals.
            best = np.sort(best_first(scores)[:depth])
            candidates, scores = candidates.where(best), scores[best]
        for others in (standing_requests, latest_records, partial(period_candidates, alone=of_period)):
            asked_for = self._above_threshold(others(context, candidates))
            if len(asked_for.rows):
                candidates = candidates.joined(asked_for)
                scores = candidates.fused(Weights())
        if not (expand and query.ranking.context and context.indexes.doc_values.has_conversations):
            return candidates, scores
        turns = self._above_threshold(neighboring_turns(context, candidates, scores))
        candidates = candidates.joined(turns)
        return candidates, candidates.fused(Weights())

    def _above_threshold(self, candidates: CandidateSet) -> CandidateSet:
        below = candidates.similarity < self._context.query.min_similarity
        return candidates.where(~below) if below.any() else candidates

    def _report_below_threshold(self, candidates: CandidateSet) -> None:
        """Add the most similar of the candidates below the similarity threshold to `cut`."""
        below = np.flatnonzero(candidates.similarity < self._context.query.min_similarity)
        nearest = below[np.argsort(-candidates.similarity[below], kind="stable")][:_THRESHOLD_CUTS]
        items = self._context.source.items([int(row) for row in candidates.rows[nearest]])
        self._cut += [
            RejectedCandidate(
                item_id=items[int(candidates.rows[at])].id,
                reason=RejectReason.THRESHOLD,
                similarity=float(candidates.similarity[at]),
            )
            for at in nearest
        ]

    @contextmanager
    def _stage(self, name: str) -> Iterator[None]:
        started = time.perf_counter()
        yield
        self._stage_ms[name] = self._stage_ms.get(name, 0.0) + 1000 * (time.perf_counter() - started)
