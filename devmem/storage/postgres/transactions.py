"""Transactions in a PostgreSQL database, which are tried again when they have to be."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import ClassVar, Final, TypeVar
from uuid import UUID

import psycopg
from pgvector.psycopg import register_vector

from devmem.errors import CollectionBusyError, CollectionClosedError
from devmem.forks import follow_forks
from devmem.storage.postgres.database import (
    CONFLICTS,
    FIRST_WAIT,
    NOT_KNOWN,
    Access,
    Connection,
    NotConnectedError,
    Retries,
    check_session,
    composed,
    connect,
    is_lost,
    pipelined,
    register_parameters,
    translate_errors,
)
from devmem.storage.postgres.migrations import prepare_database
from devmem.storage.postgres.schema import require_store
from devmem.storage.sidecar_db import ConnectionPool, PoolClosedError
from devmem.storage.writing import DamagedRows

T = TypeVar("T")

_RANDOM: Final = random.SystemRandom()
"""Not the generator of `random`, whose seed is the program's own."""
_CONFLICTS_IN_A_ROW: Final = 100
"""Number of attempts of a transaction that others keep coming before."""
_BEGIN_READING: Final = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"
_TOKENS_KEPT: Final = 24 * 3600.0
"""Seconds for which a transaction's token is kept; nobody asks for it longer than `busy_timeout`."""
_PRUNED_EVERY: Final = 500
"""Mean number of transactions between two that delete old tokens."""


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
        # A dump may have been restored while this process had the store open.
        prepare_database(connection, access.location)
        register_vector(connection)
        register_parameters(connection)
        ((connection.tables, is_standby),) = connection.execute(
            "SELECT 'stores'::regclass::oid::bigint, pg_is_in_recovery()"
        ).fetchall()
        if access.snapshot_view is not None:
            # Views of this session alone, which sessions that are read-only by default may have too.
            begin = "BEGIN" if is_standby else "BEGIN READ WRITE"
            connection.execute(composed(f"{begin}; {access.snapshot_view}; COMMIT"))
    except BaseException:
        connection.close()
        raise
    return connection


class Database:
    """Transactions in a database. Thread-safe.

    A transaction that came too late, or whose connection was lost, is tried again; none is committed twice.
    """

    def __init__(self, access: Access) -> None:
        """Connect on first use; the tables have to be there."""
        self._access, self._location = access, str(access.location)
        self._shared = _SharedPool.of(access)
        self.damaged: Final = DamagedRows(self._location)
        """Rows that could not be read since this was made."""
        self._closed = False

    def read(self, operation: Callable[[Connection], T]) -> T:
        """Run an operation that sees the database as of one moment: that of its first statement.

        Args:
            operation: may run several times.

        Raises:
            CollectionError: it cannot be done; see `translate_errors`.
        """

        def read(connection: Connection) -> T:
            connection.damaged = self.damaged
            connection.execute(_BEGIN_READING)
            check_session(connection, self._location)
            result = operation(connection)
            connection.execute("COMMIT")
            return result

        return self._run(read)

    def read_pipelined(self, operation: Callable[[Connection], T], settings: str) -> T:
        """Run an operation as `read` does, without waiting for a statement's result before it is asked for.

        A cursor waits for its rows when it is to return them. Until then the server works while the operation goes on.

        Args:
            operation: may run several times.
            settings: a statement, of our own constants, that sets what holds until the transaction ends.

        Raises:
            CollectionError: it cannot be done; see `translate_errors`.
        """

        def read(connection: Connection) -> T:
            connection.damaged = self.damaged
            with pipelined(connection):
                connection.execute(_BEGIN_READING)
                check_session(connection, self._location)
                connection.execute(composed(settings))
                result = operation(connection)
                connection.execute("COMMIT")
            return result

        return self._run(read)

    def write(self, operation: Callable[[Connection], T]) -> T:
        """Run an operation and commit what it wrote, or nothing when anything is raised; durable when it returns.

        It runs in the isolation level READ COMMITTED, and may run several times.

        Raises:
            CollectionError: it cannot be done; see `translate_errors`.
        """
        token: UUID | None = None
        results: list[T] = []

        def commit(connection: Connection) -> T:
            nonlocal token
            # By the server's clock, which decides when it is old.
            token = token or _new_token(connection.server_time())
            connection.damaged = self.damaged
            try:
                with pipelined(connection):
                    connection.execute("BEGIN")
                    check_session(connection, self._location)
                    # Waits for an earlier attempt that is still being committed.
                    connection.execute("INSERT INTO commits(token) VALUES (%s)", (token,))
            except psycopg.errors.UniqueViolation:
                if not results:
                    raise
                connection.rollback()
                return results[-1]
            except (psycopg.errors.LockNotAvailable, psycopg.errors.QueryCanceled) as error:
                if not results:
                    raise
                # The server has not noticed yet that the connection of that attempt was lost.
                raise CollectionBusyError(self._location, f"the connection was lost. {NOT_KNOWN}") from error
            results.append(operation(connection))
            if _RANDOM.randrange(_PRUNED_EVERY) == 0:
                oldest = _new_token(connection.server_time() - _TOKENS_KEPT)
                connection.execute("DELETE FROM commits WHERE token < %s", (oldest,))
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


def read_store(database: Database, location: str, store: int, operation: Callable[[Connection], T]) -> T:
    """Run an operation that reads a store, of which finding nothing may mean that there is no store any more.

    Raises:
        CollectionError: the store was dropped, or it cannot be done; see `translate_errors`.
    """

    def read(connection: Connection) -> T:
        found = operation(connection)
        if not found:
            require_store(connection, location, store)
        return found

    return database.read(read)


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


def _new_token(at: float) -> UUID:
    """Return a random UUID that sorts by its time (RFC 9562, version 7), in seconds since the epoch."""
    milliseconds = int(at * 1000)
    number = milliseconds << 80 | 7 << 76 | _RANDOM.getrandbits(76)
    return UUID(int=number & ~(3 << 62) | 2 << 62)
