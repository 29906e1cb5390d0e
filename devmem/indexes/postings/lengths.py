"""The texts of an index: the database's row number of each, its length, and whether it is deleted."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from devmem.indexes.growable import with_room
from devmem.indexes.top_k import Positions, Scores, places_in, rows_mask
from devmem.indexes.vectors import Rows

Lengths = NDArray[np.float32]


class Texts:
    """Texts by position, in the order of their rows; a deleted one keeps its position until they are `compacted`."""

    def __init__(self, rows: Rows | None = None, lengths: Lengths | None = None) -> None:
        """Take the texts that are there, arrays of one length; None for none."""
        self._rows: Rows = np.empty(0, dtype=np.int64) if rows is None else rows
        self._lengths: Lengths = np.empty(0, dtype=np.float32) if lengths is None else lengths
        self.used = len(self._rows)
        """How many positions there are."""
        self._alive: NDArray[np.bool_] = np.ones(self.used, dtype=np.bool_)
        self.dead = 0
        """How many of them are deleted."""
        self._total_length = float(self._lengths.sum(dtype=np.float64))

    @property
    def rows(self) -> Rows:
        """The row at each position."""
        return self._rows[: self.used]

    @property
    def lengths(self) -> Lengths:
        """The length at each position, in terms."""
        return self._lengths[: self.used]

    @property
    def alive(self) -> NDArray[np.bool_]:
        """Which positions are not deleted."""
        return self._alive[: self.used]

    @property
    def mean_length(self) -> float:
        """Mean of all positions' lengths; 0 when there is none."""
        return self._total_length / max(self.used, 1)

    def add(self, rows: Sequence[int], lengths: Lengths) -> None:
        """Append texts whose rows are above those that are there."""
        need = self.used + len(rows)
        self._rows, self._lengths = with_room(self._rows, need), with_room(self._lengths, need)
        self._alive = with_room(self._alive, need)
        new = slice(self.used, need)
        self._rows[new], self._lengths[new], self._alive[new] = rows, lengths, True
        self._total_length += float(lengths.sum(dtype=np.float64))
        self.used = need

    def remove(self, rows: Rows) -> None:
        """Delete rows; those that are not there are passed over."""
        positions = self.positions(rows)
        self._alive[positions[positions >= 0]] = False
        self.dead = self.used - int(np.count_nonzero(self.alive))

    def positions(self, rows: Rows) -> Positions:
        """Give the position of each row; -1 for one that is not there."""
        at = places_in(self.rows, rows)
        return np.where(self._alive[at], at, -1) if self.used else at

    def admitted(self, allowed: Rows | None) -> Scores:
        """Make scores to add to: 0, and -inf for what is deleted or not allowed."""
        if allowed is not None:
            mask = rows_mask(self.rows, allowed) & self.alive
            return np.where(mask, np.float32(0), np.float32(-np.inf))
        scores = np.zeros(self.used, dtype=np.float32)
        if self.dead:
            scores[~self.alive] = -np.inf
        return scores

    def compacted(self) -> Texts:
        """Give the same texts without the deleted ones."""
        return Texts(self.rows[self.alive], self.lengths[self.alive])
