"""Ranking conversations by their best items, where a store has no better evidence."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from devmem.model.results import HitGroup, SearchReport
from devmem.recall import by_conversation
from devmem.stores.query import MemoryQuery

_HITS_EACH: Final = 10
_LEAST_HITS: Final = 50
"""Hits to search for, for each conversation that is wanted, and at least."""


def deepened(query: MemoryQuery) -> MemoryQuery:
    """Return a query for conversations as one for enough items to find them by."""
    return replace(query, top_k=max(_LEAST_HITS, _HITS_EACH * query.top_k))


def best_conversations(report: SearchReport, *, limit: int, hits_each: int) -> list[HitGroup]:
    """Group hits by conversation, ordered by the best hit's score, at most `limit` groups of `hits_each` hits."""
    # A store may order its hits otherwise, as by time.
    groups = by_conversation(sorted(report.hits, key=lambda hit: -hit.score))[:limit]
    return [replace(group, hits=group.hits[:hits_each]) for group in groups]
