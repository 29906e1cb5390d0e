"""Filters in the dialect of PostgreSQL."""

from __future__ import annotations

import re
from collections.abc import Sequence
from decimal import Decimal
from typing import Any, Final

from devmem.model.conditions import TIME_PATTERN, Condition, Operator, Scalar
from devmem.model.filters import SEQUENCE_KEY, metadata_key
from devmem.storage.postgres.database import Connection, composed
from devmem.storage.postgres.rows import json_scalar
from devmem.storage.postgres.schema import STORE_TABLES, dropped
from devmem.storage.protocol import CollectionInfo
from devmem.storage.sql import SQL_OPERATORS, Dialect, Sql
from devmem.storage.tables import State


class PostgresDialect(Dialect):
    """Statements on one store of a database."""

    body, position = "body", "strpos"
    sequence = (
        f"CASE WHEN jsonb_typeof(metadata -> '{SEQUENCE_KEY}') = 'number' "
        f"THEN (metadata ->> '{SEQUENCE_KEY}')::numeric END"
    )

    def __init__(self, store: int) -> None:
        """Take the number of the store."""
        self.of, self.into, self.own = f"store = {store:d}", "store, ", f"{store:d}, "
        self.tail = ", tenant"

    def literal(self, text: str) -> str:
        """Return a text as an expression without a parameter, nor a mark of one."""
        return f"convert_from('\\x{text.encode().hex()}', 'UTF8')"

    def among(self, column: str, values: Sequence[object]) -> Sql:
        """Return the condition that a column has one of some values."""
        return f"{column} = ANY(?)", [list(values)]

    def starts_with(self, column: str, prefix: str) -> Sql:
        """Return the condition that a text column begins with a text."""
        return f"starts_with({column}, ?)", [prefix]

    def metadata_condition(self, key: str, wanted: Condition) -> Sql:
        """Return the condition on a key of the metadata."""
        condition, values = _json_sql(_metadata_value(key), wanted.positive)
        return (f"({condition}) IS NOT TRUE" if wanted.is_negative else condition), values


def _metadata_value(key: str) -> Sql:
    """Return the expression of a value of the metadata, see `value_at`; NULL where there is none."""
    found: Sql = ("metadata -> ?::text", [key])
    if "." not in key:
        return found
    steps = key.split(".")
    # An operator for each: a list has no key of a text, but a path would take one for a position.
    nested = "metadata" + " -> ?::text" * len(steps)
    return f"COALESCE({found[0]}, {nested})", [*found[1], *steps]


def _json_sql(value: Sql, wanted: Condition) -> Sql:
    """Return the condition on a JSON value, which is none that `Condition.is_negative` tells."""
    found, parameters = value
    match wanted.operator:
        case Operator.ONE_OF:
            return f"{found} = ANY(?::jsonb[])", [*parameters, [json_scalar(each) for each in wanted.values]]
        case Operator.EXISTS:
            return f"{found} <> 'null'::jsonb", parameters
        case Operator.CONTAINS:
            return f"({found}) @> ANY(?::jsonb[])", [*parameters, [f"[{json_scalar(each)}]" for each in wanted.values]]
        case operator:
            return _of_type(value, operator, wanted.values[0])


def _of_type(value: Sql, operator: Operator, bound: Scalar) -> Sql:
    """Return the condition that a value is of the bound's type, and above it, below it or has it as a part."""
    found, parameters = value
    text = f"({found} #>> ARRAY[]::text[])"
    values: list[object]
    if operator in _TIME_SIGNS:
        kind, values = "string", [*parameters, _TIME, *3 * parameters, _zoned(str(bound))]
        zoned = f"{text} || CASE WHEN length({text}) = 10 THEN 'T00:00Z' WHEN {text} ~ ':.*[-+Z]' THEN '' ELSE 'Z' END"
        compared = f"CASE WHEN {text} ~ ? THEN ({zoned})::timestamptz {_TIME_SIGNS[operator]} ?::timestamptz END"
    elif isinstance(bound, str):
        kind, values = "string", [*parameters, bound]
        compared = _TEXT_FUNCTIONS.get(operator, '{} COLLATE "C" {} ?').format(text, SQL_OPERATORS.get(operator))
    else:
        kind, values = "number", [*parameters, json_number(bound)]
        compared = f"{text}::numeric {SQL_OPERATORS[operator]} ?::numeric"
    # A CASE, so that nothing else is taken for a number, or a time.
    return f"CASE WHEN jsonb_typeof({found}) = '{kind}' THEN {compared} ELSE false END", [*parameters, *values]


_TEXT_FUNCTIONS: Final = {Operator.STARTS_WITH: "starts_with({}, ?)", Operator.CONTAINS_TEXT: "strpos({}, ?) > 0"}
_TIME_SIGNS: Final = {Operator.AFTER: ">=", Operator.BEFORE: "<"}
_DAYS: Final = "((0[13578]|1[02])-(0[1-9]|[12][0-9]|3[01])|(0[469]|11)-(0[1-9]|[12][0-9]|30)|02-(0[1-9]|1[0-9]|2[0-8]))"
_LEAP: Final = "([0-9][0-9](0[48]|[2468][048]|[13579][26])|([02468][048]|[13579][26])00)-02-29"
_TIME: Final = f"^(?!0000)(?=[0-9]{{4}}-{_DAYS}|{_LEAP}){TIME_PATTERN}$"
"""Texts that are times: a cast of any other is an error of the statement."""


