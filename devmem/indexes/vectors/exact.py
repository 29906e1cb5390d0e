"""Vectors that are compared with the query one and all."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import NDArray

from devmem.indexes.growable import with_room
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
        # FAISS's stubs do not know the keyword.
        made: Any = faiss.SearchParameters
        params = made(sel=_selector(mask))
    with one_thread():
        similarities, positions = index.search(query.reshape(1, -1), min(limit, index.ntotal), params=params)
    there = positions[0] >= 0
    return positions[0][there], similarities[0][there]


def _selector(mask: Mask) -> Any:  # noqa: ANN401 - FAISS's stubs do not know that an array is taken
    import faiss

    selector: Any = faiss.IDSelectorBitmap
    return selector(np.packbits(mask, bitorder="little"))


class ExactVectors:
    """Unit vectors as float32, which can be added to. Not thread-safe but for its views."""

    def __init__(self, vectors: Vector) -> None:
        """Start with vectors of shape (n, dimension), which are not copied."""
        self._vectors = vectors
        self._used = len(vectors)

    def __len__(self) -> int:
        return self._used

    @property
    def dimension(self) -> int:
        """Number of components of a vector."""
        return int(self._vectors.shape[1])

    def view(self) -> Self:
        """Return a snapshot that later changes do not affect."""
        return copy.copy(self)

    def add(self, vectors: Vector) -> None:
        """Append vectors of shape (n, dimension)."""
        need = self._used + len(vectors)
        self._vectors = with_room(self._vectors, need)
        self._vectors[self._used : need] = vectors
        self._used = need

    @property
    def gathered_up_to(self) -> int:
        """Number of allowed vectors up to which they are copied and multiplied, not scanned (measured at 100,000)."""
        return 2000

    def gather(self, positions: Positions) -> Vector:
        """Copy the vectors at some positions, shape (n, dimension)."""
        return self._vectors[: self._used][positions]

    def search(self, query: Vector, limit: int, mask: Mask | None) -> Found:
        """Find the vectors most similar to the query, shape (dimension,), among those that the mask lets through."""
        import faiss

        # What `IndexFlatIP.search` calls: it takes memory that FAISS does not own, so adding moves nothing under a
        # search that is running.
        limit = min(limit, self._used)
        similarities, positions = np.empty(limit, dtype=np.float32), np.empty(limit, dtype=np.int64)
        query = np.ascontiguousarray(query, dtype=np.float32)
        compare: Any = faiss.knn_inner_product
        selector = None if mask is None else _selector(mask)
        arrays = [faiss.swig_ptr(array) for array in (query, self._vectors, similarities, positions)]
        with one_thread():
            compare(*arrays[:2], self.dimension, 1, self._used, limit, *arrays[2:], selector)
        there = positions >= 0
        return positions[there], similarities[there]
