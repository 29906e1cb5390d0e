"""Searching a store's collection: from the store's query to the collection's, and reranking of what it found."""

from __future__ import annotations

from dataclasses import replace

from devmem.collections import Collection, SearchQuery, Weights
from devmem.config import RetrievalConfig
from devmem.embedding import Embedder
from devmem.embedding.tokens import READABLE
from devmem.model.results import SearchReport
from devmem.ranking import Ranking
from devmem.reranking.stage import RerankStage, ranking_of
from devmem.stores.query import MemoryQuery


class CollectionSearcher:
    """Searches as a store's `retrieval:` block says; it holds no state of its own."""

    def __init__(self, config: RetrievalConfig, *, embedder: Embedder | None, rerank_stage: RerankStage | None) -> None:
        """Take the block, the store's embedding model, and the stage of the block's reranker."""
        self._config, self._embedder, self._rerank_stage = config, embedder, rerank_stage

    @property
    def ranking(self) -> Ranking:
        """How hits are ranked."""
        return ranking_of(self._config)

    @property
    def reranks(self) -> bool:
        """Whether a reranker reads the best hits."""
        return self._rerank_stage is not None

    def depth(self, top_k: int) -> int:
        """Return the number of hits to search for: a reranker reads more than the `top_k` that are returned."""
        return self._rerank_stage.candidates(top_k) if self._rerank_stage else top_k

    def query(
        self, query: MemoryQuery, *, limit: int, weights: Weights | None = None, ranking: Ranking | None = None
    ) -> SearchQuery:
        """Return the collection's query; the text is embedded, unless the query has its embedding already."""
        tokens = query.embedding.tokens_by(self._embedder) if self._embedder else None
        unreadable = tokens is not None and tokens.known < READABLE
        return SearchQuery(
            text=query.text,
            vector=query.embedding.by(self._embedder) if self._embedder and not unreadable else None,
            tokens=None if unreadable else tokens,
            limit=limit,
            min_similarity=query.similarity_threshold,
            min_relevance=self._config.min_relevance if query.min_relevance is None else query.min_relevance,
            where=query.where,
            weights=weights,
            ranking=ranking or self.ranking,
            candidates=self._config.candidates,
            now=query.asked_at,
            explain=query.explain,
        )

    def run(self, collection: Collection, query: MemoryQuery) -> SearchReport:
        """Search by all signals, and have the reranker read the best."""
        wanted = self.query(query, limit=self.depth(query.top_k))
        return self.rerank(query, collection.find(wanted))

    def rerank(self, query: MemoryQuery, report: SearchReport) -> SearchReport:
        """Have the reranker, if there is one, read the best hits of a report; keep `top_k`."""
        if self._rerank_stage is None:
            return replace(report, hits=report.hits[: query.top_k])
        return self._rerank_stage.at(report, query.text, query.top_k)
