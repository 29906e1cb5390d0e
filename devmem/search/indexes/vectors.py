"""Vectors in memory and the nearest of them to a query, by FAISS.

Vectors that were added last are kept as float32, and all of them are compared. Once there are many, an index of them is
built in the background: codes of 4 bits for some components (Jégou, Douze and Schmid, "Product Quantization for Nearest
Neighbor Search", 2011) find candidates, which are compared by one byte a component. Until it is ready, and when that
fails, all vectors are compared.
"""

from __future__ import annotations

import copy
import logging
import math
import os
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import CancelledError, Executor, Future, ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any, Final, Self

import numpy as np
from numpy.typing import NDArray

from devmem.config.store import IndexConfig
from devmem.model.items import Vector
from devmem.search.indexes.columns import Mask, Positions, RowColumn, Rows, with_room

_LOG: Final = logging.getLogger(__name__)
_ON_ONE_THREAD: Final = 400_000
"""Number of multiplications of a product for which OpenBLAS starts no threads: they would wait actively afterwards."""
_GATHERED: Final = 2_000
"""Number of admitted rows up to which their vectors are copied and multiplied, not scanned for."""
_BLOCK: Final = 8_192
_TRAINED_ON: Final = 1_024
_ROUNDS: Final = 10
"""Codes learned in 10 rounds from 1,024 vectors find as much as in 25 rounds from 8,192, in a tenth of the time."""
_MOST_PARTS: Final = 512
"""Maximum number of parts of at least two components that a vector has; each becomes 4 bits."""
_MARGIN: Final = 0.1
"""Share of the range of a component by which it is widened when a vector is beyond it."""
_LEAST_CANDIDATES: Final = 200
_SCAN_BELOW: Final = 8
"""When fewer than one in this many vectors are admitted, or more are candidates, the bytes of all are scanned."""
_PROBES, _NEAREST = 32, 10
_RECALL: Final = 0.95
"""Share of the nearest vectors that the codes must find for an index to be used."""
_GROWTH: Final = 16
"""The index is rebuilt when one vector in this many was added since, and no fewer than the threshold."""
_MOST_DEAD: Final = 4
"""Removed rows are dropped when they are more than one in this many."""
_FEW: Final = 1_024

Found = tuple[Positions, Vector]
"""Positions, and their similarity to the query, best first."""


@contextmanager
def _one_thread() -> Iterator[None]:
    """Keep FAISS from starting threads, around every call that computes.

    They do not survive a fork: the first parallel region of the child would wait for them forever. Waking them also
    costs more than they save in one query. The setting is the calling thread's own (OpenMP's nthreads-var), so calls
    in other threads do not change.
    """
    import faiss

    before = faiss.omp_get_max_threads()
    faiss.omp_set_num_threads(1)
    try:
        yield
    finally:
        faiss.omp_set_num_threads(before)


def _selector(mask: Mask | None) -> Any:  # noqa: ANN401 - FAISS's stubs do not know that an array is taken
    import faiss

    selector: Any = faiss.IDSelectorBitmap
    return None if mask is None else selector(np.packbits(mask, bitorder="little"))


