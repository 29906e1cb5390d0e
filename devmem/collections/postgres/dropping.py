"""Dropping a store as a whole: its partitions at once, or its rows among those of other stores."""

from __future__ import annotations

from contextlib import closing
from functools import partial

from psycopg import sql

from devmem.collections.postgres.database import Access, Connection, composed, connect
from devmem.collections.postgres.failures import translate_errors
from devmem.collections.postgres.location import Location
from devmem.collections.postgres.locks import lock
from devmem.collections.postgres.pooling import refuse_shared_sessions
from devmem.collections.postgres.row_security import owns_tables
from devmem.collections.postgres.schema import PARTITIONED, drop_statements, table_of
from devmem.collections.postgres.server.hnsw import drop_hnsw
from devmem.collections.postgres.transactions import without_conflict
from devmem.errors import CollectionUnwritableError


def drop_store(url: str, name: str | None = None, *, busy_timeout: float = 30.0) -> bool:
    """Drop a store with everything in it, in one transaction; other processes that have it open get an error.

    A store with partitions of its own takes as long for a million items as for ten.

    Args:
        url: see `Location.parse`.
        name: name of the store where the URL names none.
        busy_timeout: seconds to wait for transactions that use the store.

    Returns:
        Whether there was such a store.

    Raises:
        CollectionError: the server cannot be reached, refuses, or others used the store for too long.
    """
    place = Location.parse(url, name)
    access = Access(location=place, durability="full", busy_timeout=busy_timeout)
    with translate_errors(str(place)), closing(connect(access)) as connection:
        refuse_shared_sessions(connection, access)
        # A schema without tables must not be taken for that of other stores, which the search path has too.
        stores = sql.Identifier(place.schema, "stores").as_string(connection)
        (there,) = connection.execute("SELECT to_regclass(%s)", (stores,)).fetchone() or (None,)
        return there is not None and without_conflict(partial(_drop, place), connection)


def _drop(place: Location, connection: Connection) -> bool:
    connection.execute("BEGIN")
    connection.execute("SET LOCAL statement_timeout = 0")
    dropped = _drop_within(connection, place)
    connection.execute("COMMIT")
    return dropped


def _drop_within(connection: Connection, place: Location) -> bool:
    query = "SELECT store FROM stores WHERE tenant = %s AND name = %s"
    found = connection.execute(query, (place.tenant, place.store)).fetchone()
    if found is None:
        return False
    (store,) = found
    # Writers hold it together, and look for the store once they have it.
    lock(connection, "store", store)
    query = f"SELECT {table_of('%s')}"
    (partition,) = connection.execute(composed(query), (f"items_{store}",)).fetchone() or (None,)
    if partition is None:
        for table in reversed(PARTITIONED):
            connection.execute(composed(f"DELETE FROM {table} WHERE store = %s"), (store,))
        if owns_tables(connection):
            drop_hnsw(connection, store)
    elif owns_tables(connection):
        # In the order in which transactions of other stores come to them, which would otherwise wait in a circle.
        for table in PARTITIONED:
            connection.execute(composed(f"LOCK TABLE ONLY {table} IN ACCESS EXCLUSIVE MODE"))
        for statement in drop_statements(store):
            connection.execute(composed(statement))
    else:
        raise CollectionUnwritableError(
            str(place), "has partitions of its own, which only the owner of the tables may drop: connect as that user."
        )
    connection.execute("DELETE FROM stores WHERE store = %s", (store,))
    return True
