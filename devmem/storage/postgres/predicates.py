"""Filters in the dialect of PostgreSQL."""

from __future__ import annotations

import re
from collections.abc import Sequence
from decimal import Decimal
from typing import Final

from devmem.model.conditions import TIME_PATTERN, Condition, Operator, Scalar
from devmem.model.filters import SEQUENCE_KEY
from devmem.storage.postgres.rows import json_scalar
from devmem.storage.sql import SQL_OPERATORS, Dialect, Sql


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
        self.tail, self.last_change = ", tenant", f"SELECT changes FROM stores WHERE {self.of}"

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
        kind, values = "number", [*parameters, Decimal(json_scalar(bound))]
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
