"""Searching: candidates by words and by meaning, a second look at the best, and what their conversations lend them."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np

from devmem.collections.protocol import SearchQuery
from devmem.collections.sqlite.asked import Asked, Column
from devmem.collections.sqlite.cache import SearchCache
from devmem.collections.sqlite.candidates import Found, find, turns_around
from devmem.collections.sqlite.choosing import Choice
from devmem.collections.sqlite.conversations import rank_conversations
from devmem.collections.sqlite.matching import TokenMatches, query_tokens
from devmem.collections.sqlite.rows import fetch_items, where_sql
from devmem.collections.sqlite.weighing import weigh_found
from devmem.collections.sqlite.writing import any_expired
from devmem.collections.vectors import Rows
from devmem.outcomes import CandidateCut, CutCandidate, HitGroup, SearchReport
from devmem.ranking import Evidence, Weights
from devmem.text.times import period_of


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Weighed:
    """Candidates with their scores."""

    asked: Asked
    allowed: Rows | None
    """The passages that the filter lets through."""
    looked_at: int
    """How many candidates there were."""
    found: Found
    scores: Column
    evidence: Evidence | None = None
    matches: TokenMatches | None = None


class Search:
    """One search over indexes that follow the connection's read transaction."""

    def __init__(self, connection: sqlite3.Connection, cache: SearchCache, query: SearchQuery, now: float) -> None:
        """Take what is asked; `now` is in seconds since the epoch."""
        self._connection, self._cache, self._query, self._now = connection, cache, query, now
        self._asked_at = query.now if query.now is not None else now
        narrows = query.ranking.time != "off" and query.weights is None
        self._period = period_of(query.text, self._asked_at) if narrows else None
        self._stage_ms: dict[str, float] = {}
        self._cut: list[CutCandidate] = []

    def run(self, *, explain: bool) -> SearchReport:
        """Search; with `explain`, what was cut is told too."""
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
        ranked = rank_conversations(weighed.asked, weighed.found, weighed.scores, weighed.matches, self._period)
        choice = self._choice(weighed)
        numbers = ranked.best(self._query.limit)
        found = choice.best_of_each([ranked.members[number].tolist() for number in numbers], hits_each)
        evidence = ranked.evidence
        return [
            HitGroup.of(hits, float(evidence.scores[number]), evidence.parts(number))
            for number, hits in zip(numbers, found, strict=True)
        ]

    def _choice(self, of: _Weighed) -> Choice:
        return Choice(self._connection, of.asked, of.found, of.scores, of.evidence, of.matches)

    def _weighed(self, *, explain: bool, around: bool = True) -> _Weighed:
        """Find candidates, look again at those that are worth it, and put together all that speaks for them."""
        query = self._query
        with self._stage("filter"):
            allowed = self._allowed()
        with self._stage("candidates"):
            asked = Asked(self._cache, query)
            found = find(asked, allowed)
            looked_at = len(found.rows)
            within = self._within(found, explain=explain)
            found, first = self._shortlist(asked, within, allowed, around=around)
        if query.weights is not None:
            return _Weighed(asked=asked, allowed=allowed, looked_at=looked_at, found=found, scores=first)
        with self._stage("late interaction"):
            tokens = query_tokens(asked)
            matches = TokenMatches(self._connection, asked, tokens) if tokens is not None else None
            again = matches.scores(found.rows) if matches else np.full(len(first), np.nan)
        with self._stage("evidence"):
            evidence = weigh_found(asked, found, first, again, matches, period=self._period, asked_at=self._asked_at)
            scores = evidence.total()
        return _Weighed(
            asked=asked,
            allowed=allowed,
            looked_at=looked_at,
            found=found,
            scores=scores,
            evidence=evidence,
            matches=matches,
        )

    def _shortlist(self, asked: Asked, found: Found, allowed: Rows | None, *, around: bool) -> tuple[Found, Column]:
        """Keep the best by words and meaning together, with what was said around the very best; gives their scores."""
        query = self._query
        scores = found.fused(query.weights or Weights())
        if query.weights is not None:
            return found, scores
        best = np.sort(np.lexsort((-found.rows, -scores))[: max(query.ranking.depth, query.limit)])
        found, scores = found.where(best), scores[best]
        if not (around and query.ranking.context and self._cache.ledger.has_conversations):
            return found, scores
        found = found.joined(self._within(turns_around(asked, found, scores, allowed), explain=False))
        return found, found.fused(Weights())

    def _allowed(self) -> Rows | None:
        """Give the passages that the filter lets through; None when all are."""
        where = self._query.where
        narrowed = self._period if self._query.ranking.time == "narrow" else None
        if narrowed is None and where.everything() and not any_expired(self._connection, self._now):
            return None
        condition, values = where_sql(where, self._now)
        if narrowed is not None:
            condition += " AND COALESCE(event_time, created_at) >= ? AND COALESCE(event_time, created_at) < ?"
            values += [narrowed.start, narrowed.end]
        asked = f"SELECT passage FROM items JOIN passages USING (row) WHERE {condition} ORDER BY passage"
        return np.array([passage for (passage,) in self._connection.execute(asked, values)], dtype=np.int64)

    def _within(self, found: Found, *, explain: bool) -> Found:
        """Leave out what is less similar than the threshold."""
        below = found.similarity < self._query.min_similarity
        if explain and below.any():
            worst = np.flatnonzero(below)
            nearest = worst[np.argsort(-found.similarity[worst], kind="stable")][:10]
            items = fetch_items(self._connection, [int(row) for row in found.rows[nearest]])
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
        everything = self._connection.execute("SELECT count(*) FROM items").fetchone()[0]
        return int(everything) - len(np.unique(self._cache.directory.rows_of(allowed)))

    @contextmanager
    def _stage(self, name: str) -> Iterator[None]:
        started = time.perf_counter()
        yield
        self._stage_ms[name] = 1000 * (time.perf_counter() - started)
