"""A cache of the contents of a database, kept as long as these are the same."""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

from devmem.indexes.locking import locked

T = TypeVar("T")


class LatestGeneration(Generic[T]):
    """A cache for the latest generation of a database: another generation starts with a new one.

    What tells generations apart is up to the caller. Thread-safe; a search goes on with the cache that it was given.
    """

    def __init__(self, make: Callable[[], T]) -> None:
        """Start with an empty cache; `make` returns one."""
        self._lock = threading.Lock()
        self._make = make
        self._generation: Hashable = None
        self._cache = make()

    def of(self, generation: Hashable) -> T:
        """Return the cache of a generation: a new one where the last was of another."""
        return locked(self._lock, lambda: self._of(generation))

    def _of(self, generation: Hashable) -> T:
        if generation != self._generation:
            self._generation, self._cache = generation, self._make()
        return self._cache

    def clear(self) -> None:
        """Forget everything."""
        locked(self._lock, lambda: self._of(None))
