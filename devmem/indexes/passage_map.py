"""Which passages an item has: both known by their numbers in the database."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from devmem.indexes.growable import with_room
from devmem.indexes.row_column import Rows
from devmem.indexes.top_k import places_in, rows_mask
from devmem.ranking.groups import ranges


class PassageMap:
    """Passages and their items' rows, sorted. Not thread-safe but for its views.

    What has the higher row has the higher passages, so both columns ascend together. The room of removed ones is freed
    when they are as many as the others.
    """

    least_removed: ClassVar[int] = 1024
    """Number of removed passages below which their room is not freed."""

    def __init__(self) -> None:
        self._passages: Rows = np.empty(0, dtype=np.int64)
        self._rows: Rows = np.empty(0, dtype=np.int64)
        self._used = 0
        self._singles = True
        self._removed: list[Rows] = []
        self._passages_removed = 0

    def __len__(self) -> int:
        return self._used

    @property
    def singles(self) -> bool:
        """Whether no item has more than one passage."""
        return self._singles

    def view(self) -> Self:
        """Return a snapshot that later changes do not affect."""
        return copy.copy(self)

    def add(self, passages: Sequence[int], rows: Sequence[int]) -> None:
        """Add passages with the row of each, none of which was added before."""
        if not len(passages):
            return
        new_passages, new_rows = np.array(passages, dtype=np.int64), np.array(rows, dtype=np.int64)
        order = np.argsort(new_passages, kind="stable")
        new_passages, new_rows = new_passages[order], new_rows[order]
        if self._used and new_passages[0] < self._passages[self._used - 1]:
            self._merge(new_passages, new_rows)
            return
        need = self._used + len(new_passages)
        self._passages, self._rows = with_room(self._passages, need), with_room(self._rows, need)
        self._passages[self._used : need], self._rows[self._used : need] = new_passages, new_rows
        joined = self._rows[max(0, self._used - 1) : need]
        self._singles = self._singles and bool((joined[1:] > joined[:-1]).all())
        self._used = need

    def _merge(self, passages: Rows, rows: Rows) -> None:
        """Insert passages of which some come before those that are there."""
        at = np.searchsorted(self._passages[: self._used], passages)
        self._passages = np.insert(self._passages[: self._used], at, passages)
        self._rows = np.insert(self._rows[: self._used], at, rows)
        self._used = len(self._rows)
        self._singles = bool((self._rows[1:] > self._rows[:-1]).all())

    def remove(self, rows: Rows) -> None:
        """Drop the passages of some rows, at once or later; rows that are not there are passed over."""
        _, owner = self.passages_of(rows)
        self._removed.append(rows[np.unique(owner)])
        self._passages_removed += len(owner)
        if self._passages_removed > max(self.least_removed, self._used // 2):
            self._compact()

    def _compact(self) -> None:
        """Free the room of removed passages."""
        known = self._rows[: self._used]
        kept = ~np.isin(known, np.concatenate(self._removed))
        self._passages, self._rows = self._passages[: self._used][kept], known[kept]
        self._used = len(self._rows)
        self._singles = bool((self._rows[1:] > self._rows[:-1]).all())
        self._removed, self._passages_removed = [], 0

    def rows_of(self, passages: Rows) -> Rows:
        """Return the row of each passage, all of which are there."""
        return self._rows[np.searchsorted(self._passages[: self._used], passages)]

    def passages_of(self, rows: Rows) -> tuple[Rows, Rows]:
        """Return the passages of some rows, in the order of the rows, and for each passage its row's place in `rows`.

        A row that is not there has none.
        """
        known = self._rows[: self._used]
        if self._singles:
            at = places_in(known, rows)
            there = np.flatnonzero(at >= 0)
            return self._passages[at[there]], there
        starts, ends = np.searchsorted(known, rows), np.searchsorted(known, rows, side="right")
        counts = ends - starts
        return self._passages[ranges(starts, counts)], np.repeat(np.arange(len(rows)), counts)

    def all_passages_of(self, rows: Rows) -> Rows:
        """Return the passages of some rows, which are in any order, in ascending order; fast for many rows."""
        if self._singles:
            return self._passages[: self._used][rows_mask(self._rows[: self._used], rows)]
        return self.passages_of(np.sort(rows))[0]

    def parts(self) -> dict[str, NDArray[Any]]:
        """Return arrays by name, which `restore` takes."""
        if self._passages_removed:
            self._compact()
        return {"passages": self._passages[: self._used], "rows": self._rows[: self._used]}

    @classmethod
    def restore(cls, parts: Mapping[str, NDArray[Any]]) -> Self:
        """Return the map that `parts` was made of.

        Raises:
            ValueError, KeyError: they are not such parts.
        """
        restored = cls()
        passages, rows = np.array(parts["passages"], dtype=np.int64), np.array(parts["rows"], dtype=np.int64)
        if len(passages) != len(rows):
            raise ValueError(f"{len(passages)} passages of {len(rows)} rows")
        restored._passages, restored._rows, restored._used = passages, rows, len(rows)
        restored._singles = bool((rows[1:] > rows[:-1]).all())
        return restored
