"""A clock that stands still until a test moves it."""

from __future__ import annotations


class ManualClock:
    """Seconds since the epoch, as of `time.time`; pass it wherever a `clock` or a `monotonic` clock is taken."""

    def __init__(self, now: float = 1_700_000_000.0) -> None:
        self.now = now

    def __call__(self) -> float:
        """Return the time."""
        return self.now

    def advance(self, seconds: float) -> None:
        """Move the time on."""
        self.now += seconds
