"""Filters in the dialect of SQLite."""

from __future__ import annotations

import json
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Final

from devmem.model.conditions import Condition, Operator, Scalar, after_prefix, comparable_number, micros_of
from devmem.storage.sql import SQL_OPERATORS, Dialect, Sql, joined
from devmem.storage.sqlite.schema import SEQUENCE, metadata_type, metadata_value

_MOST_MARKS: Final = 100
"""Number of values up to which each has a mark."""
TEXT_MARK: Final = "+?"
"""A parameter without affinity, with which a comparison would not use the index on an expression."""
_TYPES: Final = {str: "('text')", bool: "('true', 'false')", float: "('integer', 'real')"}
"""SQLite's names of the JSON types that a value may have: true is not a number there."""


class SqliteDialect(Dialect):
    """Filters on the items of a connection."""

    body, position = "CAST(body AS BLOB)", "instr"
    sequence = SEQUENCE
    last_change = "SELECT number FROM changes ORDER BY number DESC LIMIT 1"

    def __init__(self, indexed: Collection[str] = ()) -> None:
        """Take the metadata keys that have an index."""
        self.indexed = indexed

    def literal(self, text: str) -> str:
        """Return a text as an expression without a parameter."""
        return "'" + text.replace("'", "''") + "'"

    def among(self, column: str, values: Sequence[object]) -> Sql:
        """Return the condition that a column has one of some values."""
        if len(values) > _MOST_MARKS:
            return f"{column} IN (SELECT value FROM json_each(?))", [json.dumps(list(values))]
        return f"{column} IN ({', '.join('?' * len(values))})", list(values)

    def starts_with(self, column: str, prefix: str) -> Sql:
        """Return the condition that a text column begins with a text, for which an index is used."""
        end = after_prefix(prefix)
        if end is None:
            return f"{column} >= ?", [prefix]
        return f"({column} >= ? AND {column} < ?)", [prefix, end]

    def metadata_condition(self, key: str, wanted: Condition) -> Sql:
        """Return the condition on a key of the metadata, by its index where it has one."""
        negation, condition = "NOT " if wanted.is_negative else "", wanted.positive
        if key in self.indexed and "." not in key:
            value = metadata_value(key)
            predicate, values = _json_sql(_JsonValue(metadata_type(key), value, value), condition)
            return (f"({predicate}) IS NOT TRUE" if negation else predicate), values
        predicate, values = _json_sql(_ENTRY, condition)
        there = f"EXISTS (SELECT 1 FROM {_entry()} AND "
        found, parameters = f"{there}{predicate})", [key, *values]
        if "." in key:
            steps = key.split(".")
            nested = f"EXISTS (SELECT 1 FROM {_entry(len(steps))} AND {predicate})"
            found = f"({found} OR (NOT {there}1) AND {nested}))"
            parameters += [key, *steps, *values]
        return f"{negation}{found}", parameters


@dataclass(frozen=True, slots=True)
class _JsonValue:
    """Expressions of the type of a JSON value, of a scalar's value, and of any value's JSON form or value."""

    kind: str
    atom: str
    value: str


_ENTRY: Final = _JsonValue("entry.type", "entry.atom", "entry.value")
_ELEMENT: Final = _JsonValue("element.type", "element.atom", "element.value")


def _entry(levels: int = 1) -> str:
    """Return the source of a statement that finds an entry of the metadata by its keys, from the top down, as `entry`.

    A path such as $.metadata."key" cannot name every key: SQLite takes no escapes in it.
    """
    names = [*(f"level_{at}" for at in range(1, levels)), "entry"]
    inner = [f"json_each(CASE {name}.type WHEN 'object' THEN {name}.value ELSE '{{}}' END)" for name in names[:-1]]
    steps = zip(["json_each(body, '$.metadata')", *inner], names, strict=True)
    sources = ", ".join(f"{each} AS {name}" for each, name in steps)
    return f"{sources} WHERE {' AND '.join(f'{name}.key = ?' for name in names)}"


def _json_sql(json: _JsonValue, condition: Condition) -> Sql:
    """Return the condition on a JSON value, which is none that `Condition.is_negative` tells."""
    match condition.operator:
        case Operator.EXISTS:
            return f"{json.kind} <> 'null'", []
        case Operator.CONTAINS:
            equal, values = _json_sql(_ELEMENT, Condition(Operator.ONE_OF, condition.values))
            elements = f"json_each(CASE {json.kind} WHEN 'array' THEN {json.value} ELSE '[]' END) AS element"
            return f"EXISTS (SELECT 1 FROM {elements} WHERE {equal})", values
        case Operator.CONTAINS_TEXT:
            return f"({json.kind} = 'text' AND instr({json.atom}, ?) > 0)", [str(condition.values[0])]
        case Operator.AFTER | Operator.BEFORE:
            sign = ">=" if condition.operator is Operator.AFTER else "<"
            # `micros` is `micros_of`, defined in each connection.
            return f"micros(CASE {json.kind} WHEN 'text' THEN {json.atom} END) {sign} ?", [
                micros_of(condition.values[0])
            ]
        case _:
            return _compared(json, condition)


def _compared(json: _JsonValue, condition: Condition) -> Sql:
    parts = []
    for wanted_type, wanted in _by_type(condition.values).items():
        mark = TEXT_MARK if wanted_type is str else "?"
        compared, values = _comparison(json.atom, mark, condition.operator, wanted)
        parts.append((f"({json.kind} IN {_TYPES[wanted_type]} AND {compared})", values))
    condition_sql, values = joined(" OR ", parts or [("0", [])])
    return f"({condition_sql})", values


def _comparison(value: str, mark: str, operator: Operator, wanted: Sequence[Scalar]) -> Sql:
    values: list[object] = [each if isinstance(each, str) else comparable_number(each) for each in wanted]
    if operator is Operator.ONE_OF:
        return f"{value} IN ({', '.join([mark] * len(values))})", values
    if operator is not Operator.STARTS_WITH:
        return f"{value} {SQL_OPERATORS[operator]} {mark}", values
    end = after_prefix(str(wanted[0]))
    if end is None:
        return f"{value} >= {mark}", values
    return f"{value} >= {mark} AND {value} < {mark}", [*values, end]


def _by_type(values: Sequence[Scalar]) -> dict[type, list[Scalar]]:
    found: dict[type, list[Scalar]] = {}
    for value in values:
        kind = str if isinstance(value, str) else bool if isinstance(value, bool) else float
        found.setdefault(kind, []).append(value)
    return found
