"""The database's row number of each position of an index, and which positions are live."""

from __future__ import annotations

import copy
from typing import Self

import numpy as np
from numpy.typing import NDArray

from devmem.indexes.growable import with_room
from devmem.indexes.top_k import Positions, places_in, rows_mask

Rows = NDArray[np.int64]
Mask = NDArray[np.bool_]


class RowColumn:
    """Row numbers in the order in which they were applied, which need not be ascending; none occurs twice.

    A removed row keeps its position, which is masked. A `view` is a snapshot: appending writes only behind what it
    reads, and removing replaces the mask.
    """

    def __init__(self, rows: Rows | None = None, dead: Positions | None = None) -> None:
        """Start with rows, and with the positions among them that are removed."""
        self._rows: Rows = np.empty(0, dtype=np.int64) if rows is None else rows
        self.used = len(self._rows)
        """Number of positions, removed ones included."""
        self._live: Mask = np.ones(self.used, dtype=np.bool_)
        self.dead = 0 if dead is None else len(dead)
        """Number of removed positions."""
        if dead is not None:
            self._live[dead] = False
        self._ascending = _ascends(self._rows)
        self._order: Positions | None = None

    def __len__(self) -> int:
        return self.used - self.dead

    @property
    def rows(self) -> Rows:
        """Row number of each position."""
        return self._rows[: self.used]

    @property
    def live(self) -> Mask:
        """Whether each position is not removed."""
        return self._live[: self.used]

    def view(self) -> Self:
        """Return a snapshot that later changes do not affect."""
        return copy.copy(self)

    def append(self, rows: Rows) -> None:
        """Append rows, in any order."""
        need = self.used + len(rows)
        self._rows, self._live = with_room(self._rows, need), with_room(self._live, need)
        self._rows[self.used : need] = rows
        self._live[self.used : need] = True
        self._ascending = self._ascending and _ascends(self._rows[max(0, self.used - 1) : need])
        self.used, self._order = need, None

    def remove(self, rows: Rows) -> Positions:
        """Mask rows and return their positions; rows that are not there are passed over."""
        positions = self.positions(rows)
        positions = np.unique(positions[positions >= 0])
        if len(positions):
            self._live = self._live.copy()
            self._live[positions] = False
            self.dead += len(positions)
        return positions

    def positions(self, rows: Rows) -> Positions:
        """Return the position of each row; -1 for one that is not there."""
        if not self.used:
            return np.full(len(rows), -1, dtype=np.int64)
        if self._ascending:
            found = places_in(self.rows, rows)
        else:
            order = self._sorted()
            at = places_in(self.rows[order], rows)
            found = np.where(at >= 0, order[at], -1)
        return np.where(self._live[found], found, -1) if self.dead else found

    def mask(self, rows: Rows) -> Mask:
        """Return for each position whether its row is live and among some rows, which are in any order."""
        if self._ascending:
            found = rows_mask(self.rows, rows)
        else:
            order = self._sorted()
            found = np.empty(self.used, dtype=np.bool_)
            found[order] = rows_mask(self.rows[order], rows)
        return found & self.live if self.dead else found

    def live_positions(self) -> Positions:
        """Return the positions that are not removed."""
        return np.flatnonzero(self.live)

    def compacted(self) -> RowColumn:
        """Return a column of the live rows, without the room of the removed ones."""
        return RowColumn(self.rows[self.live])

    def _sorted(self) -> Positions:
        if self._order is None:
            self._order = np.argsort(self.rows, kind="stable")
        return self._order


def _ascends(rows: Rows) -> bool:
    return bool((rows[1:] > rows[:-1]).all())
