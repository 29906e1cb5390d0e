"""The statements that a database runs: counting them, and SIGKILL before one of them."""

from __future__ import annotations

import os
import signal
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any, TypeAlias

import psycopg

from devmem.storage import Durability
from devmem.storage.sqlite import database

Trace: TypeAlias = Callable[[Callable[[str], None]], AbstractContextManager[None]]
"""Has a function called before every statement of a kind of database."""


@contextmanager
def traced(call: Callable[[str], None]) -> Iterator[None]:
    """Have a function called before every statement of the connections that are opened meanwhile."""
    connect = database.open_connection

    def traced(
        location: str, durability: Durability, busy_timeout: float, *, read_only: bool = False
    ) -> sqlite3.Connection:
        connection = connect(location, durability, busy_timeout, read_only=read_only)
        connection.set_trace_callback(call)
        return connection

    vars(database)["open_connection"] = traced
    try:
        yield
    finally:
        vars(database)["open_connection"] = connect


@contextmanager
def traced_postgres(call: Callable[[str], None]) -> Iterator[None]:
    """Have a function called before every statement that is sent to a PostgreSQL server meanwhile."""
    names = ("execute", "executemany", "copy")
    methods = {name: getattr(psycopg.Cursor, name) for name in names}

    def traced(name: str) -> Callable[..., Any]:
        def send(*arguments: Any, **options: Any) -> Any:  # noqa: ANN401 - those of the method
            call(str(arguments[1]))
            return methods[name](*arguments, **options)

        return send

    for name in names:
        setattr(psycopg.Cursor, name, traced(name))
    try:
        yield
    finally:
        for name, method in methods.items():
            setattr(psycopg.Cursor, name, method)


@contextmanager
def dying(trace: Trace = traced) -> Iterator[Callable[[int], None]]:
    """Yield a function that has this process killed once a number of further statements were run."""
    left: list[int] = []

    def count(_statement: str) -> None:
        if left:
            left.append(left.pop() - 1)
            if left[0] < 0:
                os.kill(os.getpid(), signal.SIGKILL)

    with trace(count):
        yield left.append
