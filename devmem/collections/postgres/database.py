"""Connections to a PostgreSQL database, and transactions that are tried again when they have to be."""

from __future__ import annotations

import math
import os
import random
import threading
import time
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar, Final, LiteralString, TypeVar
from uuid import UUID

import psycopg
from pgvector.psycopg import register_vector
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from devmem.collections.connection_pool import ConnectionPool, PoolClosedError
from devmem.collections.postgres.failures import CONFLICTS, is_lost, is_starting, translate_errors, translated
from devmem.collections.postgres.location import Location
from devmem.collections.protocol import Durability
from devmem.errors import CollectionBusyError, CollectionClosedError

T = TypeVar("T")

_CONFLICTS_IN_A_ROW: Final = 100
"""Number of attempts of a transaction that others keep coming before."""
_FIRST_WAIT: Final = 0.02
_LONGEST_WAIT: Final = 1.0
_TOKENS_KEPT: Final = 24 * 3600.0
"""Seconds for which a transaction's token is kept; nobody asks for it longer than `busy_timeout`."""
_PRUNED_EVERY: Final = 500
"""Mean number of transactions between two that delete old tokens."""
_SETTINGS: Final = "SELECT set_config(name, value, false) FROM unnest(%s::text[], %s::text[]) AS setting(name, value)"
_IDENTITY: Final = (
    "SELECT (SELECT system_identifier FROM pg_control_system()), (SELECT timeline_id FROM pg_control_checkpoint())"
)


@dataclass(frozen=True, slots=True)
class Server:
    """Identity of a server, whose transaction numbers have nothing to do with those of another one."""

    system: int
    """Differs from that of a server into which a dump was restored."""
    timeline: int
    """Grows when a standby takes over, which may lack the last transactions."""


class Connection(psycopg.Connection[tuple[Any, ...]]):
    """A connection in autocommit mode, to a server that is known."""

    server: Server


@dataclass(frozen=True, slots=True, kw_only=True)
class Access:
    """How a database is used; collections with the same access share connections."""

    location: Location
    durability: Durability
    busy_timeout: float
    """Seconds to wait for locks, for a server that restarts, and for a free connection."""
    shown: str | None = None
    """Statements by which the connections show another state than the current one; see `shown.py`."""

    def key(self) -> tuple[object, ...]:
        """Return what connections have to have in common."""
        place = self.location
        limits = (place.connections, place.statement_timeout, self.busy_timeout)
        return (place.conninfo, place.schema, place.tenant, self.durability, self.shown, *limits)

    def settings(self) -> dict[str, str]:
        """Return the settings of a session."""
        busy = str(round(self.busy_timeout * 1000))
        settings = {
            # Where extensions are by default, and where hosted databases put them.
            "search_path": f'"{self.location.schema.replace(chr(34), chr(34) * 2)}", public, extensions',
            "statement_timeout": str(round(self.location.statement_timeout * 1000)),
            "lock_timeout": busy,
            # A client that hangs would keep followers from forgetting what they have seen.
            "idle_in_transaction_session_timeout": str(max(60_000, int(busy))),
            "devmem.tenant": self.location.tenant,
        }
        return settings | ({"synchronous_commit": "off"} if self.durability == "normal" else {})


def composed(query: str) -> LiteralString:
    """Return a query that was put together from our own constants and marks; psycopg asks for literal text."""
    return query  # pyright: ignore[reportReturnType]


def connect(access: Access) -> Connection:
    """Open a connection.

    Raises:
        psycopg.Error: the server cannot be reached, or refuses.
    """
    connection = Connection.connect(_conninfo(access), autocommit=True)
    try:
        settings = access.settings()
        connection.execute(_SETTINGS, (list(settings), list(settings.values())))
        if access.durability == "full":
            # A server's stronger setting, such as remote_apply, stays.
            connection.execute(
                "SELECT set_config('synchronous_commit', 'on', false) "
                "WHERE current_setting('synchronous_commit') = 'off'"
            )
        system, timeline = connection.execute(_IDENTITY).fetchone() or (0, 0)
        connection.server = Server(system, timeline)
    except BaseException:
        connection.close()
        raise
    return connection


def _conninfo(access: Access) -> str:
    """Return the location's connection string, with defaults of what neither it nor the environment sets."""
    given = conninfo_to_dict(access.location.conninfo)
    defaults = {"application_name": "devmem"}
    if "PGCONNECT_TIMEOUT" not in os.environ:
        # libpq waits for good for a host that does not answer, and takes 1 second for 2.
        defaults["connect_timeout"] = str(max(2, math.ceil(access.busy_timeout)))
    return make_conninfo(access.location.conninfo, **{name: defaults[name] for name in defaults if name not in given})


