"""Connections to a PostgreSQL database."""

from __future__ import annotations

import math
import os
import struct
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from typing import Any, Final, LiteralString, TypeAlias, TypeVar

import numpy as np
import psycopg
from psycopg import errors
from psycopg.abc import Buffer
from psycopg.adapt import Dumper
from psycopg.conninfo import conninfo_to_dict, make_conninfo
from psycopg.pq import Format
from psycopg.sql import Literal

from devmem.errors import CollectionBusyError, CollectionDamagedError, CollectionError, CollectionUnwritableError
from devmem.redaction import without_credentials
from devmem.search.indexes.columns import Rows
from devmem.storage.postgres.location import Location
from devmem.storage.protocol import Durability

CONFLICTS: Final = (
    errors.SerializationFailure,
    errors.DeadlockDetected,
    # Another transaction stored the same id, or removed an attachment, at the same time.
    errors.UniqueViolation,
    errors.ForeignKeyViolation,
)
"""The transaction was rolled back, since another one came first."""
_UNREACHABLE: Final = ("08", "57P01", "57P02", "57P03", "57P05", "25P03", "53300")
"""Codes, or how they begin: the last three are a session that was idle, one idle in a transaction, and too many."""
_ANSWERS: Final = ("the database system is", "too many clients", "server closed the connection unexpectedly")
NOT_KNOWN: Final = "Try again; a write is stored whole or not at all, and which of the two is not known."
_REASONS: Final = (
    (("invalid ", "definition of service"), "check the parameters of the URL"),
    (("authentication", "password", "role ", "pg_hba.conf", "not permitted"), "check user and password"),
    (("certificate", "SSL"), "check `sslmode` and `sslrootcert`"),
    (("database ",), "check the name, or make the database with `createdb`"),
)
"""Words of servers and libpq where no connection is made, with the way out."""
_REFUSED: Final = ("28", "3D", "3F", "42501")


class NotConnectedError(psycopg.OperationalError):
    """No connection could be made, so nothing was sent."""


def is_lost(error: psycopg.Error) -> bool:
    """Whether the connection is gone, or was never made, for reasons that pass: a restart, too many connections."""
    state = error.sqlstate
    if state is None:
        # libpq reports a broken connection without a code, and also that the password is wrong.
        return isinstance(error, psycopg.OperationalError) and "authentication failed" not in str(error)
    return state.startswith(_UNREACHABLE)


def is_starting(error: psycopg.Error) -> bool:
    """Whether a server answered that takes no connections now: it starts, ends all after a crash, or has too many."""
    # libpq has no code where the server refuses to connect.
    return error.sqlstate is not None or any(answer in str(error) for answer in _ANSWERS)


@contextmanager
def translate_errors(location: str) -> Iterator[None]:
    """Raise PostgreSQL's errors as `CollectionError`s, which say what to do."""
    try:
        yield
    except psycopg.Error as error:
        raise translated(location, error) from error


def translated(location: str, error: psycopg.Error) -> CollectionError:
    """Return the `CollectionError` of an error."""
    state = error.sqlstate or ""
    text = without_credentials((str(error).strip().splitlines() or [type(error).__name__])[0])
    if isinstance(error, NotConnectedError):
        return _not_connected(location, error, text)
    if isinstance(error, CONFLICTS):
        return CollectionBusyError(
            location, f"others changed the same items too often ({text}); this write failed as a whole."
        )
    if isinstance(error, errors.LockNotAvailable):
        return CollectionBusyError(
            location, "another transaction held its locks for too long; this write failed as a whole."
        )
    if isinstance(error, errors.QueryCanceled):
        return CollectionBusyError(
            location, "a statement took longer than `statement_timeout`, seconds in the URL; nothing was written."
        )
    if isinstance(error, errors.ReadOnlySqlTransaction):
        return CollectionUnwritableError(location, f"the server accepts no writes ({text}); is it a standby?")
    if state.startswith("53"):
        return CollectionUnwritableError(
            location, f"the server lacks resources ({text}); this write failed as a whole."
        )
    if state in ("XX001", "XX002"):
        return CollectionDamagedError(location, f"the database is damaged ({text}): restore a backup.")
    if state.startswith(_REFUSED):
        return CollectionUnwritableError(location, f"the server refused ({text}); check user, database and rights.")
    if is_lost(error):
        return CollectionBusyError(location, f"the server cannot be reached ({text}). {NOT_KNOWN}")
    return CollectionError(location, f"PostgreSQL says: {text}")


