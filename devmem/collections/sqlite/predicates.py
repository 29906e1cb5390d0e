"""Filters as SQL conditions on the table `items`; `Filter.admits` is what they have to agree with."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Final, TypeAlias

from devmem.collections.sqlite.rows import sql_text
from devmem.collections.sqlite.table_indexes import EVENT_TIME, metadata_type, metadata_value, of_body
from devmem.search.conditions import Condition, Operator, Scalar, after_prefix, comparable_number
from devmem.search.filters import SCOPE_PARTS, SEQUENCE_KEY, Filter, Order

Sql: TypeAlias = tuple[str, list[object]]
"""A condition and its parameters."""

_SEQUENCE: Final = (
    f"CASE WHEN {metadata_type(SEQUENCE_KEY)} IN ('integer', 'real') THEN {metadata_value(SEQUENCE_KEY)} END"
)
_ORDERS: Final = {Order.STORED: ("items.row",), Order.EVENT: (EVENT_TIME, _SEQUENCE, "items.row")}
TEXT_MARK: Final = "+CAST(? AS TEXT)"
"""A parameter that holds the bytes of a text. The plus sign takes away the affinity, with which a comparison would not
use the index on an expression."""
_SQL_OPERATORS: Final = {Operator.ABOVE: ">", Operator.AT_LEAST: ">=", Operator.BELOW: "<", Operator.AT_MOST: "<="}
_TYPES: Final = {str: "('text')", bool: "('true', 'false')", float: "('integer', 'real')"}
"""SQLite's names of the JSON types that a value may have: true is not a number there."""


def where_sql(where: Filter, now: float, indexed: Collection[str] = ()) -> Sql:
    """Return the condition of a filter; expired items never match.

    Args:
        where: the filter.
        now: seconds since the epoch.
        indexed: metadata keys that have an index.
    """
    return _joined(" AND ", [("(expires_at IS NULL OR expires_at > ?)", [now]), *_conditions(where, indexed)])


def metadata_sql(metadata: Mapping[str, Scalar | Condition], indexed: Collection[str] = ()) -> Sql:
    """Return the condition that an item's metadata match at their top level; see `where_sql`."""
    return _joined(" AND ", [_metadata_sql(key, wanted, indexed) for key, wanted in metadata.items()])


def order_sql(order: Order, *, newest_first: bool = False) -> str:
    """Return the `ORDER BY` terms of an order."""
    return ", ".join(f"{term} DESC" if newest_first else term for term in _ORDERS[order])


def _joined(operator: str, parts: Sequence[Sql]) -> Sql:
    return operator.join(part for part, _ in parts), [value for _, values in parts for value in values]


def _conditions(where: Filter, indexed: Collection[str]) -> Iterator[Sql]:
    yield from _scope_sql(where)
    for column, wanted in (("source_kind", where.source_kind), ("source_name", where.source_name)):
        if wanted is not None:
            yield _column_sql(column, wanted)
    if where.after is not None:
        yield f"{EVENT_TIME} >= ?", [where.after]
    if where.before is not None:
        yield f"{EVENT_TIME} < ?", [where.before]
    if where.min_trust:
        yield "trust >= ?", [where.min_trust]
    for key, value in where.metadata.items():
        yield _metadata_sql(key, value, indexed)
    if where.any_of:
        parts = [_joined(" AND ", [("1", []), *_conditions(part, indexed)]) for part in where.any_of]
        condition, values = _joined(" OR ", [(f"({part})", found) for part, found in parts])
        yield f"({condition})", values


def _scope_sql(where: Filter) -> Iterator[Sql]:
    for part in SCOPE_PARTS:
        if (value := getattr(where.scope, part)) is not None:
            unbound = f" OR {part} IS NULL" if where.or_unbound else ""
            yield f"({part} = ?{unbound})", [sql_text(value)]
        if part in where.unbound:
            yield f"{part} IS NULL", []
        if part in where.scope_in:
            yield _column_sql(part, where.scope_in[part])


def _column_sql(column: str, wanted: str | Condition) -> Sql:
    """Return the condition on a text column."""
    if not isinstance(wanted, Condition):
        return f"{column} = ?", [sql_text(wanted)]
    values: list[object] = [sql_text(str(value)) for value in wanted.values]
    match wanted.operator:
        case Operator.ONE_OF:
            return f"{column} IN ({_marks(values)})", values
        case Operator.DIFFERS_FROM:
            return f"{column} IS NOT ?", values
        case Operator.STARTS_WITH:
            end = after_prefix(str(wanted.values[0]))
            return (f"{column} >= ?", values) if end is None else (f"({column} >= ? AND {column} < ?)", [*values, end])
        case operator:
            return f"{column} {_SQL_OPERATORS[operator]} ?", values


def _metadata_sql(key: str, wanted: Scalar | Condition, indexed: Collection[str]) -> Sql:
    condition = wanted if isinstance(wanted, Condition) else Condition(Operator.ONE_OF, (wanted,))
    differs = condition.operator is Operator.DIFFERS_FROM
    if differs:
        condition = Condition(Operator.ONE_OF, condition.values)
    if key in indexed:
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
    condition_sql, values = _joined(" OR ", parts or [("0", [])])
    return f"({condition_sql})", values


def _comparison(value: str, mark: str, operator: Operator, wanted: Sequence[Scalar]) -> Sql:
    values: list[object] = [_comparable(each) for each in wanted]
    if operator is Operator.ONE_OF:
        return f"{value} IN ({', '.join([mark] * len(values))})", values
    if operator is not Operator.STARTS_WITH:
        return f"{value} {_SQL_OPERATORS[operator]} {mark}", values
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


def _marks(values: Sequence[object]) -> str:
    return ", ".join("?" * len(values))


def _comparable(value: Scalar) -> bytes | float:
    """Return the value as SQLite reads it from JSON."""
    return json_text(value) if isinstance(value, str) else comparable_number(value)


def json_text(text: str) -> bytes:
    """Return the bytes of a text as SQLite reads it from JSON, where a lone surrogate has some."""
    return text.encode("utf-8", "surrogatepass")
