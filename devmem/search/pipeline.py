"""Searching: candidates by words and by meaning, a second look at the best, and what their conversations lend them."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np

from devmem.indexes.vectors import Rows
from devmem.model.results import CandidateCut, CutCandidate, HitGroup, SearchReport
from devmem.ranking import ScoreBreakdown, Weights
from devmem.search.candidates import CandidateSet, find_candidates, neighboring_turns
from devmem.search.context import Column, QueryContext
from devmem.search.conversations import rank_conversations
from devmem.search.features import score_candidates
from devmem.search.late_interaction import MaxSimScorer, query_tokens
from devmem.search.query import SearchQuery
from devmem.search.selection import HitSelector
from devmem.search.source import SearchSource
from devmem.text.times import period_of


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Weighed:
    """Features with their scores."""

    context: QueryContext
    allowed: Rows | None
    """The passages that the filter lets through."""
    looked_at: int
    """How many candidates there were."""
    found: CandidateSet
    scores: Column
    evidence: ScoreBreakdown | None = None
    matches: MaxSimScorer | None = None


class SearchPipeline:
    """One search over indexes that follow the connection's read transaction."""

    def __init__(self, source: SearchSource, query: SearchQuery, now: float) -> None:
        """Take what is context; `now` is in seconds since the epoch."""
        self._source, self._query, self._now = source, query, now
        self._asked_at = query.now if query.now is not None else now
        narrows = query.ranking.time != "off" and query.weights is None
        self._period = period_of(query.text, self._asked_at) if narrows else None
        self._stage_ms: dict[str, float] = {}
        self._cut: list[CutCandidate] = []

    def run(self, *, explain: bool) -> SearchReport:
        """SearchPipeline; with `explain`, what was cut is told too."""
        weighed = self._weighed(explain=explain)
        evidence = weighed.evidence
        with self._stage("choose"):
            choice = self._choice(weighed)
            hits = choice.hits()
            if explain:
                choice.explain_rest()
        return SearchReport(
            hits=tuple(hits),
            cut=(*choice.cut, *self._cut) if explain else (),
            candidates=weighed.looked_at,
            reranked=int(np.count_nonzero(~np.isnan(evidence.late_interaction))) if evidence else 0,
            filtered=self._left_out(weighed.allowed) if explain else 0,
            period=(self._period.start, self._period.end) if self._period else None,
            stage_ms=self._stage_ms,
        )

    def conversations(self, hits_each: int) -> list[HitGroup]:
        """Give the best conversations, as many as the query's limit, with so many hits each."""
        # What was only said around a match tells conversations apart no better, measured on LoCoMo.
        weighed = self._weighed(explain=False, around=False)
        ranked = rank_conversations(weighed.context, weighed.found, weighed.scores, weighed.matches, self._period)
        choice = self._choice(weighed)
        numbers = ranked.best(self._query.limit)
        found = choice.best_of_each([ranked.members[number].tolist() for number in numbers], hits_each)
        evidence = ranked.evidence
        return [
            HitGroup.of(hits, float(evidence.scores[number]), evidence.parts(number))
            for number, hits in zip(numbers, found, strict=True)
        ]

    def _choice(self, of: _Weighed) -> HitSelector:
        return HitSelector(of.context, of.found, of.scores, of.evidence, of.matches)

    def _weighed(self, *, explain: bool, around: bool = True) -> _Weighed:
        """Find candidates, look again at those that are worth it, and put together all that speaks for them."""
        query = self._query
        with self._stage("filter"):
            allowed = self._allowed()
        with self._stage("candidates"):
            context = QueryContext(self._source, query)
            found = find_candidates(context, allowed)
            looked_at = len(found.rows)
            within = self._within(found, explain=explain)
            found, first = self._shortlist(context, within, allowed, around=around)
        if query.weights is not None:
            return _Weighed(context=context, allowed=allowed, looked_at=looked_at, found=found, scores=first)
        with self._stage("late interaction"):
            tokens = query_tokens(context)
            matches = MaxSimScorer(context, tokens) if tokens is not None else None
            again = matches.scores(found.rows) if matches else np.full(len(first), np.nan)
        with self._stage("evidence"):
            evidence = score_candidates(
                context, found, first, again, matches, period=self._period, asked_at=self._asked_at
            )
            scores = evidence.total()
        return _Weighed(
            context=context,
            allowed=allowed,
            looked_at=looked_at,
            found=found,
            scores=scores,
            evidence=evidence,
            matches=matches,
        )

    def _shortlist(
        self, context: QueryContext, found: CandidateSet, allowed: Rows | None, *, around: bool
    ) -> tuple[CandidateSet, Column]:
        """Keep the best by words and meaning together, with what was said around the very best; gives their scores."""
        query = self._query
        scores = found.fused(query.weights or Weights())
        if query.weights is not None:
            return found, scores
        best = np.sort(np.lexsort((-found.rows, -scores))[: max(query.ranking.depth, query.limit)])
        found, scores = found.where(best), scores[best]
        if not (around and query.ranking.context and self._source.indexes.doc_values.has_conversations):
            return found, scores
        found = found.joined(self._within(neighboring_turns(context, found, scores, allowed), explain=False))
        return found, found.fused(Weights())

    def _allowed(self) -> Rows | None:
        """Return the passages that the filter admits; None when it admits all."""
        narrowed = self._period if self._query.ranking.time == "narrow" else None
        return self._source.allowed(self._query.where, (narrowed.start, narrowed.end) if narrowed else None)

    def _within(self, found: CandidateSet, *, explain: bool) -> CandidateSet:
        """Leave out what is less similar than the threshold."""
        below = found.similarity < self._query.min_similarity
        if explain and below.any():
            worst = np.flatnonzero(below)
            nearest = worst[np.argsort(-found.similarity[worst], kind="stable")][:10]
            items = self._source.items([int(row) for row in found.rows[nearest]])
            self._cut += [
                CutCandidate(
                    item_id=items[int(found.rows[at])].id,
                    reason=CandidateCut.THRESHOLD,
                    similarity=float(found.similarity[at]),
                )
                for at in nearest
            ]
        return found.where(~below)

    def _left_out(self, allowed: Rows | None) -> int:
        if allowed is None:
            return 0
        return self._source.count() - len(np.unique(self._source.indexes.passage_map.rows_of(allowed)))

    @contextmanager
    def _stage(self, name: str) -> Iterator[None]:
        started = time.perf_counter()
        yield
        self._stage_ms[name] = 1000 * (time.perf_counter() - started)
