"""Filters in the dialect of PostgreSQL."""

from __future__ import annotations

import math
from collections.abc import Mapping
from decimal import Decimal
from typing import Final

from devmem.collections.filter_sql import SQL_OPERATORS, FilterDialect, Sql
from devmem.collections.postgres.rows import json_scalar
from devmem.collections.postgres.texts import stored_text
from devmem.search.conditions import Condition, Operator, Scalar, comparable_number
from devmem.search.filters import SEQUENCE_KEY, Filter, Order

EVENT_TIME: Final = "COALESCE(event_time, created_at)"
_SEQUENCE: Final = (
    f"CASE WHEN jsonb_typeof(metadata -> '{SEQUENCE_KEY}') = 'number' THEN (metadata ->> '{SEQUENCE_KEY}')::numeric END"
)
_ORDERS: Final = {Order.STORED: ("items.row",), Order.EVENT: (EVENT_TIME, _SEQUENCE, "items.row")}


def where_sql(where: Filter, now: float) -> Sql:
    """Return the condition of a filter; expired items never match. `now` is in seconds since the epoch."""
    return _DIALECT.where(where, now)


def metadata_sql(metadata: Mapping[str, Scalar | Condition]) -> Sql:
    """Return the condition that an item's metadata match at their top level."""
    return _DIALECT.metadata(metadata)


def order_sql(order: Order, *, newest_first: bool = False) -> str:
    """Return the `ORDER BY` terms of an order; what has no sequence comes first in it."""
    direction = "DESC NULLS LAST" if newest_first else "NULLS FIRST"
    return ", ".join(f"{term} {direction}" for term in _ORDERS[order])


class _PostgresDialect(FilterDialect):
    mark, true, event_time = "%s", "true", EVENT_TIME

    def column(self, name: str) -> str:
        return f'"{name}"'

    def text(self, value: str) -> str | None:
        return stored_text(value)

    def column_condition(self, column: str, wanted: Condition) -> Sql:
        values: list[object] = [stored_text(str(value)) for value in wanted.values]
        match wanted.operator:
            case Operator.ONE_OF:
                return f"{column} = ANY(%s)", [values]
            case Operator.DIFFERS_FROM:
                return f"{column} IS DISTINCT FROM %s", values
            case Operator.STARTS_WITH:
                return f"starts_with({column}, %s)", values
            case operator:
                return f"{column} {SQL_OPERATORS[operator]} %s", values

    def metadata_condition(self, key: str, wanted: Condition) -> Sql:
        name = stored_text(key)
        match wanted.operator:
            case Operator.ONE_OF:
                return "metadata -> %s::text = ANY(%s::jsonb[])", [name, [json_scalar(each) for each in wanted.values]]
            case Operator.DIFFERS_FROM:
                return "metadata -> %s::text IS DISTINCT FROM %s::jsonb", [name, json_scalar(wanted.values[0])]
            case operator:
                return _ordered_sql(name, operator, wanted.values[0])


_DIALECT: Final = _PostgresDialect()


def _ordered_sql(name: str | None, operator: Operator, bound: Scalar) -> Sql:
    """Return the condition that a value is of the bound's type, and above it, below it or begins with it."""
    value: object
    if isinstance(bound, str):
        kind, value = "string", stored_text(bound)
        compared = (
            "starts_with(metadata ->> %s::text, %s)"
            if operator is Operator.STARTS_WITH
            else f'(metadata ->> %s::text) COLLATE "C" {SQL_OPERATORS[operator]} %s'
        )
    else:
        kind, value = "number", json_number(bound)
        compared = f"(metadata ->> %s::text)::numeric {SQL_OPERATORS[operator]} %s::numeric"
    # A CASE, so that nothing else is taken for a number.
    condition = f"CASE WHEN jsonb_typeof(metadata -> %s::text) = '{kind}' THEN {compared} ELSE false END"
    return condition, [name, name, value]


def json_number(value: float) -> Decimal:
    """Return a number as a decimal, as `json_scalar` writes it."""
    return Decimal("Infinity").copy_sign(Decimal(1 if value > 0 else -1)) if math.isinf(value) else _finite(value)


def _finite(value: float) -> Decimal:
    return Decimal(json_scalar(comparable_number(value)))
