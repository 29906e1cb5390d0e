"""Whether a store is still there while somebody has it open."""

from __future__ import annotations

from typing import Final

import psycopg

from devmem.collections.postgres.database import Connection
from devmem.errors import CollectionError

_SELECT: Final = "SELECT tableoid::bigint, model, dimension FROM stores WHERE store = %s"


def require_store(connection: Connection, location: str, store: int) -> tuple[str | None, int | None]:
    """Return model and dimension of a store.

    Raises:
        CollectionError: the store was dropped.
        psycopg.OperationalError: its tables were restored meanwhile; what was numbered again is seen on a new
            connection.
    """
    found = connection.execute(_SELECT, (store,)).fetchone()
    if found is None:
        raise dropped(location)
    tables, model, dimension = found
    check_tables(connection, tables)
    return model, dimension


def check_tables(connection: Connection, tables: int) -> None:
    """Treat a connection as lost when the table `stores` is another one than when it was opened.

    Raises:
        psycopg.OperationalError: the tables were restored meanwhile.
    """
    if connection.tables not in (None, tables):
        raise psycopg.OperationalError("the tables were replaced, as by restoring a backup")


def dropped(location: str) -> CollectionError:
    """Return the error of a store that is not there any more."""
    return CollectionError(location, "the store was dropped; open it again to begin with an empty one.")
