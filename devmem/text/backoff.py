"""Leaving in peace what failed: some seconds first, twice as long each time, until it works again."""

from __future__ import annotations

from collections.abc import Callable
from threading import Lock
from typing import Final

FIRST, LONGEST = 5.0, 120.0
"""Seconds."""


class Backoff:
    """Says whether something that failed may be tried again; safe to use from several threads."""

    def __init__(self, clock: Callable[[], float]) -> None:
        """Take the clock, which gives the time in seconds."""
        self._clock: Final = clock
        self._lock = Lock()
        self._next = FIRST
        self._until = 0.0

    @property
    def left(self) -> float:
        """Seconds for which it is left in peace; 0 when it may be tried."""
        return max(self._until - self._clock(), 0.0)

    def failed(self) -> None:
        """Begin a pause, twice as long as the last one."""
        with self._lock:
            self._until = self._clock() + self._next
            self._next = min(2 * self._next, LONGEST)

    def worked(self) -> None:
        """Take it for sound again."""
        with self._lock:
            self._next, self._until = FIRST, 0.0
