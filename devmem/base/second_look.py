"""How a store's `retrieval:` block ranks, and reading the best hits again with a reranker."""

from __future__ import annotations

import logging
from dataclasses import replace
from typing import Final

from devmem.config import RetrievalConfig
from devmem.errors import RerankerError
from devmem.outcomes import SearchReport
from devmem.ranking import DAY, Ranking
from devmem.reranking import Reranker

_LOG: Final = logging.getLogger(__name__)


def ranking_of(config: RetrievalConfig) -> Ranking:
    """Give the ranking that a store's `retrieval:` block asks for."""
    return Ranking(
        late_interaction=config.reranker.type == "late_interaction",
        context=config.context,
        time=config.time,
        recency=config.recency,
        half_life=config.half_life_days * DAY,
        importance=config.importance,
        diversity=config.diversity,
        collapse=config.collapse,
    )


def reranked(report: SearchReport, reranker: Reranker, query: str, limit: int) -> SearchReport:
    """Order the hits by what the reranker makes of their texts, and keep the best.

    A reranker that fails costs its opinion, not the search: the hits stay in their order, and the report says why.
    """
    hits = report.hits
    try:
        scores = reranker.scores(query, [hit.item.content_summary for hit in hits])
    except RerankerError as error:
        _LOG.warning("The hits stay as the search ranked them: %s", error)
        return replace(report, hits=hits[:limit], failure=str(error))
    scored = [replace(hit, score=score, rerank=score, parts={}) for hit, score in zip(hits, scores, strict=True)]
    order = sorted(scored, key=lambda hit: -hit.score)
    return replace(report, hits=tuple(order[:limit]), reranked=len(hits))
