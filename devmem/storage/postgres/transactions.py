"""Transactions in a PostgreSQL database, which are tried again when they have to be."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from functools import partial
from typing import ClassVar, Final, LiteralString, TypeVar
from uuid import uuid4

import psycopg
from pgvector.psycopg import register_vector

from devmem.errors import CollectionBusyError, CollectionClosedError, PoolClosedError
from devmem.forks import follow_forks
from devmem.storage.connections import ConnectionPool
from devmem.storage.postgres.database import (
    CONFLICTS,
    FIRST_WAIT,
    NOT_KNOWN,
    Access,
    Connection,
    NotConnectedError,
    Retries,
    composed,
    connect,
    is_lost,
    pipelined,
    translate_errors,
)
from devmem.storage.postgres.schema import dropped

T = TypeVar("T")

_RANDOM: Final = random.SystemRandom()
"""Not the generator of `random`, whose seed is the program's own."""
_CONFLICTS_IN_A_ROW: Final = 100
"""Number of attempts of a transaction that others keep coming before."""
_PRUNED_EVERY: Final = 500
"""Mean number of transactions between two that delete old tokens."""
_BEGIN_CHANGE: Final = (
    "WITH held AS (SELECT store FROM stores WHERE store = %s FOR UPDATE) "
    "INSERT INTO commits(store, token) SELECT store, %s FROM held ON CONFLICT DO NOTHING RETURNING token"
)
IS_THERE: Final = "SELECT FROM stores WHERE store = %s"
# Nobody asks for a token longer than `busy_timeout`.
_PRUNE_COMMITS: Final = "DELETE FROM commits WHERE store = %s AND at < now() - interval '1 day'"


class _SharedPool:
    """Connections that all collections of this process with the same access share."""

    _known: ClassVar[dict[tuple[object, ...], _SharedPool]] = {}
    _lock: ClassVar[threading.Lock] = threading.Lock()

    def __init__(self, access: Access) -> None:
        self.pool = ConnectionPool(partial(_connect_for_items, access))
        self._connections = access.location.connections
        self.slots = threading.BoundedSemaphore(self._connections)
        self.held = threading.local()
        self._users = 0
        self._key = access.key()
        follow_forks(self)

    def restart_in_child(self) -> None:
        """Free the slots of the parent's other threads, whose connections are not here."""
        self.slots = threading.BoundedSemaphore(self._connections)

    @classmethod
    def of(cls, access: Access) -> _SharedPool:
        """Return the pool of an access, which has one user more now."""
        with cls._lock:
            shared = cls._known.setdefault(access.key(), cls(access))
            shared._users += 1  # noqa: SLF001 - of this class
            return shared

    def release(self) -> None:
        """Close the connections when nobody uses them any more."""
        with self._lock:
            self._users -= 1
            if self._users == 0:
                self._known.pop(self._key, None)
                self.pool.close()


def _connect_for_items(access: Access) -> Connection:
    connection = connect(access)
    try:
        connection.execute(composed(f"BEGIN; {access.settings(writes=False)}"))
        register_vector(connection)
        connection.execute("ROLLBACK")
    except BaseException:
        connection.close()
        raise
    return connection


