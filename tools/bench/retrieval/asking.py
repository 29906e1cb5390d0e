"""Asking every question of a haystack, and the ranking that each case returns."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from devmem.stores import QueryEmbedding
from tools.bench.retrieval.cases import Searcher
from tools.bench.retrieval.dataset import Haystack, Question
from tools.bench.retrieval.memo import EmbeddingMemo
from tools.bench.retrieval.metrics import CUTOFFS, OF_TIME, measure, period_precision, sessions_of

FETCHED: Final = max(CUTOFFS)
"""Number of items that a user would ask for; the first ranks are those of this search."""
_DEEPER: Final = 50


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """Result of one case for one question."""

    question: Question
    ranked: list[str]
    """Ids of items, best first."""
    sessions: list[str]
    """Sessions as the searcher ranks them, the others by their best item; empty where the haystack has none."""
    turn: dict[str, float]
    period: dict[str, float] | None
    """Share of the first ten, or of as many as there are, that are of the asked time; None where no time alone is asked
    for."""
    session: dict[str, float] | None
    query_ms: float
    """Time of the search for ten items, the query's embedding included."""
    search_ms: float
    """Time of the same search when the embedding is known."""


def ask_all(searcher: Searcher, haystack: Haystack, memo: EmbeddingMemo) -> Iterator[Answer]:
    """Ask each question; nothing is timed before a first search has read the index."""
    searcher.search(QueryEmbedding(haystack.questions[0].text), FETCHED)
    for question in haystack.questions:
        asked, at = QueryEmbedding(question.text), question.asked_at
        with memo.set_aside():
            started = time.perf_counter()
            first = searcher.search(asked, FETCHED, at)
            query_ms = (time.perf_counter() - started) * 1000
        started = time.perf_counter()
        searcher.search(asked, FETCHED, at)
        search_ms = (time.perf_counter() - started) * 1000
        ranked = _deepened(searcher, asked, first, haystack, at)
        by_best = sessions_of(ranked, haystack.session_of)
        sessions = list(dict.fromkeys([*searcher.sessions(asked, FETCHED, at), *by_best]))
        yield Answer(
            question=question,
            ranked=ranked,
            sessions=sessions,
            turn=measure(ranked, question.gold),
            period=period_precision(first, question.gold) if question.type.startswith(OF_TIME) else None,
            session=measure(sessions, question.gold_sessions) if question.gold_sessions else None,
            query_ms=query_ms,
            search_ms=search_ms,
        )


def _deepened(
    searcher: Searcher, asked: QueryEmbedding, first: list[str], haystack: Haystack, at: datetime | None
) -> list[str]:
    """Raise the limit until ten sessions are found, or all items; the first ten keep their ranks."""
    wanted = min(FETCHED, len(set(haystack.session_of.values())))
    depth = _DEEPER
    while True:
        found = searcher.search(asked, depth, at)
        ranked = list(dict.fromkeys([*first, *found]))
        is_deep_enough = len(sessions_of(ranked, haystack.session_of)) >= wanted
        if is_deep_enough or len(found) < depth or depth >= len(haystack.items):
            return ranked
        depth *= 2
