"""Rows that filters admitted in earlier searches, kept in memory: only what was committed since is asked for."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from typing import Any, Final, TypeVar, cast

import numpy as np

from devmem.collections.postgres.snapshots import Snapshot
from devmem.indexes.locking import locked
from devmem.indexes.row_column import Rows

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
