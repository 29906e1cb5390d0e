"""The items that a search's filter admits, as the server evaluates it."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Final

import numpy as np

from devmem.collections.filter_sql import Sql
from devmem.collections.postgres.database import Connection, composed
from devmem.collections.postgres.predicates import EVENT_TIME, where_sql
from devmem.collections.postgres.server.planning import of_store
from devmem.collections.postgres.server.row_sets import RowSet, RowSets
from devmem.collections.postgres.server.term_texts import numbers_from
from devmem.collections.postgres.snapshots import Snapshot
from devmem.indexes.row_column import Rows
from devmem.search.filters import Filter

_ALL: Final = "SELECT string_agg(int8send(row), ''::bytea) FROM items WHERE store = %(store)s AND {condition}"
# OFFSET has the planner find the few new items first.
_SINCE: Final = (
    "SELECT string_agg(int8send(row), ''::bytea) FROM (SELECT * FROM items WHERE store = %(store)s "
    "AND xact >= pg_snapshot_xmin(%(since)s::pg_snapshot) "
    "AND NOT pg_visible_in_snapshot(xact, %(since)s::pg_snapshot) OFFSET 0) AS items WHERE {condition}"
)


@dataclass(frozen=True, kw_only=True, eq=False)
class Moment:
    """Moment that the connection's read transaction shows."""

    connection: Connection
    store: int
    snapshot: Snapshot
    state: Hashable
    """State of the store's indexes in the database."""
    sets: RowSets
    """Rows that earlier searches read."""
    now: float
    """Seconds since the epoch."""
    expired: bool
    """Whether items that have expired are still there."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Admitted:
    """The items that a filter admits as of the connection's read transaction."""

    moment: Moment
    condition: str
    """On the table `items`, with a mark for each value."""
    values: tuple[object, ...]
    """The first one is the time, as expired items are never admitted."""
    restricts: bool
    """Whether anything but expired items is left out."""

    @classmethod
    def of(cls, moment: Moment, where: Filter, period: tuple[float, float] | None) -> Admitted:
        """Return what a filter admits within a period; None for any."""
        condition, values = _narrowed(where_sql(where, moment.now), period)
        restricts = period is not None or not where.everything()
        return cls(moment=moment, condition=condition, values=tuple(values), restricts=restricts)

    @property
    def connection(self) -> Connection:
        """The connection, in a read transaction."""
        return self.moment.connection

    @property
    def store(self) -> int:
        """Number of the store."""
        return self.moment.store

    def named(self) -> tuple[str, dict[str, object]]:
        """Return the condition with names instead of marks, and the values by name."""
        values = {f"admitted_{at}": value for at, value in enumerate(self.values)}
        return self.condition % tuple(f"%({name})s" for name in values), values

    @cached_property
    def set(self) -> RowSet:
        """Rows of the admitted items, and perhaps of some that were deleted or have expired."""
        moment = self.moment
        # An item that is not expired yet was not expired before.
        key = self.condition, repr(self.values[1:])
        return moment.sets.of(key, moment.state, moment.snapshot, self._read)

    @property
    def rows(self) -> Rows:
        """Rows of the admitted items, ascending; some may be deleted or have expired."""
        return self.set.rows

    def _read(self, since: Snapshot | None) -> Rows:
        condition, values = self.named()
        query = (_ALL if since is None else _SINCE).replace("{condition}", condition)
        if since is not None:
            values["since"] = str(since)
        ((found,),) = self.connection.execute(of_store(query, self.store), values, binary=True).fetchall()
        return np.sort(numbers_from(found, ">i8").astype(np.int64))


def count_hidden(admitted: Admitted, where: Filter, now: float) -> int:
    """Return the number of items within the scope of a filter that the rest of it does not admit."""
    scope = Filter(scope=where.scope, or_unbound=where.or_unbound, unbound=where.unbound, scope_in=where.scope_in)
    condition, values = where_sql(scope, now)
    query = f"SELECT count(*) FROM items WHERE store = %s AND {condition} AND ({admitted.condition}) IS NOT TRUE"
    parameters = (admitted.store, *values, *admitted.values)
    ((count,),) = admitted.connection.execute(composed(query), parameters).fetchall()
    return int(count)


def is_scope_alone(where: Filter) -> bool:
    """Whether a filter restricts the scope and nothing else."""
    return replace(where, scope=type(where.scope)(), or_unbound=False, unbound=(), scope_in={}).everything()


def _narrowed(found: Sql, period: tuple[float, float] | None) -> Sql:
    condition, values = found
    if period is None:
        return condition, values
    return f"{condition} AND {EVENT_TIME} >= %s AND {EVENT_TIME} < %s", [*values, *period]
