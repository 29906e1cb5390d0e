"""The items that a search's filter admits, as the server evaluates it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from devmem.collections.filter_sql import Sql
from devmem.collections.postgres.database import Connection, composed
from devmem.collections.postgres.predicates import EVENT_TIME, where_sql
from devmem.collections.postgres.server.term_texts import numbers_from
from devmem.indexes.row_column import Rows
from devmem.search.filters import Filter


@dataclass(frozen=True, kw_only=True, eq=False)
class Admitted:
    """The items that a filter admits as of the connection's read transaction."""

    connection: Connection
    store: int
    condition: str
    """On the table `items`, with a mark for each value."""
    values: tuple[object, ...]
    restricts: bool
    """Whether anything but expired items is left out."""

    @classmethod
    def of(
        cls, connection: Connection, store: int, where: Filter, period: tuple[float, float] | None, now: float
    ) -> Admitted:
        """Return what a filter admits at a time (seconds since the epoch) within a period; None for any."""
        condition, values = _narrowed(where_sql(where, now), period)
        restricts = period is not None or not where.everything()
        return cls(connection=connection, store=store, condition=condition, values=tuple(values), restricts=restricts)

    def named(self) -> tuple[str, dict[str, object]]:
        """Return the condition with names instead of marks, and the values by name."""
        values = {f"admitted_{at}": value for at, value in enumerate(self.values)}
        return self.condition % tuple(f"%({name})s" for name in values), values

    @cached_property
    def rows(self) -> Rows:
        """Rows of the admitted items, ascending."""
        query = f"SELECT string_agg(int8send(row), ''::bytea) FROM items WHERE store = %s AND {self.condition}"
        ((found,),) = self.connection.execute(composed(query), (self.store, *self.values), binary=True).fetchall()
        return np.sort(numbers_from(found, ">i8").astype(np.int64))


def count_hidden(admitted: Admitted, where: Filter, now: float) -> int:
    """Return the number of items within the scope of a filter that the rest of it does not admit."""
    scope = Filter(scope=where.scope, or_unbound=where.or_unbound, unbound=where.unbound, scope_in=where.scope_in)
    condition, values = where_sql(scope, now)
    query = f"SELECT count(*) FROM items WHERE store = %s AND {condition}"
    ((count,),) = admitted.connection.execute(composed(query), (admitted.store, *values)).fetchall()
    return int(count) - len(admitted.rows)


def is_scope_alone(where: Filter) -> bool:
    """Whether a filter restricts the scope and nothing else."""
    return replace(where, scope=type(where.scope)(), or_unbound=False, unbound=(), scope_in={}).everything()


def _narrowed(found: Sql, period: tuple[float, float] | None) -> Sql:
    condition, values = found
    if period is None:
        return condition, values
    return f"{condition} AND {EVENT_TIME} >= %s AND {EVENT_TIME} < %s", [*values, *period]
