"""The texts of an index: the database's row number of each, its length, and whether it is removed."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Self

import numpy as np
from numpy.typing import NDArray

from devmem.indexes.growable import with_room
from devmem.indexes.row_column import Mask, RowColumn, Rows
from devmem.indexes.top_k import Positions, Scores

Lengths = NDArray[np.float32]


class Texts:
    """Texts by position, in the order in which they were added; a removed one keeps its position until compaction."""

    def __init__(self, rows: Rows | None = None, lengths: Lengths | None = None) -> None:
        """Start with texts, arrays of one length; None for none."""
        self._rows = RowColumn(rows)
        self._lengths: Lengths = np.empty(0, dtype=np.float32) if lengths is None else lengths
        self._total_length = float(self._lengths.sum(dtype=np.float64))

    @property
    def used(self) -> int:
        """Number of positions, removed ones included."""
        return self._rows.used

    @property
    def dead(self) -> int:
        """Number of removed positions."""
        return self._rows.dead

    @property
    def rows(self) -> Rows:
        """Row at each position."""
        return self._rows.rows

    @property
    def lengths(self) -> Lengths:
        """Length at each position, in terms."""
        return self._lengths[: self.used]

    @property
    def live(self) -> Mask:
        """Whether each position is not removed."""
        return self._rows.live

    @property
    def mean_length(self) -> float:
        """Mean length over all positions; 0 when there is none."""
        return self._total_length / max(self.used, 1)

    def view(self) -> Self:
        """Return a snapshot that later changes do not affect."""
        view = copy.copy(self)
        view._rows = self._rows.view()  # noqa: SLF001 - a copy of this one
        return view

    def add(self, rows: Sequence[int], lengths: Lengths) -> None:
        """Append texts."""
        start, need = self.used, self.used + len(rows)
        self._lengths = with_room(self._lengths, need)
        self._lengths[start:need] = lengths
        self._rows.append(np.array(rows, dtype=np.int64))
        self._total_length += float(lengths.sum(dtype=np.float64))

    def remove(self, rows: Rows) -> None:
        """Mask rows; those that are not there are passed over."""
        self._rows.remove(rows)

    def positions(self, rows: Rows) -> Positions:
        """Return the position of each row; -1 for one that is not there."""
        return self._rows.positions(rows)

    def mask(self, rows: Rows) -> Mask:
        """Return for each position whether its row is live and among some rows."""
        return self._rows.mask(rows)

    def mean_length_of(self, mask: Mask) -> float:
        """Return the mean length of the texts at some positions; 0 when there is none."""
        return float(self.lengths[mask].sum(dtype=np.float64)) / max(int(np.count_nonzero(mask)), 1)

    def initial_scores(self, allowed: Mask | None) -> Scores:
        """Return scores to add to: 0, and -inf for what is removed or not allowed."""
        if allowed is not None:
            return np.where(allowed, np.float32(0), np.float32(-np.inf))
        scores = np.zeros(self.used, dtype=np.float32)
        if self.dead:
            scores[~self.live] = -np.inf
        return scores

    def compacted(self) -> Texts:
        """Return the same texts without the removed ones."""
        return Texts(self.rows[self.live], self.lengths[self.live])
