"""Vectors that are compared with the query one and all."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from devmem.indexes.top_k import Positions
from devmem.indexes.vectors.threads import one_thread
from devmem.model.items import Vector

if TYPE_CHECKING:
    import faiss

Mask = NDArray[np.bool_]
Found = tuple[Positions, Vector]
"""Positions, and their similarity to the query, best first."""


def scan(index: faiss.Index, query: Vector, limit: int, mask: Mask | None) -> Found:
    """Compare the query (shape (dimension,)) with every vector of a flat index that the mask lets through."""
    import faiss

    params: Any = None
    if mask is not None:
        # FAISS's stubs know neither the keyword nor that an array is taken.
        selector: Any = faiss.IDSelectorBitmap
        made: Any = faiss.SearchParameters
        params = made(sel=selector(np.packbits(mask, bitorder="little")))
    with one_thread():
        similarities, positions = index.search(query.reshape(1, -1), min(limit, index.ntotal), params=params)
    there = positions[0] >= 0
    return positions[0][there], similarities[0][there]


class ExactVectors:
    """Unit vectors as float32, which can be added to."""

    def __init__(self, dimension: int) -> None:
        import faiss

        self.dimension = dimension
        self._flat = faiss.IndexFlatIP(dimension)

    def __len__(self) -> int:
        return int(self._flat.ntotal)

    def add(self, vectors: Vector) -> None:
        """Append vectors of shape (n, dimension)."""
        self._flat.add(np.ascontiguousarray(vectors, dtype=np.float32))

    def matrix(self) -> Vector:
        """View them all, shape (n, dimension); valid until the next `add`."""
        import faiss

        if not len(self):
            return np.empty((0, self.dimension), dtype=np.float32)
        flat = faiss.rev_swig_ptr(self._flat.get_xb(), len(self) * self.dimension)
        return np.asarray(flat).reshape(len(self), self.dimension)

    @property
    def gathered_up_to(self) -> int:
        """So many allowed vectors are copied and multiplied rather than scanned for (measured at 100,000)."""
        return 2000

    def gather(self, positions: Positions) -> Vector:
        """Copy some of them, shape (n, dimension)."""
        return self.matrix()[positions]

    def search(self, query: Vector, limit: int, mask: Mask | None) -> Found:
        """Find the vectors most similar to the query, shape (dimension,), among those that the mask lets through."""
        return scan(self._flat, query, limit, mask)
