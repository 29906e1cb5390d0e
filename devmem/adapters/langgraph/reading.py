"""Reading LangGraph's items: by key, by filter, and by a query."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import islice
from typing import Final

from langgraph.store.base import SearchItem, SearchOp

from devmem import Filter, Hit, Memory, MemoryItem
from devmem.adapters.langgraph.filters import ValueFilter, value_filter
from devmem.adapters.langgraph.items import (
    NAMESPACE,
    OTHERS,
    SOURCE,
    Namespace,
    entry_of,
    is_own,
    item_id,
    namespace_text,
    ttl_of,
)
from devmem.collections import Weights, differs_from, starts_with, version_hash
from devmem.errors import VersionConflictError
from devmem.stores import CollectionMemory, MemoryQuery

_PAGE: Final = 256
_WIDEN: Final = 4
"""Factor by which a search is widened until enough of its hits pass the predicate."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """Results of a search, and the items behind them."""

    results: list[SearchItem]
    items: list[MemoryItem]


class Reader:
    """Reads the part of a memory that a handle reaches."""

    def __init__(self, memory: Memory, store: CollectionMemory, *, by_cosine: bool) -> None:
        self._memory, self._store, self._by_cosine = memory, store, by_cosine

    def get(self, namespace: Namespace, key: str) -> MemoryItem | None:
        """Return the item of a key; None when there is none within reach."""
        own = item_id(namespace, key, self._memory.new_scope())
        reach, now = self._memory.matching(), self._store.setup.clock()
        ids = [own, key] if namespace == OTHERS else [own]
        items = [item for item in self._store.get(ids) if reach.admits(item, now)]
        return next((item for item in items if item.id == own or not is_own(item)), None)

    def search(self, op: SearchOp) -> Found:
        """Return the items below a namespace: the best of a query, or else those stored last.

        Where a query finds fewer than are wanted, those that it did not find follow without a score, as in LangGraph's
        own stores.
        """
        wanted = value_filter(op.filter)
        where = self._memory.matching(_below(op.namespace_prefix, wanted))
        end = op.offset + op.limit
        hits = self._hits(op.query, end, where, wanted) if op.query else []
        scored: list[tuple[MemoryItem, float | None]] = [(hit.item, self._score(hit)) for hit in hits]
        if len(scored) < end:
            seen = {item.id for item, _ in scored}
            rest = (item for item in self._newest(where) if item.id not in seen and _passes(item, wanted))
            scored += [(item, None) for item in islice(rest, end - len(scored))]
        page = scored[op.offset : end]
        return Found(results=[_result(item, score) for item, score in page], items=[item for item, _ in page])

    def refresh(self, items: Sequence[MemoryItem]) -> None:
        """Start the time to live of the items again, of those that have one and are still as they were read."""
        now = self._store.setup.clock()
        for item in items:
            if minutes := ttl_of(item):
                again = replace(item, expires_at=now + 60 * minutes)
                # A put that came in between started the time of its own value; a delete ended it.
                with suppress(VersionConflictError):
                    self._store.add([again], expected={item.id: version_hash(item)})

    def _hits(self, query: str, limit: int, where: Filter, wanted: ValueFilter) -> list[Hit]:
        asked = limit if wanted.rest is None else _WIDEN * limit
        while True:
            hits = self._ranked(query, asked, where)
            passing = [hit for hit in hits if _passes(hit.item, wanted)]
            if len(passing) >= limit or len(hits) < asked:
                return passing[:limit]
            asked *= _WIDEN

    def _ranked(self, query: str, limit: int, where: Filter) -> list[Hit]:
        asked = MemoryQuery(text=query, top_k=limit, where=where)
        if not self._by_cosine:
            # Two keys of the same text are two items here, not one that is found twice.
            ranking = replace(self._store.ranking, collapse=False)
            every = self._store.search_query(asked, limit=self._store.search_depth(limit), ranking=ranking)
            return list(self._store.rerank(asked, self._store.collection.find(every)).hits)
        nearest = self._store.search_query(asked, limit=limit, weights=Weights(similarity=1.0, lexical=0.0))
        hits = [hit for hit in self._store.collection.search(nearest) if hit.similarity is not None]
        return sorted(hits, key=lambda hit: -(hit.similarity or 0.0))

    def _score(self, hit: Hit) -> float:
        return float(hit.similarity or 0.0) if self._by_cosine else float(hit.score)

    def _newest(self, where: Filter) -> Iterator[MemoryItem]:
        offset = 0
        while page := self._store.recent(_PAGE, where, offset=offset):
            yield from page
            offset += len(page)


def _below(prefix: Namespace, wanted: ValueFilter) -> Filter:
    """Return the filter of the items whose namespace begins with a prefix."""
    if not prefix:
        return Filter(metadata=wanted.conditions)
    own = Filter(metadata={NAMESPACE: starts_with(namespace_text(prefix))}, source_name=SOURCE)
    if prefix != OTHERS:
        return replace(own, metadata={**own.metadata, **wanted.conditions})
    return Filter(metadata=wanted.conditions, any_of=(own, Filter(source_name=differs_from(SOURCE))))


def _passes(item: MemoryItem, wanted: ValueFilter) -> bool:
    return wanted.rest is None or wanted.rest(entry_of(item).value)


def _result(item: MemoryItem, score: float | None) -> SearchItem:
    entry = entry_of(item)
    return SearchItem(
        namespace=entry.namespace,
        key=entry.key,
        value=entry.value,
        created_at=entry.created_at,
        updated_at=entry.updated_at,
        score=score,
    )
