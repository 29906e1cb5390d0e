"""Repeated requests, and a circuit breaker for a service that keeps failing."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, TypeVar

from devmem.stores import Backoff
from devmem_stores.mem0.errors import Mem0Error, Mem0RateLimitError, Mem0UnavailableError

T = TypeVar("T")

_FIRST_WAIT: Final = 0.5


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryPolicy:
    """Limits of repeating requests; all times in seconds."""

    retries: int = 2
    budget: float = 30.0
    """Time after the start of a call from which on no request of it is repeated."""
    longest_wait: float = 20.0
    """A longer `Retry-After` is not waited for: the call fails, and the next ones do until then."""
    failures: int = 3
    """Number of failed requests in a row that open the circuit breaker."""
    first_pause: float = 30.0
    """Length of the first pause; it doubles each time that the request after it fails too."""
    longest_pause: float = 300.0


class Retrier:
    """Repeats requests that may work in a moment, and refuses them while the service is down (a circuit breaker).

    Safe to use from several threads.
    """

    def __init__(self, policy: RetryPolicy, *, clock: Callable[[], float], sleep: Callable[[float], None]) -> None:
        """Start with a closed circuit; `clock` is monotonic, in seconds."""
        self._policy, self._clock, self._sleep = policy, clock, sleep
        self._backoff = Backoff(
            first=policy.first_pause, longest=policy.longest_pause, failures=policy.failures, clock=clock
        )
        self._lock = threading.Lock()
        self._last: Mem0Error | None = None

    @property
    def resting(self) -> bool:
        """Whether requests are refused now."""
        return self._backoff.left > 0

    def call(self, operation: str, action: Callable[[], T]) -> T:
        """Perform the action, again if that may help.

        Raises:
            Mem0UnavailableError: the circuit is open; nothing was sent.
            Mem0Error: what the last attempt raised.
        """
        left = self._backoff.left
        # After a pause one request tries the service out; the others are refused until it has answered.
        if left or not self._backoff.admits():
            raise Mem0UnavailableError(operation, wait=left or self._backoff.left, cause=self._last)
        attempts, started = 0, self._clock()
        while True:
            try:
                result = action()
            except Mem0Error as error:
                wait = self._wait_after(error, attempts)
                if wait is None or self._clock() - started + wait > self._policy.budget:
                    raise
                attempts += 1
                self._sleep(wait)
            else:
                self._worked()
                return result

    def _wait_after(self, error: Mem0Error, attempts: int) -> float | None:
        """Record a failure; return the seconds to wait before another attempt, None when there is to be none."""
        if not error.ill:
            self._worked()
            return None
        retry_after = error.retry_after if isinstance(error, Mem0RateLimitError) else None
        self._last = error
        too_long = retry_after is not None and retry_after > self._policy.longest_wait
        self._backoff.failed(retry_after if retry_after is not None and too_long else 0.0)
        if self.resting or not error.retryable or attempts >= self._policy.retries:
            return None
        if retry_after is not None:
            return retry_after
        return min(_FIRST_WAIT * 2.0**attempts, self._policy.longest_wait)

    def _worked(self) -> None:
        self._last = None
        self._backoff.worked()
