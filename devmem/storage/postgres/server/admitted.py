"""The items that a search's filter admits, as the server evaluates it."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Final, TypeAlias, TypeVar, cast

import numpy as np
from numpy.typing import NDArray

from devmem.model.filters import Filter
from devmem.search.indexes.columns import Positions, Rows, locked
from devmem.search.indexes.scoring import Codes, Docs
from devmem.storage.postgres.database import Connection, Snapshot, composed
from devmem.storage.postgres.predicates import DIALECT
from devmem.storage.postgres.server.posting_cache import TermPostings
from devmem.storage.postgres.server.segments import SegmentMap
from devmem.storage.postgres.server.term_texts import numbers_from, of_store
from devmem.storage.sql import EVENT_TIME, Sql

T = TypeVar("T")

_MOST_ROWS: Final = 1_500_000
"""Maximum number of rows of all sets: some 36 MB with their places, and up to 108 MB of postings."""
_OVERHEAD: Final = 500
"""Number of rows that take as much memory as an empty set, with what is kept by its places."""


@dataclass(frozen=True, slots=True, eq=False)
class RowSet:
    """The rows that a filter admits. Rows that were deleted since they were read may be among them."""

    rows: Rows
    """Ascending."""
    snapshot: Snapshot
    """Shows all of them."""
    _places: dict[int, tuple[weakref.ref[Any], Any]] = field(default_factory=dict)

    def places(self, owner: object, find: Callable[[], T]) -> T:
        """Return the places of the rows in some index, which are found once.

        What is added to the set later is in no index that was there before.

        Args:
            owner: the index, which is not kept in memory by this.
            find: finds them, always in the same form for an index.
        """
        known = self._places.get(id(owner))
        if known is not None and known[0]() is owner:
            return cast("T", known[1])
        found = find()
        if len(self._places) > 1:
            self._places.clear()
        self._places[id(owner)] = (weakref.ref(owner), found)
        return found

    def with_rows(self, new: Rows, snapshot: Snapshot) -> RowSet:
        """Return the set with rows that were committed since."""
        return RowSet(np.union1d(self.rows, new) if len(new) else self.rows, snapshot, self._places)


class RowSets:
    """The sets of the filters that were used last. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._state: object = None
        self._sets: dict[Hashable, RowSet] = {}
        """In the order of their use."""
        self._total = 0
        """Cost of all of them, in rows."""

    def of(
        self,
        key: Hashable,
        state: object,
        snapshot: Snapshot,
        read: Callable[[Snapshot | None], Rows],
    ) -> RowSet:
        """Return the rows that a filter admits.

        Args:
            key: identifies the filter.
            state: of the indexes; sets of another one are read again, without what was deleted.
            snapshot: of the search's transaction.
            read: reads the rows: all of them for None, or those that a snapshot did not show.
        """
        known = locked(self._lock, lambda: self._known(key, state))
        if known is not None and not snapshot.shows_all_of(known.snapshot):
            return RowSet(read(None), snapshot)
        if known is None:
            known = RowSet(read(None), snapshot)
        elif known.snapshot != snapshot:
            known = known.with_rows(read(known.snapshot), snapshot)
        found = known
        locked(self._lock, lambda: self._keep(key, state, found))
        return found

    def _known(self, key: Hashable, state: object) -> RowSet | None:
        if state != self._state:
            self._state, self._sets, self._total = state, {}, 0
        return self._sets.get(key)

    def _keep(self, key: Hashable, state: object, found: RowSet) -> None:
        if state != self._state:
            # Meanwhile another search found the indexes in another state.
            return
        self._total += _cost(found) - (_cost(self._sets.pop(key)) if key in self._sets else 0)
        self._sets[key] = found
        while self._total > _MOST_ROWS and len(self._sets) > 1:
            self._total -= _cost(self._sets.pop(next(iter(self._sets))))

    def clear(self) -> None:
        """Forget everything."""
        locked(self._lock, self._forget)

    def _forget(self) -> None:
        self._state, self._sets, self._total = None, {}, 0


def _cost(found: RowSet) -> int:
    return len(found.rows) + _OVERHEAD


