"""A limit on the whole time of a call, whatever it waits for.

A client's timeout holds for each read: a server that sends a byte now and then, or a name that nobody resolves, would
keep a caller waiting far longer.
"""

from __future__ import annotations

import contextvars
from collections.abc import Callable
from queue import Empty, SimpleQueue
from threading import Thread
from typing import Final, TypeVar

T = TypeVar("T")

RETRIES_SHARE: Final = 30.0
"""Seconds that the retries of a request may take together, beyond the time for one request."""


class DeadlineExceededError(Exception):
    """A call took longer than its caller waits; it may still be running."""


def within(seconds: float, action: Callable[[], T]) -> T:
    """Return the result of a call, or raise what it raises.

    The call runs in a thread of its own. One that is over time is left to itself and keeps no process from ending.

    Raises:
        DeadlineExceededError: the call has not ended after `seconds`.
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
        raise DeadlineExceededError(f"no end within {seconds:g} s") from None
    if error is not None:
        raise error
    return result  # type: ignore[return-value] # A result of None is one of T.
