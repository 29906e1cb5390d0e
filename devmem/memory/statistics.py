"""Counts of a store's items by agent, user, source and day."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import date, datetime, timedelta
from typing import Final, TypeAlias

from devmem.model.filters import Filter, event_key
from devmem.model.items import MemoryItem
from devmem.stores.abilities import every_item
from devmem.stores.collection_memory import CollectionMemory
from devmem.stores.memory import MemoryBase
from devmem.text.moments import local

Counts: TypeAlias = tuple[tuple[str | None, int], ...]
"""Values with their numbers of items, the most frequent first; None stands for items without a value."""
_KEYS: Final = ("agent", "user", "source_kind", "source_name")


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
    """Return the numbers of the items that a filter admits; a store without a collection is read item by item."""
    if isinstance(store, CollectionMemory):
        counts = [tuple((_text(value), count) for value, count in store.value_counts(key, where)) for key in _KEYS]
        by_day = counts_by_day(store, where, days=days)
        items = store.count(where)
    else:
        kept = list(every_item(store, where))
        counts = [_ranked(_value(item, key) for item in kept) for key in _KEYS]
        found = Counter(local(event_key(item)[0]).date() for item in kept)
        by_day = tuple((day, found[day]) for day in _days_from(_first_day(store, days), days))
        items = len(kept)
    agents, users, kinds, sources = counts
    return StoreStatistics(
        store=store.name,
        type=store.setup.store_type,
        items=items,
        agents=agents,
        users=users,
        source_kinds=kinds,
        sources=sources,
        days=by_day,
    )


def counts_by_day(store: MemoryBase, where: Filter, *, days: int) -> tuple[tuple[date, int], ...]:
    """Return the numbers of items by the local day on which they happened, or else were stored; today comes last."""
    first = _first_day(store, days)
    found = []
    for day in _days_from(first, days):
        start, end = (_midnight(day + timedelta(days=more)).timestamp() for more in (0, 1))
        after = start if where.after is None else max(where.after, start)
        before = end if where.before is None else min(where.before, end)
        found.append((day, store.count(replace(where, after=after, before=before))))
    return tuple(found)


def _first_day(store: MemoryBase, days: int) -> datetime:
    return _midnight(local(store.setup.clock()).date() - timedelta(days=max(days, 1) - 1))


def _days_from(first: datetime, days: int) -> list[date]:
    return [first.date() + timedelta(days=more) for more in range(days)]


def _midnight(day: date) -> datetime:
    # The offset is that of the day itself: clocks may have changed since.
    return datetime.fromtimestamp(time.mktime(day.timetuple())).astimezone()


def _value(item: MemoryItem, key: str) -> str | None:
    if key == "source_kind":
        return item.provenance.kind.value
    return (item.provenance.name or None) if key == "source_name" else getattr(item.scope, key)


def _text(value: object) -> str | None:
    return None if value in (None, "") else str(value)


def _ranked(values: Iterable[str | None]) -> Counts:
    return tuple(Counter(values).most_common())