_ALL: Final = "SELECT string_agg(int8send(row), ''::bytea) FROM items WHERE store = %(store)s AND {condition}"
# OFFSET has the planner find the few new items first.
_SINCE: Final = (
    "SELECT string_agg(int8send(row), ''::bytea) FROM (SELECT * FROM items WHERE store = %(store)s "
    "AND xact >= pg_snapshot_xmin(%(since)s::pg_snapshot) "
    "AND NOT pg_visible_in_snapshot(xact, %(since)s::pg_snapshot) OFFSET 0) AS items WHERE {condition}"
)


@dataclass(frozen=True, kw_only=True, eq=False)
class ReadSnapshot:
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

    moment: ReadSnapshot
    condition: str
    """On the table `items`, with a mark for each value."""
    values: tuple[object, ...]
    """The first one is the time, as expired items are never admitted."""
    restricts: bool
    """Whether anything but expired items is left out."""

    @classmethod
    def of(cls, moment: ReadSnapshot, where: Filter, period: tuple[float, float] | None) -> Admitted:
        """Return what a filter admits within a period; None for any."""
        condition, values = _narrowed(DIALECT.where(where, moment.now), period)
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
    scope = Filter(
        scope=where.scope, include_unscoped=where.include_unscoped, unbound=where.unbound, scope_in=where.scope_in
    )
    condition, values = DIALECT.where(scope, now)
    query = f"SELECT count(*) FROM items WHERE store = %s AND {condition} AND ({admitted.condition}) IS NOT TRUE"
    parameters = (admitted.store, *values, *admitted.values)
    ((count,),) = admitted.connection.execute(composed(query), parameters).fetchall()
    return int(count)


def is_scope_alone(where: Filter) -> bool:
    """Whether a filter restricts the scope and nothing else."""
    return replace(where, scope=type(where.scope)(), include_unscoped=False, unbound=(), scope_in={}).everything()


def _narrowed(found: Sql, period: tuple[float, float] | None) -> Sql:
    condition, values = found
    if period is None:
        return condition, values
    return f"{condition} AND {EVENT_TIME} >= %s AND {EVENT_TIME} < %s", [*values, *period]


_KEPT_EACH: Final = 12
"""Number of postings that are kept for each admitted passage: 72 bytes."""
_MOST_KEPT: Final = 18_000_000
"""Number of postings that are kept however many passages are admitted: 108 MB."""
_ADMITTED_POSTINGS_OVERHEAD: Final = 60
"""Number of postings that take as much memory as a term without any."""
_LEAST_KEPT: Final = 1_000
"""Number of postings that are kept however few passages are admitted: 6 KB."""
Part: TypeAlias = tuple[Docs, Codes]


class AdmittedPassages:
    """The admitted passages, which are numbered in the order of their positions.

    Searches with one filter look the same terms up again and again: the last ones are kept. Thread-safe.
    """

    def __init__(self, segments: SegmentMap, rows: Rows) -> None:
        """Find the passages of some items, whose rows ascend."""
        self.positions: Positions = segments.positions_of_rows(rows)
        """Position of each, ascending."""
        self.length = float(segments.lengths[self.positions].sum(dtype=np.float64))
        """Of all of them, in terms."""
        self._lock = threading.Lock()
        self._known: dict[int, Part] = {}
        self._kept = 0
        """Cost of all of them, in postings."""

    def postings(self, term: int, found: TermPostings, mask: Callable[[], NDArray[np.bool_]]) -> Part:
        """Return the numbers of the admitted passages with a term, and the codes of its postings.

        Args:
            term: hash.
            found: its postings in the segments.
            mask: returns for each position whether it is of an admitted passage.
        """
        known = self._known.get(term)
        if known is not None:
            return known
        part = found.among(self.positions, mask)
        locked(self._lock, lambda: self._keep(term, part))
        return part

    def _keep(self, term: int, part: Part) -> None:
        # Not with the postings that it was made of: these would stay in memory when `PostingCache` drops them.
        if term in self._known:
            return
        cost = len(part[0]) + _ADMITTED_POSTINGS_OVERHEAD
        if self._kept + cost > min(max(_KEPT_EACH * len(self.positions), _LEAST_KEPT), _MOST_KEPT):
            self._known, self._kept = {}, 0
        self._known[term] = part
        self._kept += cost
