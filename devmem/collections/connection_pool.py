"""Connections to a database that are opened on demand and used again."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import suppress
from typing import Final, Generic, Protocol, TypeVar

T = TypeVar("T")

_KEPT: Final = 4
"""Maximum number of idle connections; each has caches of its own."""


class Closable(Protocol):
    """A connection, as a pool keeps it."""

    def close(self) -> None:
        """Close it; nothing happens where it is closed."""
        ...


C = TypeVar("C", bound=Closable)


class PoolClosedError(Exception):
    """The pool was closed."""


class ConnectionPool(Generic[C]):
    """Connections that are opened on demand and used again. Thread-safe, as appending to a list and popping are."""

    def __init__(self, connect: Callable[[], C]) -> None:
        """Start empty; `connect` opens a connection that any thread may use."""
        self._connect = connect
        self._idle: list[C] = []
        self._inherited: list[C] = []
        self._closed = False
        self._process = os.getpid()

    def run(self, operation: Callable[[C], T]) -> T:
        """Run an operation with a connection that nobody else uses meanwhile.

        Raises:
            PoolClosedError: the pool is closed.
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

    def _take(self) -> C:
        if self._closed:
            raise PoolClosedError
        if self._process != os.getpid():
            # A process that was forked must not use, nor close, what its parent goes on using.
            self._inherited, self._idle, self._process = [*self._inherited, *self._idle], [], os.getpid()
        try:
            # The one used last has its pages in memory.
            return self._idle.pop()
        except IndexError:
            return self._connect()

    def _give_back(self, connection: C) -> None:
        if len(self._idle) >= _KEPT:
            connection.close()
            return
        self._idle.append(connection)
        if self._closed:
            self.close()

    def close_idle(self) -> None:
        """Close the idle connections, as when the server was restarted."""
        with suppress(IndexError):
            while True:
                self._idle.pop().close()

    def close(self) -> None:
        """Close the idle connections; those in use are closed when their operation ends."""
        self._closed = True
        self.close_idle()
