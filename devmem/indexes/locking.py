"""Holding a lock for one call."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import TypeVar

T = TypeVar("T")


def locked(lock: AbstractContextManager[object], operation: Callable[[], T]) -> T:
    """Run an operation while holding a lock, which is released whatever is raised, and wherever.

    Ctrl-C between the end of a `with` block of several lines and its `__exit__` would leave the lock held for ever; on
    one line nothing comes between.
    """
    with lock: return operation()  # noqa: E701  # fmt: skip
