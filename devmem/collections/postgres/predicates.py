"""Filters as SQL conditions on the table `items`; `Filter.admits` is what they have to agree with."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from decimal import Decimal
from typing import Final, TypeAlias

from devmem.collections.postgres.rows import json_scalar
from devmem.collections.postgres.texts import stored_text
from devmem.search.conditions import Condition, Operator, Scalar, comparable_number
from devmem.search.filters import SCOPE_PARTS, SEQUENCE_KEY, Filter, Order

Sql: TypeAlias = tuple[str, list[object]]
"""A condition and its parameters."""

EVENT_TIME: Final = "COALESCE(event_time, created_at)"
_SEQUENCE: Final = (
    f"CASE WHEN jsonb_typeof(metadata -> '{SEQUENCE_KEY}') = 'number' THEN (metadata ->> '{SEQUENCE_KEY}')::numeric END"
)
_ORDERS: Final = {Order.STORED: ("items.row",), Order.EVENT: (EVENT_TIME, _SEQUENCE, "items.row")}
_SQL_OPERATORS: Final = {Operator.ABOVE: ">", Operator.AT_LEAST: ">=", Operator.BELOW: "<", Operator.AT_MOST: "<="}


def where_sql(where: Filter, now: float) -> Sql:
    """Return the condition of a filter; expired items never match. `now` is in seconds since the epoch."""
    return _joined(" AND ", [("(expires_at IS NULL OR expires_at > %s)", [now]), *_conditions(where)])


def metadata_sql(metadata: Mapping[str, Scalar | Condition]) -> Sql:
    """Return the condition that an item's metadata match at their top level."""
    return _joined(" AND ", [_metadata_sql(key, wanted) for key, wanted in metadata.items()])


def order_sql(order: Order, *, newest_first: bool = False) -> str:
    """Return the `ORDER BY` terms of an order; what has no sequence comes first in it."""
    direction = "DESC NULLS LAST" if newest_first else "NULLS FIRST"
    return ", ".join(f"{term} {direction}" for term in _ORDERS[order])


def _joined(operator: str, parts: Sequence[Sql]) -> Sql:
    return operator.join(part for part, _ in parts), [value for _, values in parts for value in values]


def _conditions(where: Filter) -> Iterator[Sql]:
    yield from _scope_sql(where)
    for column, wanted in (("source_kind", where.source_kind), ("source_name", where.source_name)):
        if wanted is not None:
            yield _column_sql(column, wanted)
    if where.after is not None:
        yield f"{EVENT_TIME} >= %s", [where.after]
    if where.before is not None:
        yield f"{EVENT_TIME} < %s", [where.before]
    if where.min_trust:
        yield "trust >= %s", [where.min_trust]
    for key, value in where.metadata.items():
        yield _metadata_sql(key, value)
    if where.any_of:
        parts = [_joined(" AND ", [("true", []), *_conditions(part)]) for part in where.any_of]
        condition, values = _joined(" OR ", [(f"({part})", found) for part, found in parts])
        yield f"({condition})", values


def _scope_sql(where: Filter) -> Iterator[Sql]:
    for part in SCOPE_PARTS:
        column = f'"{part}"'
        if (value := getattr(where.scope, part)) is not None:
            unbound = f" OR {column} IS NULL" if where.or_unbound else ""
            yield f"({column} = %s{unbound})", [stored_text(value)]
        if part in where.unbound:
            yield f"{column} IS NULL", []
        if part in where.scope_in:
            yield _column_sql(column, where.scope_in[part])


def _column_sql(column: str, wanted: str | Condition) -> Sql:
    """Return the condition on a text column."""
    if not isinstance(wanted, Condition):
        return f"{column} = %s", [stored_text(wanted)]
    values: list[object] = [stored_text(str(value)) for value in wanted.values]
    match wanted.operator:
        case Operator.ONE_OF:
            return f"{column} = ANY(%s)", [values]
        case Operator.DIFFERS_FROM:
            return f"{column} IS DISTINCT FROM %s", values
        case Operator.STARTS_WITH:
            return f"starts_with({column}, %s)", values
        case operator:
            return f"{column} {_SQL_OPERATORS[operator]} %s", values


def _metadata_sql(key: str, wanted: Scalar | Condition) -> Sql:
    condition = wanted if isinstance(wanted, Condition) else Condition(Operator.ONE_OF, (wanted,))
    name = stored_text(key)
    match condition.operator:
        case Operator.ONE_OF:
            return "metadata -> %s::text = ANY(%s::jsonb[])", [name, [json_scalar(each) for each in condition.values]]
        case Operator.DIFFERS_FROM:
            return "metadata -> %s::text IS DISTINCT FROM %s::jsonb", [name, json_scalar(condition.values[0])]
        case operator:
            return _ordered_sql(name, operator, condition.values[0])


def _ordered_sql(name: str | None, operator: Operator, bound: Scalar) -> Sql:
    """Return the condition that a value is of the bound's type, and above it, below it or begins with it."""
    value: object
    if isinstance(bound, str):
        kind, value = "string", stored_text(bound)
        compared = (
            "starts_with(metadata ->> %s::text, %s)"
            if operator is Operator.STARTS_WITH
            else f'(metadata ->> %s::text) COLLATE "C" {_SQL_OPERATORS[operator]} %s'
        )
    else:
        kind, value = "number", json_number(bound)
        compared = f"(metadata ->> %s::text)::numeric {_SQL_OPERATORS[operator]} %s::numeric"
    # A CASE, so that nothing else is taken for a number.
    condition = f"CASE WHEN jsonb_typeof(metadata -> %s::text) = '{kind}' THEN {compared} ELSE false END"
    return condition, [name, name, value]


def json_number(value: float) -> Decimal:
    """Return a number as a decimal, as `json_scalar` writes it."""
    return Decimal("Infinity").copy_sign(Decimal(1 if value > 0 else -1)) if math.isinf(value) else _finite(value)


def _finite(value: float) -> Decimal:
    return Decimal(json_scalar(comparable_number(value)))
