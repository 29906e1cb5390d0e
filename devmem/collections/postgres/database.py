"""Connections to a PostgreSQL database."""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable, Hashable
from contextlib import closing
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final, LiteralString, TypeAlias, TypeVar
from uuid import uuid4

import psycopg
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from devmem.collections.postgres.failures import NotConnectedError, is_lost, is_starting, translated
from devmem.collections.postgres.location import Location
from devmem.collections.protocol import Durability
from devmem.errors import CollectionError

T = TypeVar("T")

FIRST_WAIT: Final = 0.02
"""Seconds to wait before what failed is tried again; twice as long each time."""
LONGEST_WAIT: Final = 1.0
_SETTINGS: Final = "SELECT set_config(name, value, false) FROM unnest(%s::text[], %s::text[]) AS setting(name, value)"
_IDENTITY: Final = (
    "SELECT (SELECT system_identifier FROM pg_control_system()), (SELECT timeline_id FROM pg_control_checkpoint()), "
    "pg_postmaster_start_time(), (SELECT stats_reset FROM pg_stat_bgwriter), "
    "extract(epoch FROM clock_timestamp())::double precision, "
    "pg_backend_pid(), current_setting('devmem.session', true)"
)


@dataclass(frozen=True, slots=True)
class Server:
    """Identity of a server from one start to the next, to which the numbers of its transactions and rows belong.

    After a crash the last numbers are used again, where what had them was rolled back or not on the disk yet.
    """

    system: int
    """Differs from that of a server into which a dump was restored."""
    timeline: int
    """Grows when a standby takes over, which may lack the last transactions."""
    started: datetime
    counts_since: datetime | None
    """When its statistics were reset: also by a recovery after the crash of one of its processes."""


Cursor: TypeAlias = psycopg.Cursor[tuple[Any, ...]]


class Connection(psycopg.Connection[tuple[Any, ...]]):
    """A connection in autocommit mode, to a server that is known."""

    server: Server
    schema: str
    """Schema of the tables."""
    tables: int | None = None
    """Object id of the table `stores`, by which the tables are told from restored ones; None where nobody asked."""
    clock_offset: float
    """Seconds from this process's monotonic clock to the server's clock."""
    mark: str | None = None
    """By which the session is known where a pooler answers in the server's name; None where the server answers."""
    found_mark: str | None = None
    """Mark that the session had when it was taken over, as by another connection of the pooler."""

    @property
    def contents(self) -> Hashable:
        """Identity of what the connection shows: another one may have other contents under the same numbers."""
        return self.server, self.tables

    def server_time(self) -> float:
        """Return the time of the server in seconds since the epoch; whatever the clock here says."""
        return time.monotonic() + self.clock_offset


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
            # Rounded up, since 0 is unlimited.
            "statement_timeout": str(math.ceil(self.location.statement_timeout * 1000)),
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
        NotConnectedError: the server cannot be reached, or refuses.
        psycopg.Error: the connection was lost.
        CollectionError: the database has another encoding than UTF-8.
    """
    try:
        connection = Connection.connect(_conninfo(access), autocommit=True)
    except psycopg.OperationalError as error:
        raise NotConnectedError(*error.args) from error
    try:
        _check_encoding(access, connection)
        settings = access.settings()
        connection.execute(_SETTINGS, (list(settings), list(settings.values())))
        if access.durability == "full":
            # A server's stronger setting, such as remote_apply, stays.
            connection.execute(
                "SELECT set_config('synchronous_commit', 'on', false) "
                "WHERE current_setting('synchronous_commit') = 'off'"
            )
        ((system, timeline, started, counts_since, now, process, connection.found_mark),) = connection.execute(
            _IDENTITY
        ).fetchall()
        connection.server = Server(system, timeline, started, counts_since)
        connection.schema, connection.clock_offset = access.location.schema, now - time.monotonic()
        if process != connection.info.backend_pid:
            _mark(connection)
    except BaseException:
        connection.close()
        raise
    return connection


def _check_encoding(access: Access, connection: Connection) -> None:
    encoding = connection.info.parameter_status("server_encoding")
    if encoding not in (None, "UTF8"):
        raise CollectionError(
            str(access.location),
            f"the database has the encoding {encoding}, which cannot hold every text; make one with "
            "`createdb -E UTF8 -T template0 NAME`.",
        )


def _mark(connection: Connection) -> None:
    """Mark a session that a pooler lends: it names no process of the server, or another one.

    Statements are not prepared there: in a session that others have too, one of the same name may be theirs.
    """
    connection.prepare_threshold, connection.mark = None, uuid4().hex
    connection.execute("SELECT set_config('devmem.session', %s, false)", (connection.mark,))


def _conninfo(access: Access) -> str:
    """Return the location's connection string, with defaults of what neither it nor the environment sets."""
    given = conninfo_to_dict(access.location.conninfo)
    # Neither the environment's PGCLIENTENCODING nor the URL may choose one that cannot hold every text.
    given.pop("client_encoding", None)
    defaults = {"application_name": "devmem", "client_encoding": "UTF8"}
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
    deadline, wait, answered = time.monotonic() + access.busy_timeout, FIRST_WAIT, False
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
        wait = min(2 * wait, LONGEST_WAIT)
