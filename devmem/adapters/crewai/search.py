"""Searching a memory for a vector of CrewAI's, and for the text that it was made of."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

import numpy as np
from crewai.memory.storage.backend import EmbeddingDimensionMismatchError
from crewai.memory.types import MemoryRecord

from devmem import Hit, Memory
from devmem.adapters.crewai.records import record_from
from devmem.adapters.crewai.selection import Selection
from devmem.adapters.embedded_texts import EmbeddedTexts
from devmem.collections import Filter, SearchQuery, Weights
from devmem.stores import CollectionMemory, MemoryQuery

_WIDEN: Final = 4
"""Factor by which a search is widened until enough of its hits pass the predicate."""


class Searcher:
    """Searches the part of a memory that a handle reaches."""

    def __init__(self, memory: Memory, store: CollectionMemory, texts: EmbeddedTexts) -> None:
        self._memory, self._store, self._texts = memory, store, texts

    def search(
        self, vector: Sequence[float], meant: Selection, *, limit: int, min_score: float
    ) -> list[tuple[MemoryRecord, float]]:
        """Return at most `limit` records, best first, with scores from 0 to 1.

        A vector of a known text is searched for with the text: by meaning and by words. CrewAI computes with cosines,
        so the order is devmem's and the scores are the hits' cosines in descending order. A hit whose own cosine is
        below `min_score` is left out. Without a model a hit's score is that of its rank.

        Raises:
            EmbeddingDimensionMismatchError: the vector is of another length than the memory's.
            ValueError: the memory has no model, and `texts` did not make the vector.
        """
        self.check_dimension(vector)
        if limit < 1 or not len(vector):
            return []
        score_of = _cosine if self._store.embedder is not None else _by_words
        hits = [hit for hit in self._passing(vector, meant, limit) if score_of(hit) >= min_score]
        scores = sorted(map(score_of, hits), reverse=True)
        return [(record_from(hit.item), score) for hit, score in zip(hits, scores, strict=True)]

    def check_dimension(self, vector: Sequence[float]) -> None:
        """Refuse a vector of another length than those of the memory, once that is known.

        Raises:
            EmbeddingDimensionMismatchError: it is of another length.
        """
        model = self._store.embedder
        expected = model.identity.dimension if model else None
        if expected is not None and len(vector) and len(vector) != expected:
            raise EmbeddingDimensionMismatchError(expected, len(vector))

    def _passing(self, vector: Sequence[float], meant: Selection, limit: int) -> list[Hit]:
        where = self._memory.matching(meant.where)
        text, asked = self._texts.text_of(vector), limit if meant.rest is None else _WIDEN * limit
        if text is None and self._store.embedder is None:
            raise ValueError("without a model texts are searched: make CrewAI's Memory with embedder=storage.embedder")
        while True:
            hits = self._ranked(text, vector, asked, where)
            passing = [hit for hit in hits if meant.admits(record_from(hit.item))]
            if len(passing) >= limit or len(hits) < asked:
                return passing[:limit]
            asked *= _WIDEN

    def _ranked(self, text: str | None, vector: Sequence[float], limit: int, where: Filter) -> list[Hit]:
        # Two records of the same text are two records here, not one that is found twice.
        ranking = replace(self._store.ranking, collapse=False)
        if text is not None:
            asked = MemoryQuery(text=text, top_k=limit, where=where)
            query = self._store.search_query(asked, limit=self._store.search_depth(limit), ranking=ranking)
            return list(self._store.rerank(asked, self._store.collection.find(query)).hits)
        length = float(np.linalg.norm(vector))
        if length == 0:
            return []
        unit = np.asarray(vector, dtype=np.float32) / np.float32(length)
        by_meaning = Weights(similarity=1.0, lexical=0.0)
        return self._store.collection.search(
            SearchQuery(vector=unit, limit=limit, where=where, weights=by_meaning, ranking=ranking)
        )


def _cosine(hit: Hit) -> float:
    """Return the cosine of a hit, at least 0; one whose text is not embedded yet has none."""
    return max(hit.similarity or 0.0, 0.0)


def _by_words(hit: Hit) -> float:
    """Return the score of a hit that was found by words alone, from 0 to 1."""
    return min(max(hit.score, 0.0), 1.0)
