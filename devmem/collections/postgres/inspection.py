"""Facts about a store that are known without opening it: neither tables nor the store are made for it."""

from __future__ import annotations

from typing import Final

from psycopg import sql

from devmem.collections.postgres.database import Access, Connection, run_alone
from devmem.collections.postgres.location import Location
from devmem.collections.store_facts import StoreFacts

_SELECT: Final = "SELECT store_type, model FROM {} WHERE tenant = %s AND name = %s"


def inspect_store(url: str, name: str | None = None, *, busy_timeout: float = 30.0) -> StoreFacts | None:
    """Return what the database records about a store; None where there is no such store.

    Args:
        url: see `Location.parse`.
        name: name of the store where the URL names none.
        busy_timeout: seconds to wait for the server.

    Raises:
        CollectionError: the server cannot be reached, or refuses.
    """
    place = Location.parse(url, name)
    access = Access(location=place, durability="full", busy_timeout=busy_timeout)
    table = sql.Identifier(place.schema, "stores")

    def inspect(connection: Connection) -> StoreFacts | None:
        (there,) = connection.execute("SELECT to_regclass(%s)", (table.as_string(connection),)).fetchone() or (None,)
        if there is None:
            return None
        found = connection.execute(sql.SQL(_SELECT).format(table), (place.tenant, place.store)).fetchone()
        return StoreFacts(store_type=found[0], model=found[1]) if found else None

    return run_alone(access, inspect)
