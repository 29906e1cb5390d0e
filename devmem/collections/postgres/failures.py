"""PostgreSQL's errors in the words of collections: which are tried again, and what the others say to do."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

import psycopg
from psycopg import errors

from devmem.credentials import without_credentials
from devmem.errors import (
    CollectionBusyError,
    CollectionDamagedError,
    CollectionError,
    CollectionUnwritableError,
)

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
    state, text = error.sqlstate or "", _first_line(error)
    if isinstance(error, NotConnectedError):
        return _not_connected(location, error, text)
    if isinstance(error, CONFLICTS):
        return CollectionBusyError(location, f"others changed the same items too often ({text}); nothing was written.")
    if isinstance(error, errors.LockNotAvailable):
        return CollectionBusyError(location, "another transaction held its locks for too long; nothing was written.")
    if isinstance(error, errors.QueryCanceled):
        return CollectionBusyError(
            location, "a statement took longer than `statement_timeout`, seconds in the URL; nothing was written."
        )
    if isinstance(error, errors.ReadOnlySqlTransaction):
        return CollectionUnwritableError(location, f"the server accepts no writes ({text}); is it a standby?")
    if state.startswith("53"):
        return CollectionUnwritableError(location, f"the server lacks resources ({text}); nothing was written.")
    if state.startswith("XX"):
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


def _first_line(error: psycopg.Error) -> str:
    return without_credentials((str(error).strip().splitlines() or [type(error).__name__])[0])
