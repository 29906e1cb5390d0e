"""The vector index: an exact FAISS index over rows that are known by their number in the database."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

import numpy as np
from numpy.typing import NDArray

from devmem.items import Vector

if TYPE_CHECKING:
    import faiss

Rows = NDArray[np.int64]

_GATHER_UP_TO: Final = 2000
"""So many allowed rows are cheaper to gather and multiply than to scan for (measured at 100k rows)."""


@contextmanager
def _one_thread() -> Iterator[None]:
    """Keep FAISS from starting threads for one query: waking them costs more than they save.

    The setting is the calling thread's own (OpenMP's nthreads-var), so nobody else's searches change.
    """
    import faiss

    before = faiss.omp_get_max_threads()
    faiss.omp_set_num_threads(1)
    try:
        yield
    finally:
        faiss.omp_set_num_threads(before)


class VectorIndex:
    """Unit vectors of one dimension, searched by inner product. Not thread-safe: its owner holds a lock.

    FAISS knows positions; `rows` gives the database's row number of each. A deleted position is masked, since taking it
    out would move all that follow; `compact` drops them.
    """

    def __init__(self, dimension: int) -> None:
        import faiss

        self.dimension = dimension
        self._faiss = faiss.IndexFlatIP(dimension)
        self._rows: Rows = np.empty(0, dtype=np.int64)
        self._alive: NDArray[np.bool_] = np.empty(0, dtype=np.bool_)
        self._used = 0
        self._order: NDArray[np.int64] | None = None

    @classmethod
    def restore(cls, index: faiss.IndexFlatIP, rows: Rows) -> VectorIndex:
        """Make an index from the parts that `parts` gave."""
        restored = cls(index.d)
        restored._faiss = index
        restored._rows, restored._used = rows.astype(np.int64), len(rows)
        restored._alive = np.ones(len(rows), dtype=np.bool_)
        return restored

    def parts(self) -> tuple[faiss.IndexFlatIP, Rows]:
        """Give the FAISS index and the row number of each of its positions, deleted ones dropped."""
        self.compact()
        return self._faiss, self._rows[: self._used]

    def __len__(self) -> int:
        return int(self._alive[: self._used].sum())

    def add(self, rows: Rows, vectors: Vector) -> None:
        """Append vectors of shape (n, dimension) for rows of shape (n,), none of which is in the index."""
        need = self._used + len(rows)
        if need > len(self._rows):
            room = max(need, 2 * len(self._rows), 1024)
            self._rows = np.resize(self._rows, room)
            self._alive = np.resize(self._alive, room)
        self._rows[self._used : need] = rows
        self._alive[self._used : need] = True
        self._used = need
        self._faiss.add(np.ascontiguousarray(vectors, dtype=np.float32))
        self._order = None

    def remove(self, rows: Rows) -> None:
        """Drop the rows; those that are not in the index are passed over."""
        positions = self._positions(rows)
        self._alive[positions[positions >= 0]] = False
        if self._used - len(self) > max(1024, self._used // 4):
            self.compact()

    def compact(self) -> None:
        """Give back the room of removed rows."""
        import faiss

        alive = self._alive[: self._used]
        if alive.all():
            return
        kept = self._matrix()[alive].copy()
        self._faiss = faiss.IndexFlatIP(self.dimension)
        self._faiss.add(kept)
        self._rows = self._rows[: self._used][alive]
        self._alive = np.ones(len(kept), dtype=np.bool_)
        self._used = len(kept)
        self._order = None

    def contains(self, rows: Rows) -> NDArray[np.bool_]:
        """Say for each row whether it is in the index."""
        return self._positions(rows) >= 0

    def search(self, query: Vector, limit: int, allowed: Rows | None = None) -> Rows:
        """Give the rows most similar to the query (shape (dimension,)), best first; `allowed` restricts them."""
        if not self._used or limit < 1:
            return np.empty(0, dtype=np.int64)
        if allowed is not None:
            positions = self._positions(allowed)
            positions = positions[positions >= 0]
            if len(positions) <= _GATHER_UP_TO:
                best = np.argsort(-(self._matrix()[positions] @ query), kind="stable")[:limit]
                return self._rows[positions[best]]
            mask = np.zeros(self._used, dtype=np.bool_)
            mask[positions] = True
            return self._scan(query, limit, mask)
        alive = self._alive[: self._used]
        return self._scan(query, limit, None if alive.all() else alive)

    def similarities(self, query: Vector, rows: Rows) -> NDArray[np.float64]:
        """Give the cosine of the query and each row; NaN for a row that has no vector."""
        found = np.full(len(rows), np.nan)
        if self._used and len(rows):
            positions = self._positions(rows)
            there = positions >= 0
            found[there] = self._matrix()[positions[there]] @ query
        return found

    def _scan(self, query: Vector, limit: int, mask: NDArray[np.bool_] | None) -> Rows:
        import faiss

        params = None
        if mask is not None:
            bits = np.packbits(mask, bitorder="little")
            # FAISS's stubs know neither the keyword nor that an array is taken.
            params = faiss.SearchParameters(sel=faiss.IDSelectorBitmap(bits))  # type: ignore[call-arg,arg-type]
        with _one_thread():
            _, positions = self._faiss.search(query.reshape(1, -1), min(limit, self._used), params=params)
        found: Rows = positions[0]
        return self._rows[found[found >= 0]]

    def _matrix(self) -> Vector:
        """View FAISS's own storage, shape (used, dimension); valid until the next add."""
        import faiss

        flat = faiss.rev_swig_ptr(self._faiss.get_xb(), self._used * self.dimension)
        return np.asarray(flat).reshape(self._used, self.dimension)

    def _positions(self, rows: Rows) -> Rows:
        """Find the position of each row; -1 for one that is not there."""
        used = self._rows[: self._used]
        if not len(used):
            return np.full(len(rows), -1, dtype=np.int64)
        if self._order is None:
            self._order = np.argsort(used, kind="stable")
        at = np.minimum(np.searchsorted(used, rows, sorter=self._order), self._used - 1)
        positions = self._order[at]
        return np.where((used[positions] == rows) & self._alive[positions], positions, -1)
