"""When the items of a store expire: by their own time, a `ttl`, or the store's retention."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Final

from devmem.model.items import MemoryItem

Stored = Callable[[Sequence[str]], Sequence[MemoryItem]]
"""Returns the stored items of some ids."""

_CHECKS: Final = 100
"""Number of times within a retention that a store looks for items which were stored without it."""


class Expiry:
    """Stamps items with the time at which they expire. Thread-safe."""

    def __init__(self, *, ttl: float | None, retention: float | None = None) -> None:
        """Take the limits of a store.

        Args:
            ttl: seconds after which an item expires that has no expiry of its own; None for never.
            retention: greatest age of an item in seconds, whatever its expiry; None sets no limit.
        """
        self._ttl, self.retention = ttl, retention
        self._checked: float | None = None
        self._lock = threading.Lock()

    def stamped(self, items: Sequence[MemoryItem], now: float, stored: Stored) -> list[MemoryItem]:
        """Return items with their expiry at `now`, in seconds since the epoch.

        What is stored with the same content already keeps its expiry, so that storing it again is no change.
        """
        if self._ttl is None and self.retention is None:
            return list(items)
        there = {item.id: item for item in stored([item.id for item in items]) if not item.expired(now)}
        return [self._stamped(item, there.get(item.id), now) for item in items]

    def _stamped(self, item: MemoryItem, older: MemoryItem | None, now: float) -> MemoryItem:
        if older is not None and older.content_hash == item.content_hash:
            expires_at = older.expires_at if item.expires_at is None else item.expires_at
            return self.limited(replace(item, expires_at=expires_at), stored_at=older.created_at)
        if item.expires_at is None and self._ttl is not None:
            item = replace(item, expires_at=now + self._ttl)
        return self.limited(item)

    def limited(self, item: MemoryItem, *, stored_at: float | None = None) -> MemoryItem:
        """Return an item that expires with the retention at the latest, counted from `stored_at` or its storing."""
        if self.retention is None:
            return item
        latest = (item.created_at if stored_at is None else stored_at) + self.retention
        return item if item.expires_at is not None and item.expires_at <= latest else replace(item, expires_at=latest)

    def has_passed(self, item: MemoryItem, now: float) -> bool:
        """Whether an item, as one of an import, was stored longer ago than the retention allows."""
        return self.retention is not None and item.created_at + self.retention <= now

    def oldest(self, now: float) -> float | None:
        """Return the time before which no item may have been stored, where it is time to look; None otherwise."""
        if self.retention is None:
            return None
        with self._lock:
            if self._checked is not None and 0 <= now - self._checked < self.retention / _CHECKS:
                return None
            self._checked = now
        return now - self.retention