class Transactions:
    """Transactions on one store of a database. Thread-safe.

    A transaction that came too late, or whose connection was lost, is tried again; none is committed twice.
    """

    def __init__(self, access: Access) -> None:
        """Connect on first use; the tables have to be there."""
        self._access, self._location, self._store = access, str(access.location), access.location.number
        self._shared = _SharedPool.of(access)
        self._begin_reading: LiteralString = composed(
            f"BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY; {access.settings(writes=False)}"
        )
        self._begin_writing: LiteralString = composed(
            f"BEGIN ISOLATION LEVEL READ COMMITTED; {access.settings(writes=True)}"
        )
        self._closed = False

    def read(
        self,
        operation: Callable[[Connection], T],
        *,
        settings: str | None = None,
    ) -> T:
        """Run an operation that sees the database as of one moment: that of its first statement.

        Args:
            operation: may run several times.
            settings: statements, of our own constants, that set what holds until the transaction ends. With these, no
                statement waits for its result before that is asked for: the server works while the operation goes on.

        Raises:
            CollectionError: it cannot be done; see `translate_errors`.
        """
        begin = self._begin_reading if settings is None else composed(f"{self._begin_reading}; {settings}")

        def read(connection: Connection) -> T:
            connection.execute(begin)
            with nullcontext() if settings is None else pipelined(connection):
                result = operation(connection)
                connection.execute("COMMIT")
            return result

        return self._run(read)

    def write(self, operation: Callable[[Connection], T]) -> T:
        """Run an operation and commit what it wrote, or nothing when anything is raised; durable when it returns.

        It runs in the isolation level READ COMMITTED, behind the row of the store: until it ends no other transaction
        writes in the store, so each of its statements sees what was committed before. It may run several times.

        Args:
            operation: may run several times.

        Raises:
            CollectionError: it cannot be done, or the store was dropped; see `translate_errors`.
        """
        token = uuid4()
        results: list[T] = []

        def commit(connection: Connection) -> T:
            connection.execute(self._begin_writing)
            try:
                # Waits for an earlier attempt that is still being committed.
                is_new = connection.execute(_BEGIN_CHANGE, (self._store, token)).fetchone() is not None
            except (psycopg.errors.LockNotAvailable, psycopg.errors.QueryCanceled) as error:
                if not results:
                    raise
                # The server has not noticed yet that the connection of that attempt was lost.
                raise CollectionBusyError(self._location, f"the connection was lost. {NOT_KNOWN}") from error
            if not is_new:
                if connection.execute(IS_THERE, (self._store,)).fetchone() is None:
                    raise dropped(self._location)
                connection.rollback()
                return results[-1]
            results.append(operation(connection))
            if _RANDOM.randrange(_PRUNED_EVERY) == 0:
                connection.execute(_PRUNE_COMMITS, (self._store,))
            connection.execute("COMMIT")
            return results[-1]

        return self._run(commit)

    def _run(self, transaction: Callable[[Connection], T]) -> T:
        if self._closed:
            raise CollectionClosedError(self._location, "the collection was closed.")
        try:
            with self._slot(), translate_errors(self._location):
                return self._tried_again(transaction)
        except PoolClosedError as error:
            raise CollectionClosedError(self._location, "the collection was closed.") from error

    @contextmanager
    def _slot(self) -> Iterator[None]:
        """Wait until a connection may be used.

        A thread that uses one already, as of another store on the same server, gets the next at once: threads that each
        hold one and wait for another would wait for each other.
        """
        timeout, held = self._access.busy_timeout, self._shared.held
        if getattr(held, "slot", False):
            yield
            return
        if not self._shared.slots.acquire(timeout=timeout):
            raise CollectionBusyError(
                self._location, f"all {self._access.location.connections} connections were in use for {timeout:g} s."
            )
        held.slot = True
        try:
            yield
        finally:
            held.slot = False
            self._shared.slots.release()

    def _tried_again(self, transaction: Callable[[Connection], T]) -> T:
        """Run a transaction until it is not the connection's fault that it fails, or there are no more retries."""
        retries = Retries(self._access.busy_timeout)
        lost: psycopg.Error | None = None
        while True:
            try:
                return self._shared.pool.run(partial(without_conflict, transaction))
            except psycopg.Error as error:
                if is_lost(error):
                    # After a restart of the server every connection is lost.
                    self._shared.pool.close_idle()
                if not retries.wait(error):
                    if lost is not None and isinstance(error, NotConnectedError):
                        # No connection was made since, but what was sent before may have been committed.
                        raise lost from error
                    raise
                if not isinstance(error, NotConnectedError):
                    lost = error

    def close(self) -> None:
        """Release the connections; closing twice is allowed."""
        if not self._closed:
            self._closed = True
            self._shared.release()


def without_conflict(transaction: Callable[[Connection], T], connection: Connection) -> T:
    """Run a transaction again as long as others come before it."""
    for attempt in range(_CONFLICTS_IN_A_ROW):
        try:
            return transaction(connection)
        except CONFLICTS:
            if attempt + 1 == _CONFLICTS_IN_A_ROW:
                raise
            connection.rollback()
            time.sleep(_RANDOM.uniform(0, FIRST_WAIT))
    raise AssertionError("unreachable")
