"""Remembering what was recalled for a query, so that a later write can tell what is not new."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Iterable

from devmem.base import QueryEmbedding
from devmem.outcomes import Hit

_KEPT = 256


class Recalls:
    """The last queries, their embeddings, and what was recalled for them; safe to use from several threads."""

    def __init__(self) -> None:
        self._embeddings: OrderedDict[str, QueryEmbedding] = OrderedDict()
        self._texts: OrderedDict[str, set[str]] = OrderedDict()
        self._lock = threading.Lock()

    def embedding(self, query: str) -> QueryEmbedding:
        """Give the query's embedding, the same at every stage; one whose provider failed is tried again."""
        with self._lock:
            known = self._embeddings.pop(query, None)
            if known is None or known.failures:
                known = QueryEmbedding(query)
            self._embeddings[query] = known
            _shrink(self._embeddings)
            return known

    def remember(self, query: str, hits: Iterable[Hit]) -> None:
        """Note what was recalled for a query."""
        with self._lock:
            self._texts.setdefault(query, set()).update(hit.item.content_summary for hit in hits)
            self._texts.move_to_end(query)
            _shrink(self._texts)

    def texts(self, query: str) -> frozenset[str]:
        """Give the texts that were recalled for a query."""
        with self._lock:
            return frozenset(self._texts.get(query, ()))


def _shrink(cache: OrderedDict[str, object] | OrderedDict[str, QueryEmbedding] | OrderedDict[str, set[str]]) -> None:
    while len(cache) > _KEPT:
        cache.popitem(last=False)
