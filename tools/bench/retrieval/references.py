"""The plain methods that a store is compared with: BM25 alone and one vector an item alone, both exact.

They see what a store indexes, but whole items instead of passages, by the same analysis and the same model. Every item
is scored, by no code of the store's search or index, so that what they give stays the same while that changes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from datetime import datetime
from typing import Final

import numpy as np
from numpy.typing import NDArray

from devmem import MemoryItem
from devmem.search.indexes.passages import indexed_text, passages_of
from devmem.stores import EmbeddingConfig, Progress, QueryEmbedding
from devmem.text.analysis import STOP_WORDS, query_terms, term_weight, terms
from tools.bench.retrieval.memo import EmbeddingMemo

_K1: Final = 0.9
_B: Final = 0.4
"""Anserini's defaults; on short turns they find more than 1.2 and 0.75, on an assistant's long answers less."""
_BATCH_SIZE: Final = 256


class Bm25:
    """Okapi BM25 (Robertson and Zaragoza 2009) over all that an item says, the day of what it tells of with it.

    As in a store, stop words are neither searched for nor counted in lengths, and a single character of a script
    without spaces counts less than a word.
    """

    def __init__(self, items: Sequence[MemoryItem], progress: Progress) -> None:
        self._ids = [item.id for item in items]
        lengths = np.zeros(len(items))
        found: dict[str, list[tuple[int, int]]] = {}
        for at, item in enumerate(items):
            counts = Counter(terms(indexed_text("\n".join(passages_of(item)), item)))
            lengths[at] = sum(count for term, count in counts.items() if term not in STOP_WORDS)
            for term, count in counts.items():
                found.setdefault(term, []).append((at, count))
            progress(at + 1)
        self._postings = {term: np.array(entries, dtype=np.int32) for term, entries in found.items()}
        self._norm = _K1 * (1 - _B + _B * lengths / max(lengths.mean(), 1.0))
        self.index_bytes = sum(entries.nbytes for entries in self._postings.values())

    def search(self, asked: QueryEmbedding, top_k: int, asked_at: datetime | None = None) -> list[str]:  # noqa: ARG002
        """Rank the items that have a word of the text."""
        scores = np.zeros(len(self._ids))
        for term in query_terms(asked.text):
            if (entries := self._postings.get(term)) is None:
                continue
            at, counts = entries[:, 0], entries[:, 1]
            idf = np.log1p((len(self._ids) - len(at) + 0.5) / (len(at) + 0.5))
            scores[at] += term_weight(term) * idf * counts * (_K1 + 1) / (counts + self._norm[at])
        return [self._ids[at] for at in _best(scores, top_k) if scores[at] > 0]

    def sessions(self, asked: QueryEmbedding, top_k: int, asked_at: datetime | None = None) -> list[str]:  # noqa: ARG002
        """Leave sessions to their best items."""
        return []


class ExactVectors:
    """Cosine of the text's embedding with that of each item's summary."""

    def __init__(self, items: Sequence[MemoryItem], memo: EmbeddingMemo, progress: Progress) -> None:
        self._ids = [item.id for item in items]
        self._embedder = memo.open(EmbeddingConfig())
        parts = []
        for start in range(0, len(items), _BATCH_SIZE):
            parts.append(self._embedder.embed([item.content_summary for item in items[start : start + _BATCH_SIZE]]))
            progress(min(start + _BATCH_SIZE, len(items)))
        self._vectors = np.concatenate(parts)
        self.index_bytes = self._vectors.nbytes

    def search(self, asked: QueryEmbedding, top_k: int, asked_at: datetime | None = None) -> list[str]:  # noqa: ARG002
        """Rank the items."""
        vector = asked.by(self._embedder)
        if vector is None:
            raise RuntimeError(f"the question {asked.text!r} could not be embedded: {asked.failures}")
        return [self._ids[at] for at in _best(self._vectors @ vector, top_k)]

    def sessions(self, asked: QueryEmbedding, top_k: int, asked_at: datetime | None = None) -> list[str]:  # noqa: ARG002
        """Leave sessions to their best items."""
        return []


def _best(scores: NDArray[np.floating], top_k: int) -> NDArray[np.intp]:
    """Return the positions of the highest scores, the newer item first among equals, as a store does."""
    return np.lexsort((-np.arange(len(scores)), -scores))[:top_k]
