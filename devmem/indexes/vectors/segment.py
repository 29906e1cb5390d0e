"""A run of rows with their vectors, some of which are deleted."""

from __future__ import annotations

from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from devmem.indexes.growable import with_room
from devmem.indexes.top_k import Positions, rows_mask
from devmem.indexes.vectors.exact import ExactVectors, Found, Mask
from devmem.model.items import Vector

Rows = NDArray[np.int64]


class Vectors(Protocol):
    """Vectors that are known by their position."""

    dimension: int

    def __len__(self) -> int: ...

    @property
    def gathered_up_to(self) -> int:
        """So many allowed vectors are copied and multiplied rather than scanned for."""
        ...

    def gather(self, positions: Positions) -> Vector:
        """Copy some of them, shape (n, dimension)."""
        ...

    def search(self, query: Vector, limit: int, mask: Mask | None) -> Found:
        """Find the most similar ones that the mask lets through."""
        ...


class Segment:
    """Vectors and the database's row number of each; a deleted position is masked."""

    def __init__(self, vectors: Vectors, rows: Rows, dead: Positions | None = None) -> None:
        self.vectors = vectors
        self._rows = rows
        self._used = len(rows)
        self._alive: Mask = np.ones(len(rows), dtype=np.bool_)
        if dead is not None:
            self._alive[dead] = False
        self._dead = 0 if dead is None else len(dead)
        self._order: NDArray[np.int64] | None = None
        self._ascending = bool((rows[1:] > rows[:-1]).all())

    def __len__(self) -> int:
        return self._used - self._dead

    @property
    def dead(self) -> int:
        """How many deleted positions still take room."""
        return self._dead

    @property
    def used(self) -> int:
        """How many positions take room."""
        return self._used

    def everything(self) -> tuple[Rows, Positions]:
        """Give the row number of every position, and the deleted positions."""
        return self._rows[: self._used], np.flatnonzero(~self._alive[: self._used])

    def remove(self, rows: Rows) -> None:
        """Mask the rows; those that are not there are passed over."""
        positions = self.positions(rows)
        self._alive[positions[positions >= 0]] = False
        self._dead = self._used - int(np.count_nonzero(self._alive[: self._used]))

    def living(self) -> tuple[Rows, Positions]:
        """Give the rows that are there, and their positions."""
        positions = np.flatnonzero(self._alive[: self._used])
        return self._rows[positions], positions

    def positions(self, rows: Rows) -> Positions:
        """Find the position of each row; -1 for one that is not there."""
        used = self._rows[: self._used]
        if not len(used):
            return np.full(len(rows), -1, dtype=np.int64)
        if self._ascending:
            found = np.minimum(np.searchsorted(used, rows), self._used - 1)
        else:
            if self._order is None:
                self._order = np.argsort(used, kind="stable")
            found = self._order[np.minimum(np.searchsorted(used, rows, sorter=self._order), self._used - 1)]
        return np.where((used[found] == rows) & self._alive[found], found, -1)

    def search(self, query: Vector, limit: int, allowed: Rows | None) -> tuple[Rows, Vector]:
        """Give the most similar rows with their similarities, best first."""
        alive = self._alive[: self._used]
        mask = alive if self._dead else None
        if allowed is not None:
            if len(allowed) <= self.vectors.gathered_up_to:
                positions = self.positions(allowed)
                return self._gathered(query, limit, positions[positions >= 0])
            mask = alive & self._mask(allowed)
        found, near = self.vectors.search(query, limit, mask)
        return self._rows[found], near

    def _mask(self, allowed: Rows) -> Mask:
        if self._ascending:
            return rows_mask(self._rows[: self._used], allowed)
        mask = np.zeros(self._used, dtype=np.bool_)
        positions = self.positions(allowed)
        mask[positions[positions >= 0]] = True
        return mask

    def _gathered(self, query: Vector, limit: int, positions: Positions) -> tuple[Rows, Vector]:
        similarities = self.vectors.gather(positions) @ query
        best = np.argsort(-similarities, kind="stable")[:limit]
        return self._rows[positions[best]], similarities[best]


class GrowingSegment(Segment):
    """A segment that is searched exactly and can be added to."""

    def __init__(self, dimension: int) -> None:
        self._exact = ExactVectors(dimension)
        super().__init__(self._exact, np.empty(0, dtype=np.int64))

    def add(self, rows: Rows, vectors: Vector) -> None:
        """Append rows, with vectors of shape (n, dimension)."""
        self._exact.add(vectors)
        need = self._used + len(rows)
        self._rows, self._alive = with_room(self._rows, need), with_room(self._alive, need)
        self._rows[self._used : need] = rows
        self._alive[self._used : need] = True
        joined = self._rows[max(0, self._used - 1) : need]
        self._ascending = self._ascending and bool((joined[1:] > joined[:-1]).all())
        self._used, self._order = need, None

    def compacted(self) -> GrowingSegment:
        """Copy what is there, without the room of what was deleted."""
        rows, positions = self.living()
        copy = GrowingSegment(self._exact.dimension)
        copy.add(rows, self._exact.gather(positions))
        return copy