def _zoned(time: str) -> str:
    """Return a time with its zone; one without a zone is in UTC, see `micros_of`."""
    if ":" not in time:
        return f"{time}T00:00Z"
    return time if re.search("[-+Z]", time[len("2026-06-02") :]) else f"{time}Z"


def json_number(value: float) -> Decimal:
    """Return a number as a decimal, as `json_scalar` writes it."""
    return Decimal(json_scalar(value))


_OF_COLUMN: Final = """
SELECT DISTINCT "{column}" AS value FROM items
WHERE {where} AND "{column}" IS NOT NULL AND starts_with("{column}", ?)
ORDER BY value LIMIT ? OFFSET ?
"""
_OF_METADATA: Final = """
SELECT value FROM (SELECT DISTINCT metadata -> ?::text AS value FROM items WHERE {where}) AS found
WHERE jsonb_typeof(value) IN ('boolean', 'number', 'string')
    AND (? = '' OR jsonb_typeof(value) = 'string' AND starts_with(value #>> '{{}}', ?))
ORDER BY array_position(ARRAY['boolean', 'number', 'string'], jsonb_typeof(value)),
    CASE WHEN jsonb_typeof(value) = 'number' THEN value::numeric END,
    (value #>> '{{}}') COLLATE "C"
LIMIT ? OFFSET ?
"""


def distinct_values(
    connection: Connection, key: str, where: Sql, *, prefix: str, limit: int | None, offset: int
) -> list[Scalar]:
    """Return the distinct values of a key; see `Collection.values`.

    Args:
        connection: in a read transaction.
        key: the name of a column, or `metadata.KEY`.
        where: restricts the items.
        prefix: of the values, which are texts then.
        limit: maximum number of values; None for all.
        offset: number of values to pass over.

    Raises:
        FilterError: no item has such a key.
    """
    condition, values = where
    name, begin = metadata_key(key), prefix
    parameters: list[Any]
    if name is None:
        query = _OF_COLUMN.format(column=key, where=condition)
        parameters = [*values, begin, limit, offset]
    else:
        query = _OF_METADATA.format(where=condition)
        parameters = [name, *values, begin, begin, limit, offset]
    found = connection.execute(composed(query), parameters).fetchall()
    return [value for (value,) in found]


_OF_EACH_COLUMN: Final = 'SELECT "{column}", count(*) FROM items WHERE {where} GROUP BY 1'
_OF_EACH_VALUE: Final = """
SELECT CASE jsonb_typeof(found) WHEN 'array' THEN element ELSE found END, count(*)
FROM (SELECT metadata -> ?::text AS found FROM items WHERE {where}) AS with_key
LEFT JOIN LATERAL jsonb_array_elements(CASE jsonb_typeof(found) WHEN 'array' THEN found END) AS element ON true
GROUP BY 1
"""


def value_counts(connection: Connection, key: str, where: Sql) -> list[tuple[Scalar | None, int]]:
    """Return the values of a key, which is not a path, with the number of items that have each.

    Args:
        connection: in a read transaction.
        key: the name of a column, or `metadata.KEY`.
        where: restricts the items.

    Raises:
        FilterError: no item has such a key.
    """
    condition, values = where
    name = metadata_key(key)
    if name is None:
        query, parameters = _OF_EACH_COLUMN.format(column=key, where=condition), values
    else:
        query, parameters = _OF_EACH_VALUE.format(where=condition), [name, *values]
    found = connection.execute(composed(query), parameters).fetchall()
    return [(value if isinstance(value, str | int | float) else None, count) for value, count in found]


_COUNTS: Final = """
SELECT model, dimension, (SELECT count(*) FROM items WHERE items.store = stores.store AND {shown}),
    (SELECT count(*) FROM items WHERE items.store = stores.store AND {shown} AND waiting),
    (SELECT count(*) FROM items WHERE items.store = stores.store AND archived)
FROM stores WHERE store = ?
"""
_SIZE: Final = """
SELECT COALESCE(sum(pg_total_relation_size(pg_class.oid)), 0)::bigint,
    COALESCE(max(reltuples) FILTER (WHERE relname = 'items'), -1)
FROM pg_class WHERE relnamespace = current_schema()::regnamespace AND relname = ANY(?) AND relkind = 'r'
"""


def read_info(connection: Connection, location: str, store: int, state: State) -> CollectionInfo:
    """Return what the database reports; the size of a store is its share of all, by the number of items.

    Args:
        connection: in a read transaction.
        location: of the store, without a password.
        store: number of the store.
        state: the items that count.

    Raises:
        CollectionError: the store was dropped.
    """
    found = connection.execute(composed(_COUNTS.format(shown=state.shown)), (store,)).fetchone()
    if found is None:
        raise dropped(location)
    model, dimension, items, waiting, archived = found
    ((size, in_all),) = connection.execute(composed(_SIZE), (list(STORE_TABLES),)).fetchall()
    return CollectionInfo(
        location=location,
        items=items,
        waiting=waiting if model else 0,
        size_bytes=round(int(size) * items / max(in_all, items, 1)),
        embedding=model,
        dimension=dimension,
        archived=archived,
    )
