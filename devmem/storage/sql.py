"""SQL that databases share: filters as conditions, and what statements have in different forms.

`Filter.admits` is what the conditions have to agree with.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from typing import ClassVar, Final, TypeAlias

from devmem.model.conditions import Condition, Operator, Order
from devmem.model.filters import ITEM_FIELDS, SCOPE_PARTS, Filter, Wanted, conditions_of
from devmem.search.indexes.doc_values import STRING_COLUMNS, DocEntry

Sql: TypeAlias = tuple[str, list[object]]
"""A condition and its parameters."""

SQL_OPERATORS: Final = {Operator.ABOVE: ">", Operator.AT_LEAST: ">=", Operator.BELOW: "<", Operator.AT_MOST: "<="}


EVENT_TIME: Final = "COALESCE(event_time, created_at)"
"""Time of the event, or of storing where there is none."""
DOC_COLUMNS: Final = ", ".join(
    EVENT_TIME if name == "time" else f'"{name}"' for name in (*DocEntry._fields[:-1], *STRING_COLUMNS)
)
"""Columns of the table `items` that a `DocEntry` holds, in its order."""


def columns_of_fields(kind: str) -> str:
    """Return the definitions of the columns of `ITEM_FIELDS`, for `CREATE TABLE`; `kind` is the type of a text."""
    return ", ".join(f'"{each.name}" {kind}{" NOT NULL" if each.is_required else ""}' for each in ITEM_FIELDS)


class Dialect(ABC):
    """Differences between databases in the statements on a store, which name each value `?`."""

    of: str = "true"
    """Condition that a row of a table is the store's."""
    into: str = ""
    """First columns of a row that is inserted."""
    own: str = ""
    """Values of these."""
    tail: str = ""
    """Last columns of a unique key."""
    body: ClassVar[str]
    """Expression of an item's JSON form."""
    position: ClassVar[str]
    """Function that finds a text in another."""
    sequence: ClassVar[str]
    """Expression of an item's place among those of one time; NULL where it has none."""
    last_change: str
    """Query of what tells the newest removal or change of an item from the one before; no row where there is none."""

    @abstractmethod
    def literal(self, text: str) -> str:
        """Return a text as an expression without a parameter."""

    @abstractmethod
    def among(self, column: str, values: Sequence[object]) -> Sql:
        """Return the condition that a column has one of some values."""

    @abstractmethod
    def starts_with(self, column: str, prefix: str) -> Sql:
        """Return the condition that a text column begins with a text."""

    @abstractmethod
    def metadata_condition(self, key: str, wanted: Condition) -> Sql:
        """Return the condition on a key of the metadata, in the sense of `value_at`."""

    def order(self, order: Order, *, newest_first: bool = False) -> str:
        """Return the `ORDER BY` terms of an order; what has no sequence comes first in it."""
        direction, nulls = ("DESC", "LAST") if newest_first else ("ASC", "FIRST")
        stored = f"row {direction}"
        if order is Order.STORED:
            return stored
        return f"{EVENT_TIME} {direction}, {self.sequence} {direction} NULLS {nulls}, {stored}"

    def where(self, where: Filter, now: float) -> Sql:
        """Return the condition of a filter; expired items never match. `now` is in seconds since the epoch."""
        alive = "(expires_at IS NULL OR expires_at > ?)"
        return joined(" AND ", [(alive, [now]), *self._conditions(where)])

    def metadata(self, metadata: Mapping[str, Wanted]) -> Sql:
        """Return the condition that an item's metadata match."""
        return joined(" AND ", list(self._metadata_conditions(metadata)))

    def _conditions(self, where: Filter) -> Iterator[Sql]:
        yield from self._scope_conditions(where)
        yield from (self._column(each.name, wanted) for each, wanted in where.on_own_fields())
        for operator, bound in ((">=", where.after), ("<", where.before)):
            if bound is not None:
                yield f"{EVENT_TIME} {operator} ?", [bound]
        if where.min_trust:
            yield "trust >= ?", [where.min_trust]
        yield from self._metadata_conditions(where.metadata)
        yield from map(self._nested, where.all_of)
        if where.any_of:
            yield _enclosed(joined(" OR ", list(map(self._nested, where.any_of))))
        for part in where.none_of:
            condition, values = self._nested(part)
            yield f"{condition} IS NOT TRUE", values

    def _nested(self, part: Filter) -> Sql:
        return _enclosed(joined(" AND ", [("true", []), *self._conditions(part)]))

    def _scope_conditions(self, where: Filter) -> Iterator[Sql]:
        for part in SCOPE_PARTS:
            column = f'"{part}"'
            if (value := getattr(where.scope, part)) is not None:
                unbound = f" OR {column} IS NULL" if where.include_unscoped else ""
                yield f"({column} = ?{unbound})", [value]
            if part in where.unbound:
                yield f"{column} IS NULL", []
            if part in where.scope_in:
                yield self._column(column, where.scope_in[part])

    def _column(self, column: str, wanted: str | Condition) -> Sql:
        """Return the condition on a text column."""
        if not isinstance(wanted, Condition):
            return f"{column} = ?", [wanted]
        values: list[object] = [str(value) for value in wanted.values]
        match wanted.operator:
            case Operator.ONE_OF:
                return self.among(column, values)
            case Operator.DIFFERS_FROM:
                condition, values = self.among(column, values)
                return f"({condition}) IS NOT TRUE", values
            case Operator.EXISTS:
                return f"{column} IS {'NOT ' if wanted.values[0] else ''}NULL", []
            case Operator.STARTS_WITH:
                return self.starts_with(column, str(wanted.values[0]))
            case Operator.CONTAINS_TEXT:
                return f"{self.position}({column}, ?) > 0", values
            case operator:
                return f"{column} {SQL_OPERATORS[operator]} ?", values

    def _metadata_conditions(self, metadata: Mapping[str, Wanted]) -> Iterator[Sql]:
        for key, wanted in metadata.items():
            yield from (self.metadata_condition(key, condition) for condition in conditions_of(wanted))


_MOST_JOINED: Final = 100
"""Number of conditions that are joined in a row: SQLite limits the depth of an expression."""


def joined(operator: str, parts: Sequence[Sql]) -> Sql:
    """Return one condition of several, with the parameters of all."""
    if len(parts) > _MOST_JOINED:
        groups = [parts[start : start + _MOST_JOINED] for start in range(0, len(parts), _MOST_JOINED)]
        return joined(operator, [_enclosed(joined(operator, group)) for group in groups])
    return operator.join(part for part, _ in parts), [value for _, values in parts for value in values]


def _enclosed(found: Sql) -> Sql:
    return f"({found[0]})", found[1]