def run_alone(access: Access, operation: Callable[[Connection], T]) -> T:
    """Run an operation on a connection of its own: again where that is lost, or the server is starting.

    A server that never answered is not waited for: the URL may be wrong.

    Args:
        access: how to connect.
        operation: may run several times.

    Raises:
        CollectionError: it cannot be done; see `translate_errors`.
    """
    deadline, wait, answered = time.monotonic() + access.busy_timeout, _FIRST_WAIT, False
    while True:
        try:
            with closing(connect(access)) as connection:
                answered = True
                return operation(connection)
        except psycopg.Error as error:
            answered = answered or is_starting(error)
            if not (answered and is_lost(error)) or time.monotonic() + wait > deadline:
                raise translated(str(access.location), error) from error
        time.sleep(wait)
        wait = min(2 * wait, _LONGEST_WAIT)


class _SharedPool:
    """Connections that all collections of this process with the same access share."""

    _known: ClassVar[dict[tuple[object, ...], _SharedPool]] = {}
    _lock: ClassVar[threading.Lock] = threading.Lock()

    def __init__(self, access: Access) -> None:
        self.pool = ConnectionPool(partial(_connect_for_items, access))
        self.slots = threading.BoundedSemaphore(access.location.connections)
        self._users = 0
        self._key = access.key()

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
        register_vector(connection)
        if access.shown is not None:
            connection.execute(composed(access.shown))
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
        self._closed = False

    def read(self, operation: Callable[[Connection], T]) -> T:
        """Run an operation that sees the database as of one moment: that of its first statement.

        Raises:
            CollectionError: it cannot be done; see `translate_errors`.
        """

        def read(connection: Connection) -> T:
            connection.execute("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
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
        token, results = _new_token(), list[T]()

        def commit(connection: Connection) -> T:
            connection.execute("BEGIN")
            try:
                # Waits for an earlier attempt that is still being committed.
                connection.execute("INSERT INTO commits(token) VALUES (%s)", (token,))
            except psycopg.errors.UniqueViolation:
                if not results:
                    raise
                connection.rollback()
                return results[-1]
            results.append(operation(connection))
            if random.randrange(_PRUNED_EVERY) == 0:  # noqa: S311 - nobody gains by guessing it
                connection.execute("DELETE FROM commits WHERE token < %s", (_new_token(before=_TOKENS_KEPT),))
            connection.execute("COMMIT")
            return results[-1]

        return self._run(commit)

    def _run(self, transaction: Callable[[Connection], T]) -> T:
        if self._closed:
            raise CollectionClosedError(self._location, "the collection was closed.")
        timeout = self._access.busy_timeout
        if not self._shared.slots.acquire(timeout=timeout):
            raise CollectionBusyError(
                self._location, f"all {self._access.location.connections} connections were in use for {timeout:g} s."
            )
        try:
            with translate_errors(self._location):
                return self._tried_again(transaction, time.monotonic() + timeout)
        except PoolClosedError as error:
            raise CollectionClosedError(self._location, "the collection was closed.") from error
        finally:
            self._shared.slots.release()

    def _tried_again(self, transaction: Callable[[Connection], T], deadline: float) -> T:
        """Run a transaction until it is not the connection's fault that it fails, at most until the deadline."""
        wait = _FIRST_WAIT
        while True:
            try:
                return self._shared.pool.run(partial(without_conflict, transaction))
            except psycopg.Error as error:
                if not is_lost(error) or time.monotonic() + wait > deadline:
                    raise
            # After a restart of the server every connection is lost.
            self._shared.pool.close_idle()
            time.sleep(wait)
            wait = min(2 * wait, _LONGEST_WAIT)

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
            time.sleep(random.uniform(0, _FIRST_WAIT))  # noqa: S311 - only keeps two from waiting equally long
    raise AssertionError("unreachable")


def _new_token(before: float = 0.0) -> UUID:
    """Return a random UUID that sorts by its time (RFC 9562, version 7), `before` seconds ago."""
    milliseconds = int((time.time() - before) * 1000)
    number = milliseconds << 80 | 7 << 76 | random.SystemRandom().getrandbits(76)
    return UUID(int=number & ~(3 << 62) | 2 << 62)
