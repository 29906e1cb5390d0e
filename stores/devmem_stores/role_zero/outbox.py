"""Where items wait while the store's own place cannot be written: a collection of its own, made when it is needed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import islice
from pathlib import Path
from threading import Lock
from typing import Final

from devmem import Filter, MemoryItem
from devmem.collections import Collection, open_collection

_FIRST_PAUSE: Final = 5.0
_LONGEST_PAUSE: Final = 120.0


class Outbox:
    """Items in the order in which they came, durable; safe to use from several threads and processes."""

    def __init__(self, location: str | None, clock: Callable[[], float]) -> None:
        """Name the file; None has no outbox. `clock` gives the time in seconds since the epoch."""
        self.location, self._clock = location, clock
        self._opened: Collection | None = None
        self._closed = False
        self._lock = Lock()
        self._pause, self._resume_at = _FIRST_PAUSE, 0.0

    def _place(self) -> Collection | None:
        """Give the collection; None while nothing ever waited, and after closing."""
        with self._lock:
            if self._closed:
                return None
            if self._opened is None and self.location is not None and Path(self.location).exists():
                self._opened = open_collection(self.location, store_type="role_zero outbox", clock=self._clock)
            return self._opened

    def put(self, items: Sequence[MemoryItem]) -> None:
        """Keep the items; they are durable when this returns.

        Raises:
            CollectionError: they cannot be kept here either.
            RuntimeError: there is no outbox.
        """
        if self.location is None:
            raise RuntimeError("a store without an outbox puts nothing into it")
        with self._lock:
            if self._opened is None:
                self._opened = open_collection(self.location, store_type="role_zero outbox", clock=self._clock)
            place = self._opened
        place.add([replace(item, embedding=None) for item in items])

    def newest(self, limit: int, where: Filter | None = None) -> list[MemoryItem]:
        """Give the items that came last, newest first."""
        place = self._place()
        return place.recent(limit, where) if place is not None else []

    def oldest(self, limit: int) -> list[MemoryItem]:
        """Give the items that came first, in order."""
        place = self._place()
        return list(islice(place.scan(), limit)) if place is not None else []

    def get(self, ids: Sequence[str]) -> list[MemoryItem]:
        """Give the items that wait here, in the order of `ids`."""
        place = self._place()
        return place.get(ids) if place is not None else []

    def delete(self, *, ids: Sequence[str] | None = None, where: Filter | None = None) -> int:
        """Forget the named or the matching items; gives how many there were."""
        place = self._place()
        return place.delete(ids=ids, where=where) if place is not None else 0

    def count(self, where: Filter | None = None) -> int:
        """Count the items that wait."""
        place = self._place()
        return place.count(where) if place is not None else 0

    @property
    def resting(self) -> bool:
        """Say whether the last try to deliver failed a short while ago."""
        return self._clock() < self._resume_at

    def failed(self) -> None:
        """Note that delivering failed: the next try comes later, and later each time."""
        self._resume_at = self._clock() + self._pause
        self._pause = min(2 * self._pause, _LONGEST_PAUSE)

    def delivered(self) -> None:
        """Note that delivering works."""
        self._pause, self._resume_at = _FIRST_PAUSE, 0.0

    def close(self) -> None:
        """Release the file; nothing is given from it afterwards."""
        with self._lock:
            self._closed = True
            if self._opened is not None:
                self._opened.close()
                self._opened = None
