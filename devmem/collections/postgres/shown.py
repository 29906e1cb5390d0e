"""Queries of the items of another state than the current one, and the views that show them.

On a connection for such a state, temporary views named as the tables hide these from whatever reads by it: every
query, the follower's included, works on them unchanged. Tables of versions keep their names.
"""

from __future__ import annotations

from typing import Final

from devmem.collections.postgres.rows import CURRENT, ITEM_COLUMNS, KEPT
from devmem.collections.postgres.texts import stored_text
from devmem.collections.recorded import MICROSECONDS
from devmem.model.versions import Operation

COLUMNS: Final = f"store, row, xact, {ITEM_COLUMNS}, operation, change_run"
RECORDED_FROM: Final = f"COALESCE(recorded_from, (LEAST(GREATEST(created_at, -9e12), 9e12) * {MICROSECONDS})::bigint)"
"""Items from before versions were kept have no recorded time; when they were made is the best that is known."""
_BELONGING: Final = (
    (CURRENT.passages, KEPT.passages, "store, passage, term_hashes, term_counts, term_length"),
    (CURRENT.vectors, KEPT.vectors, "store, passage, vector"),
    (CURRENT.tokens, KEPT.tokens, "store, passage, codes"),
)


def schema_sql(schema: str) -> str:
    """Return a schema's name as SQL."""
    return f'"{schema.replace(chr(34), chr(34) * 2)}"'


def text_sql(text: str | None) -> str:
    """Return a text as an SQL expression that needs no parameter."""
    return f"convert_from('\\x{(stored_text(text) or '').encode().hex()}', 'UTF8')"


def current_items(schema: str, store: int) -> str:
    """Return the query of the current items of a store."""
    return f"SELECT {COLUMNS} FROM {schema_sql(schema)}.items WHERE store = {store}"


def items_as_of(schema: str, store: int, at: int) -> str:
    """Return the query of the items at a recorded time."""
    return (
        f"{current_items(schema, store)} AND {RECORDED_FROM} <= {at} "
        f"UNION ALL SELECT {COLUMNS} FROM {schema_sql(schema)}.versions "
        f"WHERE store = {store} AND recorded_from <= {at} AND recorded_until > {at}"
    )


def items_of_run(schema: str, store: int, run: str) -> str:
    """Return the query of the items as a pending run sees them: its own, and those of others that it did not change."""
    versions = f"{schema_sql(schema)}.versions"
    own = f"store = {store} AND change_run = {text_sql(run)} AND recorded_until IS NULL"
    return (
        f"{current_items(schema, store)} AND id_key NOT IN (SELECT id_key FROM {versions} WHERE {own}) "
        f"UNION ALL SELECT {COLUMNS} FROM {versions} WHERE {own} AND operation <> '{Operation.FORGET.value}'"
    )


def show_statements(schema: str, items: str) -> str:
    """Return the statements by which `items` means the rows of a query, on one connection."""
    main = schema_sql(schema)
    views = [f"CREATE TEMP VIEW items AS {items}"]
    for current, kept, columns in _BELONGING:
        both = " UNION ALL ".join(f"SELECT {columns} FROM {main}.{table}" for table in (current, kept))
        views.append(f"CREATE TEMP VIEW {current} AS {both}")
    return "; ".join(views)
