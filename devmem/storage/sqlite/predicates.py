"""Filters in the dialect of SQLite."""

from __future__ import annotations

import sqlite3
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any, Final

from devmem.model.versions import Change, ItemVersion, Operation
from devmem.search.conditions import Condition, Operator, Scalar, after_prefix, comparable_number
from devmem.search.query import SEQUENCE_KEY, Filter, Order
from devmem.storage.runs import MICROSECONDS, author_of, seconds
from devmem.storage.sql import SQL_OPERATORS, FilterDialect, Sql, joined
from devmem.storage.sqlite import rows
from devmem.storage.sqlite.rows import CHANGE_CHECKSUMS, DamagedRows, sql_text
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
_READ: Final = (
    "SELECT change_checksum IS NULL OR change_checksum IS {checksum}, '{table}', "
    f"row, CAST(body AS BLOB), body_checksum, {CHANGE}"
)
_HISTORY: Final = (
    f"{_READ.format(table='versions', checksum=CHANGE_CHECKSUMS['versions'])}, recorded_until, end_operation, end_run, "
    "end_actor FROM versions WHERE id = ?1 AND recorded_until IS NOT NULL UNION ALL "
    f"{_READ.format(table='items', checksum=CHANGE_CHECKSUMS['items'])}, NULL, NULL, NULL, NULL "
    "FROM items WHERE id = ?1 ORDER BY 8, row"
)


def read_history(connection: sqlite3.Connection, item_id: str, damaged: DamagedRows) -> list[ItemVersion]:
    """Return the committed versions of an item, oldest first; damaged ones are left out."""
    found = connection.execute(_HISTORY, (rows.sql_text(item_id),)).fetchall()
    actors = _actors(connection, {run for each in found for run in (each[6], each[11]) if run is not None})
    return list(_versions(found, actors, damaged))


def _actors(connection: sqlite3.Connection, runs: set[str]) -> dict[str, str | None]:
    query = "SELECT run, actor FROM runs WHERE run = ?"
    return dict(row for run in runs for row in connection.execute(query, (run,)))


def _versions(
    found: Sequence[tuple[Any, ...]], actors: Mapping[str, str | None], damaged: DamagedRows
) -> Iterator[ItemVersion]:
    for intact, table, row, body, checksum, operation, run, at, actor, until, *ending in found:
        item = rows.item_from_row(damaged, row, body, checksum)
        if not intact:
            damaged.add(table, row)
        if item is None or not intact:
            continue
        ended = None if until is None else _change(ending[0], until, ending[1], ending[2] or actors.get(ending[1]))
        by = actors.get(run)
        # Who wrote a new item is known best from itself: a command, or an import, acts for somebody else.
        known = by or author_of(item) or actor if operation == Operation.ADD.value else actor or by or author_of(item)
        yield ItemVersion(item=item, began=_change(operation, at, run, known), ended=ended)


def _change(operation: str, at: int, run: str | None, actor: str | None) -> Change:
    return Change(operation=Operation(operation), at=seconds(at), run=run, actor=actor)
