"""Opening a PostgreSQL collection by its URL; the entry points `postgresql` and `postgres`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from devmem.collections.opening import CollectionOptions
from devmem.errors import MissingExtraError

if TYPE_CHECKING:
    from devmem.collections.postgres.collection import PostgresCollection


def open_postgres(location: str, options: CollectionOptions) -> PostgresCollection:
    """Open the store that a URL names, such as `postgresql://user@host/database?store=notes`.

    Raises:
        CollectionError: it cannot be opened.
        MissingExtraError: the extra `postgres` is not installed.
    """
    try:
        from devmem.collections.postgres.collection import PostgresCollection
    except ImportError as error:
        if error.name is None or error.name.partition(".")[0] not in ("psycopg", "pgvector"):
            raise
        raise MissingExtraError(feature="PostgreSQL", package=error.name, extra="postgres") from error
    return PostgresCollection(
        location,
        name=options.name,
        model=options.model,
        store_type=options.store_type,
        durability=options.durability,
        index=options.index,
        clock=options.clock,
        busy_timeout=options.busy_timeout,
    )
