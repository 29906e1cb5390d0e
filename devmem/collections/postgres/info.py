"""Size, model and counts of a PostgreSQL collection."""

from __future__ import annotations

from typing import Final

from devmem.collections.postgres.database import Connection, composed
from devmem.collections.postgres.existence import dropped
from devmem.collections.postgres.schema import PARTITIONED, table_of
from devmem.collections.protocol import CollectionInfo

_COUNTS: Final = """
SELECT model, dimension, (SELECT count(*) FROM items WHERE items.store = stores.store),
    (SELECT count(*) FROM items WHERE items.store = stores.store AND waiting)
FROM stores WHERE store = %s
"""
_SIZES: Final = f"""
SELECT COALESCE(sum(pg_total_relation_size(name)), 0)::bigint,
    COALESCE(max(reltuples) FILTER (WHERE name = {table_of("%s")}), -1)
FROM (SELECT {table_of("name")} AS name FROM unnest(%s::text[]) AS name) AS tables
JOIN pg_class ON pg_class.oid = name
"""


def read_info(connection: Connection, location: str, store: int, mode: str) -> CollectionInfo:
    """Return what the database reports.

    The size of a store without partitions of its own is its share of all such stores, by the number of items.

    Args:
        connection: in a read transaction.
        location: of the store, without a password.
        store: number of the store.
        mode: how it is searched.

    Raises:
        CollectionError: the store was dropped.
    """
    found = connection.execute(_COUNTS, (store,)).fetchone()
    if found is None:
        raise dropped(location)
    model, dimension, items, waiting = found
    return CollectionInfo(
        location=location,
        items=items,
        waiting=waiting if model else 0,
        size_bytes=_size_bytes(connection, store, items),
        embedding=model,
        dimension=dimension,
        mode=mode,
    )


def _size_bytes(connection: Connection, store: int, items: int) -> int:
    own, _ = _sizes(connection, str(store))
    if own:
        return own
    size, in_all = _sizes(connection, "of_all")
    return round(size * items / max(in_all, items, 1))


def _sizes(connection: Connection, suffix: str) -> tuple[int, float]:
    """Return the bytes of the partitions with a suffix, and the estimated number of items in them."""
    names = [f"{table}_{suffix}" for table in PARTITIONED]
    size, items = connection.execute(composed(_SIZES), (names[0], names)).fetchone() or (0, 0.0)
    return int(size), float(items)
