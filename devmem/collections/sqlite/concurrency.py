"""Reading a memory side by side: a lock that readers share."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


class SharedLock:
    """A lock that any number of readers, or one writer, hold. Not reentrant; a waiting writer goes first."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._readers: set[object] = set()
        self._waiting: set[object] = set()
        self._writer: object | None = None

    def read(self, operation: Callable[[], T]) -> T:
        """Run an operation while no writer runs one."""
        holder = object()
        try:
            with self._changed:
                self._changed.wait_for(lambda: self._writer is None and not self._waiting)
                self._readers.add(holder)
            return operation()
        finally:
            self._release(holder)

    def write(self, operation: Callable[[], T]) -> T:
        """Run an operation while nobody else runs one."""
        holder = object()
        try:
            with self._changed:
                self._waiting.add(holder)
                self._changed.wait_for(lambda: self._writer is None and not self._readers)
                self._writer = holder
                self._waiting.discard(holder)
            return operation()
        finally:
            self._release(holder)

    def _release(self, holder: object) -> None:
        """Forget a holder, whatever it had come to: an exception may be raised anywhere."""
        with self._changed:
            self._readers.discard(holder)
            self._waiting.discard(holder)
            if self._writer is holder:
                self._writer = None
            self._changed.notify_all()
