"""Row-level security: a connection sees the rows of the tenant that it names, and gets an error where it names none.

PostgreSQL applies the policies of the table that a statement names, so that partitions, which can be named too, have
policies of their own.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from devmem.collections.postgres.database import Connection, composed
from devmem.collections.postgres.schema import PARTITIONED

_TENANT: Final = "current_setting('devmem.tenant')"
_OF_TENANT: Final = f"tenant = {_TENANT}"
_STORE_OF_TENANT: Final = f"store IN (SELECT store FROM stores WHERE tenant = {_TENANT})"
_PARTITIONS: Final = """
SELECT child.relname FROM pg_inherits
JOIN pg_class AS child ON child.oid = inhrelid
WHERE inhparent = ANY(%s::text[]::regclass[])
"""


def secure_tables(connection: Connection) -> None:
    """Secure all tables with rows of stores, and their partitions; their owner is subject to it, superusers never."""
    _run(connection, _secured("stores", _OF_TENANT))
    partitions = [name for (name,) in connection.execute(_PARTITIONS, (list(PARTITIONED),))]
    secure(connection, [*PARTITIONED, *partitions])


def secure(connection: Connection, tables: Sequence[str]) -> None:
    """Secure tables that begin with the store."""
    for table in tables:
        _run(connection, _secured(table, _STORE_OF_TENANT))


def is_secured(connection: Connection) -> bool:
    """Whether the tables have row-level security."""
    found = connection.execute("SELECT relrowsecurity FROM pg_class WHERE oid = 'stores'::regclass").fetchone()
    return found is not None and bool(found[0])


def see_all_rows(connection: Connection) -> None:
    """Let the owner of the tables see the rows of all tenants until `see_own_rows`; nobody else is let through."""
    _run(connection, (f"ALTER TABLE {table} NO FORCE ROW LEVEL SECURITY" for table in ("stores", *PARTITIONED)))


def see_own_rows(connection: Connection) -> None:
    """Subject the owner of the tables to row-level security again."""
    _run(connection, (f"ALTER TABLE {table} FORCE ROW LEVEL SECURITY" for table in ("stores", *PARTITIONED)))


def owns_tables(connection: Connection) -> bool:
    """Whether the connection's user may change the tables."""
    query = "SELECT pg_has_role(relowner, 'USAGE') FROM pg_class WHERE oid = 'stores'::regclass"
    return bool((connection.execute(query).fetchone() or (False,))[0])


def _run(connection: Connection, statements: Iterator[str]) -> None:
    for statement in statements:
        connection.execute(composed(statement))


def _secured(table: str, condition: str) -> Iterator[str]:
    yield f"ALTER TABLE {table} ENABLE ROW LEVEL SECURITY"
    yield f"ALTER TABLE {table} FORCE ROW LEVEL SECURITY"
    yield f"DROP POLICY IF EXISTS devmem_tenant ON {table}"
    yield f"CREATE POLICY devmem_tenant ON {table} USING ({condition})"
