"""Asking again with growing pauses, and leaving a service in peace that keeps failing."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, TypeVar

from devmem_stores.mem0.errors import Mem0Error, Mem0RateLimitError, Mem0UnavailableError

T = TypeVar("T")

_FIRST_WAIT: Final = 0.5


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryPolicy:
    """How long a failing service is put up with; all times in seconds."""

    retries: int = 2
    longest_wait: float = 20.0
    """A longer `Retry-After` is not waited for: the call fails, and the next ones do until then."""
    failures: int = 3
    """Failed requests in a row that stop further ones."""
    first_pause: float = 30.0
    """How long they are stopped; twice as long each time that the request after it fails too."""
    longest_pause: float = 300.0


class Retrier:
    """Makes requests again that may work in a moment, and stops them while the service is ill (a circuit breaker).

    Safe to use from several threads.
    """

    def __init__(self, patience: RetryPolicy, *, clock: Callable[[], float], sleep: Callable[[float], None]) -> None:
        self._patience, self._clock, self._sleep = patience, clock, sleep
        self._lock = threading.Lock()
        self._failed = 0
        self._pause = patience.first_pause
        self._closed_until = 0.0
        self._last: Mem0Error | None = None

    @property
    def resting(self) -> bool:
        """Say whether requests are refused now."""
        with self._lock:
            return self._clock() < self._closed_until

    def call(self, operation: str, action: Callable[[], T]) -> T:
        """Do the action, again if that may help.

        Raises:
            Mem0UnavailableError: the service is left in peace; nothing was asked.
            Mem0Error: what the last try raised.
        """
        self._admit(operation)
        tries = 0
        while True:
            try:
                result = action()
            except Mem0Error as error:
                wait = self._failed_with(error, tries)
                if wait is None:
                    raise
                tries += 1
                self._sleep(wait)
            else:
                self._worked()
                return result

    def _admit(self, operation: str) -> None:
        with self._lock:
            now = self._clock()
            if now < self._closed_until:
                raise Mem0UnavailableError(operation, until=self._closed_until, now=now, cause=self._last)
            if self._failed >= self._patience.failures:
                # One request tries the service out; the others go on being refused until it has answered.
                self._closed_until = now + self._pause

    def _failed_with(self, error: Mem0Error, tries: int) -> float | None:
        """Note a failure; gives the seconds to wait before another try, None when there is to be none."""
        if not error.ill:
            self._worked()
            return None
        asked_to_wait = error.retry_after if isinstance(error, Mem0RateLimitError) else None
        with self._lock:
            trying_out = self._failed >= self._patience.failures
            self._failed += 1
            self._last = error
            if asked_to_wait is not None and asked_to_wait > self._patience.longest_wait:
                self._closed_until = self._clock() + asked_to_wait
                return None
            if self._failed >= self._patience.failures:
                if trying_out:
                    self._pause = min(2 * self._pause, self._patience.longest_pause)
                self._closed_until = self._clock() + self._pause
                return None
        if not error.retryable or tries >= self._patience.retries:
            return None
        return asked_to_wait if asked_to_wait is not None else min(_FIRST_WAIT * 2**tries, self._patience.longest_wait)

    def _worked(self) -> None:
        with self._lock:
            self._failed, self._closed_until, self._last = 0, 0.0, None
            self._pause = self._patience.first_pause
