"""Remembering what was recalled for a query, so that a later write can tell what is not new."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Iterable
from typing import Final, TypeVar

from devmem.model.results import Hit
from devmem.stores import QueryEmbedding

_KEPT: Final = 256

T = TypeVar("T")


class RecallCache:
    """The last queries, their embeddings, and what was recalled for them; safe to use from several threads."""

    def __init__(self) -> None:
        self._embeddings: OrderedDict[str, QueryEmbedding] = OrderedDict()
        self._texts: OrderedDict[str, dict[str, set[str]]] = OrderedDict()
        self._lock = threading.Lock()

    def embedding(self, query: str) -> QueryEmbedding:
        """Return the query's embedding, the same at every stage; one whose provider failed is tried again."""
        with self._lock:
            known = self._embeddings.pop(query, None)
            if known is None or known.failures:
                known = QueryEmbedding(query)
            self._embeddings[query] = known
            _shrink(self._embeddings)
            return known

    def remember(self, query: str, hits: Iterable[Hit]) -> None:
        """Note what each store recalled for a query."""
        with self._lock:
            by_store = self._texts.setdefault(query, {})
            for hit in hits:
                by_store.setdefault(hit.store, set()).add(hit.item.content_summary)
            self._texts.move_to_end(query)
            _shrink(self._texts)

    def texts(self, queries: Iterable[str], store: str | None = None) -> frozenset[str]:
        """Return the texts that a store, or any store, recalled for one of the queries."""
        with self._lock:
            found = [self._texts.get(query, {}) for query in queries]
            wanted = [texts for by_store in found for name, texts in by_store.items() if store in (None, name)]
            return frozenset().union(*wanted)


def _shrink(cache: OrderedDict[str, T]) -> None:
    while len(cache) > _KEPT:
        cache.popitem(last=False)