def _not_connected(location: str, error: NotConnectedError, text: str) -> CollectionError:
    """Return the error of a connection that was not made; libpq has no codes for the reasons, only words."""
    if is_starting(error):
        return CollectionBusyError(location, f"the server takes no connections now ({text}); nothing was written.")
    advice = next((advice for words, advice in _REASONS if any(word in text for word in words)), None)
    if advice is not None:
        return CollectionUnwritableError(location, f"the server refused ({text}); {advice}.")
    return CollectionBusyError(
        location,
        f"the server cannot be reached ({text}); nothing was written. Check host and port, and whether it runs.",
    )


T = TypeVar("T")

FIRST_WAIT: Final = 0.02
"""Seconds to wait before what failed is tried again; twice as long each time."""
_LONGEST_WAIT: Final = 1.0
_LOSSES: Final = 20
"""Number of lost connections after which an operation is tried again, however long it has taken."""
Cursor: TypeAlias = psycopg.Cursor[tuple[Any, ...]]


class Connection(psycopg.Connection[tuple[Any, ...]]):
    """A connection in autocommit mode, of which nothing is kept from one transaction to the next.

    A pooler may run each transaction in another session: settings are set for the transaction alone, and no statement
    is prepared.
    """

    schema: str
    """Schema of the tables."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Access:
    """How a database is used; collections with the same access share connections."""

    location: Location
    durability: Durability = "full"
    busy_timeout: float = 30.0
    """Seconds to wait for locks, for a server that restarts, and for a free connection."""

    def key(self) -> tuple[object, ...]:
        """Return what connections have to have in common."""
        place = self.location
        limits = (place.connections, place.statement_timeout, self.busy_timeout)
        return (place.conninfo, place.schema, place.tenant, self.durability, *limits)

    def settings(self, *, writes: bool) -> str:
        """Return the statements that set what holds until the end of a transaction."""
        busy = round(self.busy_timeout * 1000)
        schema = self.location.schema.replace('"', '""')
        settings = {
            # Where extensions are by default, and where hosted databases put them.
            "search_path": f'"{schema}", public, extensions',
            # Rounded up, since 0 is unlimited.
            "statement_timeout": f"{math.ceil(self.location.statement_timeout * 1000)}",
            "lock_timeout": f"{busy}",
            "idle_in_transaction_session_timeout": f"{max(60_000, busy)}",
        }
        # A single server ignores this setting; a distributed one passes the following settings on to its workers.
        named = {"citus.propagate_set_commands": "local", "devmem.tenant": self.location.tenant}
        parts = [
            f"SELECT set_config('{name}', {Literal(value).as_string(None)}, true)" for name, value in settings.items()
        ]
        parts += [f"SET LOCAL {name} = {Literal(value).as_string(None)}" for name, value in named.items()]
        statement = "; ".join(parts)
        if not writes:
            return statement
        if self.durability == "normal":
            return f"{statement}; SET LOCAL synchronous_commit = off"
        # A server's stronger setting, such as remote_apply, stays.
        return (
            f"{statement}; SELECT set_config('synchronous_commit', 'on', true) "
            "WHERE current_setting('synchronous_commit') = 'off'"
        )


def composed(query: str) -> LiteralString:
    """Return a query of our own constants, as psycopg asks for literal text, with its name of a parameter."""
    return query.replace("?", "%s")  # pyright: ignore[reportReturnType]


def connect(access: Access) -> Connection:
    """Open a connection.

    Raises:
        NotConnectedError: the server cannot be reached, or refuses.
        psycopg.Error: the connection was lost.
        CollectionError: the database has another encoding than UTF-8.
    """
    given = conninfo_to_dict(access.location.conninfo)
    # Neither the environment's PGCLIENTENCODING nor the URL may choose one that cannot hold every text.
    given |= {"client_encoding": "UTF8", "application_name": given.get("application_name", "devmem")}
    if "PGCONNECT_TIMEOUT" not in os.environ:
        # libpq waits forever for a host that does not answer, and takes 1 second for 2.
        given.setdefault("connect_timeout", str(max(2, math.ceil(access.busy_timeout))))
    try:
        connection = Connection.connect(make_conninfo("", **given), autocommit=True, prepare_threshold=None)
    except psycopg.OperationalError as error:
        raise NotConnectedError(*error.args) from error
    encoding = connection.info.parameter_status("server_encoding")
    if encoding not in (None, "UTF8"):
        connection.close()
        raise CollectionError(
            str(access.location),
            f"the database has the encoding {encoding}, which cannot hold every text; make one with "
            "`createdb -E UTF8 -T template0 NAME`.",
        )
    connection.schema = access.location.schema
    connection.adapters.register_dumper(RowNumbers, _RowNumbersDumper)
    return connection


class Retries:
    """Whether an operation whose connection was lost is tried again.

    A server that cannot be reached is waited for `busy_timeout` seconds. While it answers, the number of losses counts
    too: by time alone, an operation that has waited for a lock or for a busy machine would fail at its first loss.
    """

    def __init__(self, busy_timeout: float) -> None:
        self._timeout, self._wait = busy_timeout, FIRST_WAIT
        self._started = self._answered = time.monotonic()
        self._losses = 0

    def wait(self, error: psycopg.Error) -> bool:
        """Wait before the next attempt; return False, at once, when there is to be none."""
        now = time.monotonic()
        if isinstance(error, NotConnectedError):
            is_last = now + self._wait > self._answered + self._timeout
        else:
            self._answered = now
            self._losses += 1
            is_last = self._losses > _LOSSES and now + self._wait > self._started + self._timeout
        if is_last or not is_lost(error):
            return False
        time.sleep(self._wait)
        self._wait = min(2 * self._wait, _LONGEST_WAIT)
        return True


def run_alone(access: Access, operation: Callable[[Connection], T]) -> T:
    """Run an operation on its own connection: again where that is lost, or the server is starting.

    A server that never answered is not waited for: the URL may be wrong.

    Args:
        access: how to connect.
        operation: may run several times.

    Raises:
        CollectionError: it cannot be done; see `translate_errors`.
    """
    retries, answered = Retries(access.busy_timeout), False
    while True:
        try:
            with closing(connect(access)) as connection:
                answered = True
                return operation(connection)
        except psycopg.Error as error:
            answered = answered or is_starting(error)
            if not (answered and retries.wait(error)):
                raise translated(str(access.location), error) from error


@contextmanager
def pipelined(connection: Connection) -> Iterator[None]:
    """Send statements at once; a cursor waits for its result when it is to return rows.

    See libpq's pipeline mode. When the context ends, the results that nobody asked for are dropped.

    Raises:
        psycopg.Error: a statement failed whose result nobody asked for, or the connection was lost.
    """
    raised: BaseException | None = None
    try:
        with connection.pipeline():
            try:
                yield
            except BaseException as error:  # noqa: BLE001 - it is raised below
                # psycopg would log, beside what is raised, that it cannot end the pipeline of a lost connection.
                raised = error
    except psycopg.Error:
        if raised is None:
            raise
    if raised is not None:
        raise raised


_INT8, _INT8_ARRAY = 20, 1016
_ELEMENT: Final = np.dtype([("length", ">i4"), ("number", ">i8")])


@dataclass(frozen=True, slots=True, eq=False)
class RowNumbers:
    """Row or passage numbers as a parameter of the type `bigint[]`; as a list they take psycopg ten times as long."""

    numbers: Rows | Sequence[int]


class _RowNumbersDumper(Dumper):
    format = Format.BINARY
    oid = _INT8_ARRAY

    def dump(self, obj: RowNumbers) -> Buffer | None:
        elements = np.empty(len(obj.numbers), dtype=_ELEMENT)
        elements["length"], elements["number"] = 8, obj.numbers
        # Number of dimensions, whether there are nulls, type; length and lower bound of the only dimension.
        return struct.pack(">iiiii", 1, 0, _INT8, len(elements), 1) + elements.tobytes()
