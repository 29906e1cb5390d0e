"""Stamping items with the time at which they expire."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from devmem.model.items import MemoryItem


def with_ttl(
    items: Sequence[MemoryItem],
    ttl: float,
    now: float,
    stored: Callable[[Sequence[str]], Sequence[MemoryItem]],
) -> list[MemoryItem]:
    """Return items that expire `ttl` seconds from `now`, unless they have an expiry of their own.

    What is stored with the same content already keeps its expiry, so that storing it again is no change.

    Args:
        items: the items to store.
        ttl: seconds.
        now: seconds since the epoch.
        stored: returns the stored items of some ids.
    """
    open_ids = [item.id for item in items if item.expires_at is None]
    if not open_ids:
        return list(items)
    there = {item.id: item for item in stored(open_ids) if not item.expired(now)}

    def expiry(item: MemoryItem) -> float | None:
        if item.expires_at is not None:
            return item.expires_at
        older = there.get(item.id)
        return older.expires_at if older is not None and older.content_hash == item.content_hash else now + ttl

    return [replace(item, expires_at=expiry(item)) for item in items]
