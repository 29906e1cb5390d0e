"""Advisory locks: what devmem's transactions exclude one another from, without a row to lock.

They belong to the database, so their names begin with the schema: stores of two schemas have the same numbers.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

from devmem.collections.postgres.database import Connection


def lock(connection: Connection, *what: object) -> None:
    """Hold a lock until the transaction ends; `what` names it."""
    connection.execute("SELECT pg_advisory_xact_lock(%s)", (key_of_lock(connection, *what),))


def lock_in_database(connection: Connection, what: str) -> None:
    """Hold a lock that stores of all schemas have in common until the transaction ends."""
    connection.execute("SELECT pg_advisory_xact_lock(%s)", (_number("devmem", what),))


def lock_shared(connection: Connection, *what: object) -> None:
    """Hold a lock together with others that share it until the transaction ends."""
    connection.execute("SELECT pg_advisory_xact_lock_shared(%s)", (key_of_lock(connection, *what),))


def lock_each(connection: Connection, names: Sequence[tuple[object, ...]]) -> None:
    """Hold several locks until the transaction ends, taken in one order, so that no two wait for each other."""
    keys = sorted({key_of_lock(connection, *name) for name in names})
    connection.execute("SELECT count(pg_advisory_xact_lock(key)) FROM unnest(%s::bigint[]) AS key", (keys,))


def key_of_lock(connection: Connection, *what: object) -> int:
    """Return the number by which PostgreSQL knows the lock that `what` names in the connection's schema."""
    return _number("devmem", connection.schema, *map(str, what))


def _number(*names: str) -> int:
    named = "\0".join(names).encode("utf-8", "surrogatepass")
    return int.from_bytes(hashlib.blake2b(named, digest_size=8).digest(), "little", signed=True)