def _products(vectors: Vector, query: Vector) -> Vector:
    """Return the dot product of each vector, shape (n, dimension), with a query, on this thread alone."""
    count = max(1, _ON_ONE_THREAD // max(1, len(query)))
    if len(vectors) <= count:
        return vectors @ query
    return np.concatenate([vectors[start : start + count] @ query for start in range(0, len(vectors), count)])


class _Part(ABC):
    """Some of the vectors, known by their position, and the row of each."""

    def __init__(self, rows: RowColumn) -> None:
        self.rows = rows

    def __len__(self) -> int:
        return len(self.rows)

    def view(self) -> Self:
        """Return a snapshot that later changes do not affect."""
        view = copy.copy(self)
        view.rows = self.rows.view()
        return view

    @abstractmethod
    def gather(self, positions: Positions) -> Vector:
        """Copy the vectors at some positions, shape (n, dimension)."""

    @property
    @abstractmethod
    def size_bytes(self) -> int:
        """Memory of the vectors."""

    @abstractmethod
    def _nearest(self, query: Vector, limit: int, mask: Mask | None) -> Found:
        """Find the vectors most similar to the query among those that the mask lets through."""

    def nearest(self, query: Vector, limit: int, allowed: Rows | None) -> tuple[Rows, Vector]:
        """Return the most similar rows with their similarities, best first; `allowed` restricts them."""
        if allowed is not None and len(allowed) <= _GATHERED:
            positions = self.rows.positions(allowed)
            positions = positions[positions >= 0]
            near = _products(self.gather(positions), query)
            best = np.argsort(-near, kind="stable")[:limit]
            return self.rows.rows[positions[best]], near[best]
        mask = self.rows.mask(allowed) if allowed is not None else self.rows.live if self.rows.dead else None
        found, near = self._nearest(query, limit, mask)
        there = found >= 0
        return self.rows.rows[found[there]], near[there]

    def living(self) -> Iterator[Vector]:
        """Yield the vectors of the rows that are not removed, some thousand at a time."""
        positions = self.rows.live_positions()
        for start in range(0, len(positions), _BLOCK):
            yield self.gather(positions[start : start + _BLOCK])


class _Recent(_Part):
    """Vectors as float32, all of which are compared; can be added to."""

    def __init__(self, vectors: Vector, rows: Rows) -> None:
        """Start with vectors of shape (n, dimension), and the row of each."""
        super().__init__(RowColumn(rows))
        self._vectors = vectors

    def add(self, rows: Rows, vectors: Vector) -> None:
        """Append rows with their vectors, shape (n, dimension)."""
        used = self.rows.used
        self._vectors = with_room(self._vectors, used + len(rows))
        self._vectors[used : used + len(rows)] = vectors
        self.rows.append(rows)

    def since(self, position: int) -> _Recent:
        """Return the living rows from a position on, without the room of the others."""
        positions = self.rows.live_positions()
        positions = positions[positions >= position]
        return _Recent(self._vectors[positions], self.rows.rows[positions])

    @property
    def size_bytes(self) -> int:
        return self._vectors[: self.rows.used].nbytes

    def gather(self, positions: Positions) -> Vector:
        return self._vectors[positions]

    def _nearest(self, query: Vector, limit: int, mask: Mask | None) -> Found:
        import faiss

        # What `IndexFlatIP.search` calls: it takes memory that FAISS does not own, so adding moves nothing under a
        # search that is running.
        compare: Any = faiss.knn_inner_product
        limit = min(limit, self.rows.used)
        near, found = np.empty(limit, dtype=np.float32), np.empty(limit, dtype=np.int64)
        arrays = [faiss.swig_ptr(array) for array in (query, self._vectors, near, found)]
        with _one_thread():
            compare(*arrays[:2], len(query), 1, self.rows.used, limit, *arrays[2:], _selector(mask))
        return found, near


class _Indexed(_Part):
    """Vectors as FAISS's codes and bytes; none can be added."""

    def __init__(self, codes: Any, compared: Any, rows: RowColumn) -> None:  # noqa: ANN401 - FAISS's stubs know little
        """Take an `IndexPQFastScan`, an `IndexScalarQuantizer` of the same vectors, and the row of each."""
        import faiss

        super().__init__(rows)
        self._codes, self._compared = codes, compared
        self._memory: Sequence[NDArray[Any]] = ()
        """Arrays that FAISS reads without owning them."""
        self._both = faiss.IndexRefine(codes, compared)
        # FAISS never moves them, as no vector is added.
        held = compared.codes
        self._bytes = np.asarray(faiss.rev_swig_ptr(held.data(), held.size())).reshape(-1, compared.code_size)
        # Deeper among more vectors: 400 candidates of 10,000 generated vectors have 99 % of the 200 nearest, 800 of
        # 100,000 and 1,200 of 300,000.
        self._candidates_each = max(2.0, 2.5 * math.log10(max(1, rows.used)) - 7.5)

    @property
    def dimension(self) -> int:
        """Number of components of a vector."""
        return int(self._compared.d)

    @classmethod
    def build(cls, parts: Sequence[_Part], check: Callable[[], None]) -> _Indexed:
        """Build the index of the living rows of some parts.

        Args:
            parts: at most one of them an index.
            check: called between the steps; an exception from it ends the work.

        Raises:
            ValueError: the codes do not tell the vectors apart.
        """
        import faiss

        rows = np.concatenate([part.rows.rows[part.rows.live_positions()] for part in parts])
        sample = np.concatenate([_sampled(part, len(rows)) for part in parts])
        dimension = sample.shape[1]
        count = max(each for each in range(1, _MOST_PARTS + 1) if not dimension % each and 2 * each <= dimension)
        codes = faiss.IndexPQFastScan(dimension, count, 4, faiss.METRIC_INNER_PRODUCT)
        # FAISS would warn on stderr that there could be more training vectors.
        codes.pq.cp.min_points_per_centroid, codes.pq.cp.niter = 1, _ROUNDS
        compared: Any = faiss.IndexScalarQuantizer(dimension, faiss.ScalarQuantizer.QT_8bit, faiss.METRIC_INNER_PRODUCT)
        with _one_thread():
            codes.train(sample)
            compared.train(_ranges(parts))
            for part in parts:
                for vectors in part.living():
                    check()
                    codes.add(vectors)
                    compared.add(vectors)
            built = cls(codes, compared, RowColumn(rows))
            built._check_recall(sample[:_PROBES])
        return built

    def _check_recall(self, probes: Vector) -> None:
        shares = [
            np.isin(self._scan(probe, _NEAREST, None)[0], self._nearest(probe, _NEAREST, None)[0]) for probe in probes
        ]
        if np.mean(shares) < _RECALL:
            raise ValueError(f"codes find {np.mean(shares):.0%} of the {_NEAREST} nearest vectors")

    def ranges(self) -> Vector:
        """Return the least and the largest value of each component that bytes can hold, shape (2, dimension)."""
        import faiss

        low, span = np.asarray(faiss.vector_to_array(self._compared.sq.trained), dtype=np.float32).reshape(2, -1)
        return np.stack([low, low + span])

    @property
    def size_bytes(self) -> int:
        return int(self._compared.codes.size()) + int(self._codes.codes.size())

    def gather(self, positions: Positions) -> Vector:
        with _one_thread():
            return np.asarray(self._compared.sa_decode(self._bytes[positions]))

    def _nearest(self, query: Vector, limit: int, mask: Mask | None) -> Found:
        """Find the most similar ones; all are compared where the codes would find too few."""
        total = self.rows.used
        admitted = total if mask is None else int(np.count_nonzero(mask))
        wanted = max(_LEAST_CANDIDATES, math.ceil(self._candidates_each * limit))
        asked = wanted if mask is None else math.ceil(1.25 * wanted * total / max(admitted, 1))
        if admitted * _SCAN_BELOW < total or asked * _SCAN_BELOW > total:
            return self._scan(query, limit, mask)
        found, near = self._best_codes(query, limit if mask is None else asked, asked)
        if mask is None:
            return found, near
        there = mask[found]
        if np.count_nonzero(there) < wanted:
            return self._scan(query, limit, mask)
        return found[there][:limit], near[there][:limit]

    def _best_codes(self, query: Vector, limit: int, candidates: int) -> Found:
        import faiss

        # FAISS rounds the product with the limit down, and its stubs do not know the keyword.
        made: Any = faiss.IndexRefineSearchParameters
        params = made(k_factor=(candidates + 0.5) / limit)
        with _one_thread():
            near, found = self._both.search(query[np.newaxis], limit, params=params)
        return found[0], near[0]

    def _scan(self, query: Vector, limit: int, mask: Mask | None) -> Found:
        import faiss

        made: Any = faiss.SearchParameters
        params = None if mask is None else made(sel=_selector(mask))
        with _one_thread():
            near, found = self._compared.search(query[np.newaxis], min(limit, self.rows.used), params=params)
        return found[0], near[0]

    def saved(self) -> dict[str, NDArray[Any]]:
        """Return arrays by name, which `restore` takes."""
        import faiss

        return {
            "rows": self.rows.rows.astype("<i8"),
            "dead": np.flatnonzero(~self.rows.live).astype("<i8"),
            "codes": faiss.serialize_index(self._codes),
            "compared": faiss.serialize_index(self._compared),
        }

    @classmethod
    def restore(cls, saved: Mapping[str, NDArray[Any]]) -> _Indexed:
        """Return the index that was saved; its vectors stay in that memory, which may be a file's.

        Raises:
            ValueError, KeyError, RuntimeError: it is none.
        """
        import faiss

        reader: Any = faiss.ZeroCopyIOReader  # type: ignore[attr-defined] # FAISS's stubs do not know it.
        held = [saved[name] for name in ("codes", "compared")]
        codes, compared = (faiss.read_index(reader(faiss.swig_ptr(memory), memory.nbytes)) for memory in held)
        if (type(codes), type(compared)) != (faiss.IndexPQFastScan, faiss.IndexScalarQuantizer):
            raise ValueError("its index is of another kind")
        if not codes.ntotal == compared.ntotal == len(saved["rows"]):
            raise ValueError("its index is not that of its rows")
        restored = cls(codes, compared, RowColumn(saved["rows"], saved["dead"]))
        restored._memory = held
        return restored


def _sampled(part: _Part, total: int) -> Vector:
    """Return vectors of a part, so that some thousand are taken evenly of all parts."""
    positions = part.rows.live_positions()
    count = min(len(positions), math.ceil(_TRAINED_ON * len(positions) / total))
    return part.gather(np.sort(np.random.default_rng(total).choice(positions, count, replace=False)))


def _ranges(parts: Sequence[_Part]) -> Vector:
    """Return the range of each component, shape (2, dimension): that of the index among the parts where it suffices.

    So the bytes of an index that is built out of another one are mostly those of before.
    """
    blocks = [part.living() for part in parts if not isinstance(part, _Indexed)]
    ends = [(vectors.min(axis=0), vectors.max(axis=0)) for vectors in (one for each in blocks for one in each)]
    known = [part.ranges() for part in parts if isinstance(part, _Indexed)]
    low, high = np.min([low for low, _ in ends + known], axis=0), np.max([high for _, high in ends + known], axis=0)
    margin = _MARGIN * (high - low)
    if not known:
        return np.stack([low - margin, high + margin])
    ((before_low, before_high),) = known
    return np.stack([np.where(low < before_low, low - margin, low), np.where(high > before_high, high + margin, high)])


class _Build:
    """An index being built out of parts, which do not change meanwhile."""

    def __init__(self, parts: Sequence[_Part], recent: int, executor: Executor) -> None:
        """Start the work; removals since are appended to `removed`."""
        self.recent = recent
        """Number of recent vectors that the index will have."""
        self.removed: list[Rows] = []
        self._cancelled = threading.Event()
        self._executor, self._process = executor, os.getpid()
        self._future: Future[_Indexed] = executor.submit(_Indexed.build, parts, self._check)

    @property
    def is_lost(self) -> bool:
        """Whether it goes on in the process that this one was forked from, and not here."""
        return self._process != os.getpid()

    def done(self) -> bool:
        """Whether there is a result."""
        return self._future.done()

    def result(self) -> _Indexed:
        """Wait for the index, without what was removed meanwhile; raises what the work raised."""
        try:
            built = self._future.result()
        finally:
            self._executor.shutdown(wait=False)
        for rows in self.removed:
            built.rows.remove(rows)
        return built

    def cancel(self) -> None:
        """Stop the work after the present step, and wait for that."""
        self._cancelled.set()
        self._future.cancel()
        self._executor.shutdown(wait=True)

    def _check(self) -> None:
        if self._cancelled.is_set():
            raise CancelledError


def _background() -> Executor:
    return ThreadPoolExecutor(max_workers=1, thread_name_prefix="devmem-index")


class VectorReader:
    """Unit vectors of one dimension, searched by inner product: a snapshot of a `VectorIndex`."""

    def __init__(self, dimension: int, parts: Sequence[_Part]) -> None:
        self.dimension = dimension
        """Number of components of a vector."""
        self._parts = [part for part in parts if len(part)]

    @property
    def size_bytes(self) -> int:
        """Memory of the vectors."""
        return sum(part.size_bytes for part in self._parts)

    def contains(self, rows: Rows) -> NDArray[np.bool_]:
        """Return for each row whether it is in the index."""
        found = np.zeros(len(rows), dtype=np.bool_)
        for part in self._parts:
            found |= part.rows.positions(rows) >= 0
        return found

    def nearest(self, query: Vector, limit: int, allowed: Rows | None = None) -> tuple[Rows, Vector]:
        """Return the rows most similar to the query with their similarities, best first.

        Args:
            query: unit vector, shape (dimension,).
            limit: maximum number of rows.
            allowed: restricts the rows; None does not.
        """
        if limit <= 0 or not self._parts:
            return np.empty(0, dtype=np.int64), np.empty(0, dtype=np.float32)
        query = np.ascontiguousarray(query, dtype=np.float32)
        each = [part.nearest(query, limit, allowed) for part in self._parts]
        rows, near = (np.concatenate(column) for column in zip(*each, strict=True))
        best = np.argsort(-near, kind="stable")[:limit]
        return rows[best], near[best]

    def gather(self, rows: Rows) -> Vector:
        """Return the vectors of some rows, shape (n, dimension); zeros for a row that has none."""
        found = np.zeros((len(rows), self.dimension), dtype=np.float32)
        for part in self._parts:
            positions = part.rows.positions(rows)
            there = positions >= 0
            if there.any():
                found[there] = part.gather(positions[there])
        return found

    def similarities(self, query: Vector, rows: Rows) -> NDArray[np.float64]:
        """Return the cosine of the query and each row; NaN for a row that has no vector."""
        there = self.contains(rows)
        found = np.full(len(rows), np.nan)
        found[there] = _products(self.gather(rows[there]), query)
        return found


class VectorIndex:
    """Unit vectors of one dimension, which can be added and removed. Not thread-safe but for its readers."""

    def __init__(
        self, dimension: int, config: IndexConfig | None = None, *, executor: Callable[[], Executor] = _background
    ) -> None:
        """Make an empty index.

        Args:
            dimension: number of components of a vector.
            config: how it is searched; None takes the defaults.
            executor: makes what runs the building of an index; it is shut down afterwards.
        """
        self.dimension = dimension
        threshold = (config or IndexConfig()).threshold()
        self._threshold = None if dimension < 2 else threshold
        self._executor = executor
        self._indexed: _Indexed | None = None
        self._recent = _Recent(np.empty((0, dimension), dtype=np.float32), np.empty(0, dtype=np.int64))
        self._build: _Build | None = None
        self._not_below = 0

    def __len__(self) -> int:
        return sum(map(len, self._parts()))

    @property
    def approximate(self) -> bool:
        """Whether candidates are found by codes."""
        return self._indexed is not None

    def contains(self, rows: Rows) -> NDArray[np.bool_]:
        """Return for each row whether it is in the index."""
        return VectorReader(self.dimension, self._parts()).contains(rows)

    def _parts(self) -> list[_Part]:
        return [self._recent] if self._indexed is None else [self._indexed, self._recent]

    def reader(self) -> VectorReader:
        """Return a snapshot to search, which later changes do not affect.

        This is where an index that is due begins to be built, and where a finished one is taken into use: vectors that
        are not searched need none.
        """
        if self._build is not None and self._build.is_lost:
            self._build = None
        if self._build is not None and self._build.done():
            self._take_over(self._build)
        if self._build is None and self._is_due():
            parts = [part.view() for part in self._parts() if len(part)]
            self._build = _Build(parts, self._recent.rows.used, self._executor())
        return VectorReader(self.dimension, [part.view() for part in self._parts()])

    def has_news(self) -> bool:
        """Whether the next reader differs from the last one although nothing was added or removed."""
        return self._build is not None and (self._build.is_lost or self._build.done())

    def add(self, rows: Rows, vectors: Vector) -> None:
        """Append rows, shape (n,), none of which is in the index, with their vectors, shape (n, dimension)."""
        self._recent.add(rows, vectors)

    def remove(self, rows: Rows) -> None:
        """Drop the rows; those that are not in the index are passed over."""
        for part in self._parts():
            part.rows.remove(rows)
        if self._build is not None:
            self._build.removed.append(rows)
        elif self._has_many_dead() and len(self) < (self._threshold or 0):
            # The few that are left are compared one and all.
            left = VectorReader(self.dimension, self._parts())
            kept = np.concatenate([part.rows.rows[part.rows.live_positions()] for part in self._parts()])
            self._indexed, self._recent = None, _Recent(left.gather(kept), kept)
        elif self._recent.rows.dead > max(_FEW, self._recent.rows.used // _MOST_DEAD):
            self._recent = self._recent.since(0)

    def wait_for_build(self) -> None:
        """Wait for the index that is due or being built."""
        self.reader()
        if self._build is not None:
            self._take_over(self._build)

    def close(self) -> None:
        """Cancel the build that is running."""
        if self._build is not None and not self._build.is_lost:
            self._build.cancel()
        self._build = None

    def _is_due(self) -> bool:
        total = len(self)
        if self._threshold is None or total < max(self._threshold, self._not_below):
            return False
        return len(self._recent) >= max(self._threshold, (total - len(self._recent)) // _GROWTH) or (
            self._has_many_dead()
        )

    def _has_many_dead(self) -> bool:
        return self._indexed is not None and self._indexed.rows.dead * _MOST_DEAD > self._indexed.rows.used

    def _take_over(self, build: _Build) -> None:
        self._build = None
        try:
            self._indexed = build.result()
        except (ValueError, RuntimeError, MemoryError) as error:
            # RuntimeError is what FAISS raises. With twice as many vectors it is tried again.
            self._not_below = 2 * len(self)
            _LOG.warning("the index of %d vectors was not built (%s); all are compared.", len(self), error)
        else:
            self._recent = self._recent.since(build.recent)

    def parts(self) -> dict[str, NDArray[Any]]:
        """Return arrays by name, which `restore` takes: those of the index, nothing of recent vectors."""
        return {} if self._indexed is None else self._indexed.saved()

    @classmethod
    def restore(cls, parts: Mapping[str, NDArray[Any]], config: IndexConfig | None = None) -> VectorIndex:
        """Return the index that `parts` was made of.

        Raises:
            ValueError, KeyError, RuntimeError: they are not such parts, or not what the configuration wants.
        """
        indexed = _Indexed.restore(parts)
        restored = cls(indexed.dimension, config)
        if restored._threshold is None:
            raise ValueError("it is approximate, and an exact search is wanted")
        restored._indexed = indexed
        return restored
