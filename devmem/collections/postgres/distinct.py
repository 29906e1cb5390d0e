"""Distinct values of a column or a metadata key."""

from __future__ import annotations

from typing import Any, Final

from devmem.collections.filter_sql import Sql
from devmem.collections.postgres.database import Connection, composed
from devmem.collections.postgres.texts import read_text, stored_text
from devmem.search.conditions import Scalar
from devmem.search.filters import metadata_key

_OF_COLUMN: Final = """
SELECT DISTINCT "{column}" AS value FROM items
WHERE store = %s AND {where} AND "{column}" IS NOT NULL AND starts_with("{column}", %s)
ORDER BY value LIMIT %s OFFSET %s
"""
_OF_METADATA: Final = """
SELECT value FROM (SELECT DISTINCT metadata -> %s::text AS value FROM items WHERE store = %s AND {where}) AS found
WHERE value IS NOT NULL AND (%s = '' OR jsonb_typeof(value) = 'string' AND starts_with(value #>> '{{}}', %s))
ORDER BY array_position(ARRAY['boolean', 'number', 'string'], jsonb_typeof(value)),
    CASE WHEN jsonb_typeof(value) = 'number' THEN value::numeric END,
    (value #>> '{{}}') COLLATE "C"
LIMIT %s OFFSET %s
"""


def distinct_values(
    connection: Connection, store: int, key: str, where: Sql, *, prefix: str, limit: int | None, offset: int
) -> list[Scalar]:
    """Return the distinct values of a key; see `Collection.values`.

    Args:
        connection: in a read transaction.
        store: number of the store.
        key: the name of a column, or `metadata.KEY`.
        where: restricts the items.
        prefix: of the values, which are texts then.
        limit: maximum number of values; None for all.
        offset: number of values to pass over.

    Raises:
        FilterError: no item has such a key.
    """
    condition, values = where
    name, begin = metadata_key(key), stored_text(prefix)
    parameters: list[Any]
    if name is None:
        query = _OF_COLUMN.format(column=key, where=condition)
        parameters = [store, *values, begin, limit, offset]
    else:
        query = _OF_METADATA.format(where=condition)
        parameters = [stored_text(name), store, *values, begin, begin, limit, offset]
    found = connection.execute(composed(query), parameters).fetchall()
    return [(read_text(value) or "") if isinstance(value, str) else value for (value,) in found]
