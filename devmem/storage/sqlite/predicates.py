"""Filters in the dialect of SQLite."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Final

from devmem.model.versions import Operation
from devmem.search.conditions import Condition, Operator, Scalar, after_prefix, comparable_number
from devmem.search.query import SEQUENCE_KEY, Filter, Order
from devmem.storage.runs import MICROSECONDS
from devmem.storage.sql import SQL_OPERATORS, FilterDialect, Sql, joined
from devmem.storage.sqlite.rows import sql_text
from devmem.storage.sqlite.schema import EVENT_TIME, metadata_type, metadata_value, of_body

_SEQUENCE: Final = (
    f"CASE WHEN {metadata_type(SEQUENCE_KEY)} IN ('integer', 'real') THEN {metadata_value(SEQUENCE_KEY)} END"
)
_ORDERS: Final = {Order.STORED: ("items.row",), Order.EVENT: (EVENT_TIME, _SEQUENCE, "items.row")}
TEXT_MARK: Final = "+CAST(? AS TEXT)"
"""A parameter that holds the bytes of a text. The plus sign takes away the affinity, with which a comparison would not
use the index on an expression."""
_TYPES: Final = {str: "('text')", bool: "('true', 'false')", float: "('integer', 'real')"}
"""SQLite's names of the JSON types that a value may have: true is not a number there."""


def where_sql(where: Filter, now: float, indexed: Collection[str] = ()) -> Sql:
    """Return the condition of a filter; expired items never match.

    Args:
        where: the filter.
        now: seconds since the epoch.
        indexed: metadata keys that have an index.
    """
    return _SqliteDialect(indexed).where(where, now)


def metadata_sql(metadata: Mapping[str, Scalar | Condition], indexed: Collection[str] = ()) -> Sql:
    """Return the condition that an item's metadata match at their top level; see `where_sql`."""
    return _SqliteDialect(indexed).metadata(metadata)


def order_sql(order: Order, *, newest_first: bool = False) -> str:
    """Return the `ORDER BY` terms of an order."""
    return ", ".join(f"{term} DESC" if newest_first else term for term in _ORDERS[order])


class _SqliteDialect(FilterDialect):
    mark, true, event_time = "?", "1", EVENT_TIME

    def __init__(self, indexed: Collection[str]) -> None:
        self._indexed = indexed

    def column(self, name: str) -> str:
        return name

    def text(self, value: str) -> str | None:
        return sql_text(value)

    def column_condition(self, column: str, wanted: Condition) -> Sql:
        values: list[object] = [sql_text(str(value)) for value in wanted.values]
        match wanted.operator:
            case Operator.ONE_OF:
                return f"{column} IN ({', '.join('?' * len(values))})", values
            case Operator.DIFFERS_FROM:
                return f"{column} IS NOT ?", values
            case Operator.STARTS_WITH:
                end = after_prefix(str(wanted.values[0]))
                if end is None:
                    return f"{column} >= ?", values
                return f"({column} >= ? AND {column} < ?)", [*values, end]
            case operator:
                return f"{column} {SQL_OPERATORS[operator]} ?", values

    def metadata_condition(self, key: str, wanted: Condition) -> Sql:
        differs = wanted.operator is Operator.DIFFERS_FROM
        condition = Condition(Operator.ONE_OF, wanted.values) if differs else wanted
        if key in self._indexed:
            predicate, values = _json_sql(metadata_type(key), metadata_value(key), condition)
            return (f"items.row NOT IN (SELECT row FROM items WHERE {predicate})" if differs else predicate), values
        predicate, values = _json_sql("entry.type", "entry.atom", condition)
        # A path such as $.metadata."key" cannot name every key: SQLite takes no escapes in it.
        found = (
            f"{'NOT ' if differs else ''}EXISTS (SELECT 1 FROM json_each(body, '$.metadata') AS entry "
            f"WHERE entry.key = CAST(? AS TEXT) AND {predicate})"
        )
        return of_body(found), [json_text(key), *values]


def _json_sql(kind: str, value: str, condition: Condition) -> Sql:
    """Return the condition on a JSON value, of which `kind` and `value` are the expressions of type and value."""
    parts = []
    for wanted_type, wanted in _by_type(condition.values).items():
        mark = TEXT_MARK if wanted_type is str else "?"
        compared, values = _comparison(value, mark, condition.operator, wanted)
        parts.append((f"({kind} IN {_TYPES[wanted_type]} AND {compared})", values))
    condition_sql, values = joined(" OR ", parts or [("0", [])])
    return f"({condition_sql})", values


def _comparison(value: str, mark: str, operator: Operator, wanted: Sequence[Scalar]) -> Sql:
    values: list[object] = [_comparable(each) for each in wanted]
    if operator is Operator.ONE_OF:
        return f"{value} IN ({', '.join([mark] * len(values))})", values
    if operator is not Operator.STARTS_WITH:
        return f"{value} {SQL_OPERATORS[operator]} {mark}", values
    end = after_prefix(str(wanted[0]))
    if end is None:
        return f"{value} >= {mark}", values
    return f"{value} >= {mark} AND {value} < {mark}", [*values, _comparable(end)]


def _by_type(values: Sequence[Scalar]) -> dict[type, list[Scalar]]:
    found: dict[type, list[Scalar]] = {}
    for value in values:
        kind = str if isinstance(value, str) else bool if isinstance(value, bool) else float
        found.setdefault(kind, []).append(value)
    return found


def _comparable(value: Scalar) -> bytes | float:
    """Return the value as SQLite reads it from JSON."""
    return json_text(value) if isinstance(value, str) else comparable_number(value)


def json_text(text: str) -> bytes:
    """Return the bytes of a text as SQLite reads it from JSON, where a lone surrogate has some."""
    return text.encode("utf-8", "surrogatepass")


RECORDED_FROM: Final = f"COALESCE(recorded_from, CAST(created_at * {MICROSECONDS} AS INTEGER))"
"""Items of a file of format 3 have no recorded time; when they were made is the best that is known."""
BEGAN: Final = (f"COALESCE(operation, '{Operation.ADD.value}')", "change_run", RECORDED_FROM, "change_actor")
CHANGE: Final = ", ".join(BEGAN)
