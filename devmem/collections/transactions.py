"""Transactions of a SQLite connection in autocommit mode."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


def write_transaction(connection: sqlite3.Connection, operation: Callable[[], T]) -> T:
    """Run an operation under the write lock; commit all that it wrote, or nothing when anything is raised.

    The lock is taken before the operation reads: one that was read before another process's commit could not be
    written any more.
    """
    return _run(connection, "BEGIN IMMEDIATE", operation)


def read_transaction(connection: sqlite3.Connection, operation: Callable[[], T]) -> T:
    """Run an operation that reads the database as of one commit."""
    return _run(connection, "BEGIN", operation)


def rolled_back(connection: sqlite3.Connection, operation: Callable[[], T]) -> T:
    """Run an operation that reads, and roll back what it created to read by."""
    return _run(connection, "BEGIN", operation, end="ROLLBACK")


def _run(connection: sqlite3.Connection, begin: str, operation: Callable[[], T], *, end: str = "COMMIT") -> T:
    # Not a context manager: Ctrl-C between its `__enter__` and the block, or at the start of its `__exit__`, would
    # leave the transaction open, and with it every other process locked out.
    try:
        _abandon(connection)
        connection.execute(begin)
        result = operation()
        connection.execute(end)
        return result
    finally:
        _abandon(connection)


def _abandon(connection: sqlite3.Connection) -> None:
    """Roll back what is not committed; at the start, what an exception in a rollback left open."""
    if connection.in_transaction:
        connection.execute("ROLLBACK")
