"""The statements that SQLite runs: counting them, and SIGKILL before one of them."""

from __future__ import annotations

import os
import signal
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from devmem.collections import Durability
from devmem.collections.sqlite import database


@contextmanager
def traced(call: Callable[[str], None]) -> Iterator[None]:
    """Have a function called before every statement of the connections that are opened meanwhile."""
    connect = database.open_connection

    def traced(location: str, durability: Durability, busy_timeout: float) -> sqlite3.Connection:
        connection = connect(location, durability, busy_timeout)
        connection.set_trace_callback(call)
        return connection

    vars(database)["open_connection"] = traced
    try:
        yield
    finally:
        vars(database)["open_connection"] = connect


@contextmanager
def dying() -> Iterator[Callable[[int], None]]:
    """Yield a function that has this process killed once a number of further statements were run."""
    left: list[int] = []

    def count(_statement: str) -> None:
        if left:
            left.append(left.pop() - 1)
            if left[0] < 0:
                os.kill(os.getpid(), signal.SIGKILL)

    with traced(count):
        yield left.append
