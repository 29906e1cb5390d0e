"""Exponential backoff: after a failure wait before the next attempt, twice as long each time, until one succeeds."""

from __future__ import annotations

import contextvars
import time
from collections.abc import Callable
from queue import Empty, SimpleQueue
from threading import Lock, Thread
from typing import Final, TypeVar

from devmem.errors import DeadlineError

_NEVER: Final = float("-inf")


class Backoff:
    """Decides when something that failed may be tried again; safe to use from several threads.

    Several failures during one wait count once: calls that were under way together fail together.
    """

    def __init__(
        self,
        *,
        first: float = 5.0,
        longest: float = 120.0,
        failures: int = 1,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Start without a wait.

        Args:
            first: length of the first wait, in seconds.
            longest: upper limit of a wait that doubling reaches, in seconds.
            failures: number of failures in a row that start the first wait.
            clock: time in seconds that is never set back or forward, unlike `time.time`.
        """
        self._first: Final = first
        self._longest: Final = longest
        self._failures: Final = failures
        self._clock: Final = clock
        self._lock = Lock()
        self._count = 0
        self._length = 0.0
        self._failed_at = self._until = _NEVER

    @property
    def left(self) -> float:
        """Seconds until the next attempt; 0 when it may be made now."""
        return max(self._until - self._clock(), 0.0)

    def admits(self) -> bool:
        """Whether to make an attempt now.

        After a wait one caller is admitted; the others are refused for as long as the last wait took, unless the
        attempt is reported earlier.
        """
        with self._lock:
            now = self._clock()
            if now < self._until:
                return False
            self._until = now + self._length
            return True

    def failed(self, retry_after: float = 0.0) -> None:
        """Report a failed attempt; the wait that it starts takes at least `retry_after` seconds."""
        with self._lock:
            now = self._clock()
            self._count += 1
            if self._count >= self._failures and now >= self._failed_at + self._length:
                self._length = min(2 * self._length, self._longest) or self._first
                self._failed_at = now
                self._until = now + self._length
            self._until = max(self._until, now + retry_after)

    def worked(self) -> None:
        """Report a successful attempt; the next failure is the first one again."""
        with self._lock:
            self._count, self._length, self._failed_at, self._until = 0, 0.0, _NEVER, _NEVER


T = TypeVar("T")

RETRIES_SHARE: Final = 30.0
"""Seconds that the retries of a request may take together, beyond the time for one request."""


def within(seconds: float, action: Callable[[], T]) -> T:
    """Return the result of a call, or raise what it raises.

    The call runs in its own thread. One that exceeds its time is abandoned and does not keep the process from ending.

    Raises:
        DeadlineError: the call has not ended after `seconds`.
    """
    outcome: SimpleQueue[tuple[T, None] | tuple[None, BaseException]] = SimpleQueue()

    def run() -> None:
        try:
            outcome.put((action(), None))
        except BaseException as error:  # noqa: BLE001 - it is raised in the caller's thread
            outcome.put((None, error))

    Thread(target=contextvars.copy_context().run, args=(run,), name="devmem-call", daemon=True).start()
    try:
        result, error = outcome.get(timeout=seconds)
    except Empty:
        raise DeadlineError(f"no end within {seconds:g} s") from None
    if error is not None:
        raise error
    return result  # type: ignore[return-value] # A result of None is one of T.
