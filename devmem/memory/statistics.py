"""Counts of a store's items by agent, user, source and day."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from datetime import date, datetime, timedelta
from typing import TypeAlias

from devmem.model.conditions import Scalar
from devmem.model.filters import Filter, counted, values_at
from devmem.stores.abilities import every_item
from devmem.stores.collection_memory import CollectionMemory
from devmem.stores.memory import MemoryBase
from devmem.text.moments import local

Counts: TypeAlias = tuple[tuple[str | None, int], ...]
"""Values with their numbers of items, the most frequent first; None stands for items without a value."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreStatistics:
    """Numbers of the items of a store that a handle reaches."""

    store: str
    type: str
    items: int
    agents: Counts
    users: Counts
    source_kinds: Counts
    sources: Counts
    """Names of nodes, tools, files and data sets."""
    days: tuple[tuple[date, int], ...]
    """Items by the local day on which they happened, or else were stored: the last days, today last."""


def statistics_of(store: MemoryBase, where: Filter, *, days: int) -> StoreStatistics:
    """Return the numbers of the items that a filter admits."""
    agents, users, kinds, sources = (
        tuple(
            (None if value in (None, "") else str(value), number) for value, number in value_counts(store, key, where)
        )
        for key in ("agent", "user", "source_kind", "source_name")
    )
    return StoreStatistics(
        store=store.name,
        type=store.setup.store_type,
        items=store.count(where),
        agents=agents,
        users=users,
        source_kinds=kinds,
        sources=sources,
        days=counts_by_day(store, where, days=days),
    )


def value_counts(store: MemoryBase, key: str, where: Filter) -> list[tuple[Scalar | None, int]]:
    """Return the values of a key with their numbers of items; a store without a collection is read item by item.

    Raises:
        FilterError: items have no such key.
    """
    if isinstance(store, CollectionMemory):
        return store.value_counts(key, where)
    return counted((value, 1) for item in every_item(store, where) for value in values_at(item, key))


def counts_by_day(store: MemoryBase, where: Filter, *, days: int) -> tuple[tuple[date, int], ...]:
    """Return the numbers of items by the local day on which they happened, or else were stored; today comes last."""
    today = local(store.setup.clock()).date()
    found = []
    for day in (today - timedelta(days=before) for before in reversed(range(max(days, 1)))):
        start, end = (_midnight(day + timedelta(days=more)).timestamp() for more in (0, 1))
        after = start if where.after is None else max(where.after, start)
        before = end if where.before is None else min(where.before, end)
        found.append((day, store.count(replace(where, after=after, before=before))))
    return tuple(found)


def _midnight(day: date) -> datetime:
    # The offset is that of the day itself: clocks may have changed since.
    return datetime.fromtimestamp(time.mktime(day.timetuple())).astimezone()
