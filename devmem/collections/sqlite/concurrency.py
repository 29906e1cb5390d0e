"""Reading side by side: a connection for each reader of a file, a lock that readers of a memory share."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Final, TypeVar

T = TypeVar("T")

_KEPT: Final = 4
"""Maximum number of idle connections; each has a cache of pages."""


class ConnectionPool:
    """Connections that are opened on demand and used again. Thread-safe, as appending to a list and popping are."""

    def __init__(self, connect: Callable[[], sqlite3.Connection]) -> None:
        """Start empty; `connect` opens a connection that any thread may use."""
        self._connect = connect
        self._idle: list[sqlite3.Connection] = []
        self._closed = False

    def run(self, operation: Callable[[sqlite3.Connection], T]) -> T:
        """Run an operation with a connection that nobody else uses meanwhile.

        Raises:
            sqlite3.ProgrammingError: the pool is closed.
        """
        connection = self._take()
        try:
            result = operation(connection)
        except BaseException:
            # A statement that was not read to its end, which the traceback keeps alive, holds the connection in its
            # snapshot even after a rollback: whoever used it next would not see what was written since.
            connection.close()
            raise
        self._give_back(connection)
        return result

    def _take(self) -> sqlite3.Connection:
        if self._closed:
            raise sqlite3.ProgrammingError("Cannot operate on a closed database.")
        try:
            # The one used last has its pages in memory.
            return self._idle.pop()
        except IndexError:
            return self._connect()

    def _give_back(self, connection: sqlite3.Connection) -> None:
        if len(self._idle) >= _KEPT:
            connection.close()
            return
        self._idle.append(connection)
        if self._closed:
            self.close()

    def close(self) -> None:
        """Close the idle connections; those in use are closed when their operation ends."""
        self._closed = True
        with suppress(IndexError):
            while True:
                self._idle.pop().close()


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
