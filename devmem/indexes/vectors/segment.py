"""A segment: rows with their vectors, some of which are removed."""

from __future__ import annotations

import copy
from typing import Protocol, Self

import numpy as np

from devmem.indexes.row_column import Mask, RowColumn, Rows
from devmem.indexes.top_k import Positions
from devmem.indexes.vectors.exact import ExactVectors, Found
from devmem.model.items import Vector


class Vectors(Protocol):
    """Vectors that are known by their position."""

    @property
    def dimension(self) -> int:
        """Number of components of a vector."""
        ...

    @property
    def gathered_up_to(self) -> int:
        """Number of allowed vectors up to which they are copied and multiplied, not scanned."""
        ...

    def gather(self, positions: Positions) -> Vector:
        """Copy the vectors at some positions, shape (n, dimension)."""
        ...

    def search(self, query: Vector, limit: int, mask: Mask | None) -> Found:
        """Find the most similar ones that the mask lets through."""
        ...


class Segment:
    """Vectors and the database's row number of each. Not thread-safe but for its views."""

    def __init__(self, vectors: Vectors, rows: RowColumn) -> None:
        self.vectors: Vectors = vectors
        self.rows = rows

    def __len__(self) -> int:
        return len(self.rows)

    def view(self) -> Self:
        """Return a snapshot that later changes do not affect."""
        view = copy.copy(self)
        view.rows = self.rows.view()
        return view

    def living(self) -> tuple[Rows, Positions]:
        """Return the rows that are not removed, and their positions."""
        positions = self.rows.live_positions()
        return self.rows.rows[positions], positions

    def search(self, query: Vector, limit: int, allowed: Rows | None) -> tuple[Rows, Vector]:
        """Return the most similar rows with their similarities, best first; `allowed` restricts them."""
        mask = self.rows.live if self.rows.dead else None
        if allowed is not None:
            if len(allowed) <= self.vectors.gathered_up_to:
                positions = self.rows.positions(allowed)
                return self._gathered(query, limit, positions[positions >= 0])
            mask = self.rows.mask(allowed)
        found, near = self.vectors.search(query, limit, mask)
        return self.rows.rows[found], near

    def _gathered(self, query: Vector, limit: int, positions: Positions) -> tuple[Rows, Vector]:
        similarities = self.vectors.gather(positions) @ query
        best = np.argsort(-similarities, kind="stable")[:limit]
        return self.rows.rows[positions[best]], similarities[best]


class GrowingSegment(Segment):
    """A segment that is searched exactly and can be added to."""

    def __init__(self, vectors: Vector, rows: Rows) -> None:
        """Start with vectors of shape (n, dimension) and the row of each."""
        self._exact = ExactVectors(vectors)
        super().__init__(self._exact, RowColumn(rows))

    @classmethod
    def empty(cls, dimension: int) -> GrowingSegment:
        """Return a segment without rows."""
        return cls(np.empty((0, dimension), dtype=np.float32), np.empty(0, dtype=np.int64))

    def view(self) -> Self:
        """Return a snapshot that later changes do not affect."""
        view = super().view()
        view.vectors = self._exact.view()
        return view

    def add(self, rows: Rows, vectors: Vector) -> None:
        """Append rows, with vectors of shape (n, dimension)."""
        self._exact.add(vectors)
        self.rows.append(rows)

    def compacted(self) -> GrowingSegment:
        """Return a copy without the room of the removed rows."""
        rows, positions = self.living()
        return GrowingSegment(self._exact.gather(positions), rows)
