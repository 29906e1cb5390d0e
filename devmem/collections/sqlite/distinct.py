"""Distinct values of a column or a metadata key."""

from __future__ import annotations

import sqlite3
from collections.abc import Collection
from dataclasses import dataclass
from typing import Final

from devmem.collections.filter_sql import Sql
from devmem.collections.sqlite.predicates import TEXT_MARK, json_text
from devmem.collections.sqlite.table_indexes import metadata_type, metadata_value
from devmem.search.conditions import Scalar, after_prefix
from devmem.search.filters import metadata_key

_INDEXED_COLUMNS: Final = frozenset({"agent", "user", "conversation", "trace"})


@dataclass(frozen=True, slots=True, kw_only=True)
class _Values:
    """Where the values of a key stand."""

    table: str
    value: str
    kind: str
    """Expression of the JSON type."""
    condition: str
    parameters: tuple[object, ...]
    one_by_one: bool
    """Whether an index leads from each value to the next."""


def distinct_values(
    connection: sqlite3.Connection,
    key: str,
    where: Sql | None,
    *,
    indexed: Collection[str],
    prefix: str,
    limit: int | None,
    offset: int,
) -> list[Scalar]:
    """Return the distinct values of a key; see `Collection.values`.

    Args:
        connection: in a read transaction.
        key: the name of a column, or `metadata.KEY`.
        where: restricts the items; None for all: then an index is read value by value, not entry by entry.
        indexed: metadata keys that have an index.
        prefix: of the values, which are texts then.
        limit: maximum number of values; None for all.
        offset: number of values to pass over.

    Raises:
        FilterError: no item has such a key.
    """
    values = _values_of(key, where, indexed)
    others = [] if prefix or values.kind == "'text'" else _flags_and_numbers(connection, values)
    chosen = others[offset:][:limit]
    wanted = None if limit is None else limit - len(chosen)
    texts = _next_texts if values.one_by_one else _texts
    return [*chosen, *texts(connection, values, prefix, wanted, max(offset - len(others), 0))]


def _values_of(key: str, where: Sql | None, indexed: Collection[str]) -> _Values:
    condition, parameters = where or ("1", [])
    name = metadata_key(key)
    if name is None or name in indexed:
        return _Values(
            table="items",
            value=key if name is None else metadata_value(name),
            kind="'text'" if name is None else metadata_type(name),
            condition=condition,
            parameters=tuple(parameters),
            one_by_one=where is None and (name is not None or key in _INDEXED_COLUMNS),
        )
    return _Values(
        table="items, json_each(CASE WHEN json_valid(body) THEN body ELSE '{}' END, '$.metadata') AS entry",
        value="entry.atom",
        kind="entry.type",
        condition=f"{condition} AND entry.key = CAST(? AS TEXT)",
        parameters=(*parameters, json_text(name)),
        one_by_one=False,
    )


def _flags_and_numbers(connection: sqlite3.Connection, values: _Values) -> list[Scalar]:
    # Numbers come before texts in an index.
    query = (
        f"SELECT DISTINCT {values.value}, {values.kind} IN ('true', 'false') FROM {values.table} "
        f"WHERE {values.condition} AND {values.value} < '' AND {values.kind} IN ('true', 'false', 'integer', 'real') "
        "ORDER BY 2 DESC, 1"
    )
    found = connection.execute(query, values.parameters).fetchall()
    return [bool(value) if is_flag else value for value, is_flag in found]


def _texts(
    connection: sqlite3.Connection, values: _Values, prefix: str, limit: int | None, offset: int
) -> list[Scalar]:
    bounds, parameters = _range(values, prefix, ">=")
    query = (
        f"SELECT DISTINCT CAST({values.value} AS BLOB) FROM {values.table} WHERE {values.condition} AND {bounds} "
        f"AND {values.kind} = 'text' ORDER BY 1 LIMIT ? OFFSET ?"
    )
    shown = -1 if limit is None else limit
    found = connection.execute(query, (*values.parameters, *parameters, shown, offset)).fetchall()
    return [_decoded(value) for (value,) in found]


def _next_texts(
    connection: sqlite3.Connection, values: _Values, prefix: str, limit: int | None, offset: int
) -> list[Scalar]:
    found: list[Scalar] = []
    after, comparison = json_text(prefix), ">="
    while limit is None or len(found) < offset + limit:
        bounds, parameters = _range(values, prefix, comparison, after)
        query = (
            f"SELECT CAST({values.value} AS BLOB) FROM items WHERE {bounds} AND {values.kind} = 'text' "
            f"ORDER BY {values.value} LIMIT 1"
        )
        following = connection.execute(query, parameters).fetchone()
        if following is None:
            break
        after, comparison = following[0], ">"
        found.append(_decoded(after))
    return found[offset:]


def _decoded(value: bytes) -> str:
    return value.decode("utf-8", "surrogatepass")


def _range(values: _Values, prefix: str, comparison: str, after: bytes | None = None) -> tuple[str, list[object]]:
    """Return the condition that a value comes after another one, or is it, and begins with a prefix."""
    end = after_prefix(prefix)
    lower = f"{values.value} {comparison} {TEXT_MARK}"
    bounds: list[object] = [json_text(prefix) if after is None else after]
    return (lower, bounds) if end is None else (f"{lower} AND {values.value} < {TEXT_MARK}", [*bounds, json_text(end)])
