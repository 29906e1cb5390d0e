"""The vector index: rows of the database, known by number, and which of them are nearest to a query.

New rows are compared one and all, and once they are some hundreds with one byte a component. When there are many, an
approximate index of them is built in the background and replaces them; until then, and when that fails, all are
compared. Vectors are rotated and, once there are some hundreds, rounded: the similarity of a row is the same whichever
part of the index holds it, and in every index that rounds.
"""

from __future__ import annotations

import copy
import logging
import os
import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from typing import Any, Final, Protocol, Self

import numpy as np
from numpy.typing import NDArray

from devmem.config.store import IndexConfig
from devmem.model.items import Vector
from devmem.search.indexes.columns import Mask, Positions, RowColumn, Rows
from devmem.search.indexes.quantized import ByteVectors, ExactVectors, Found, QuantizedVectors, rounded
from devmem.search.indexes.rotation import rotated, rotated_query

_ON_ONE_THREAD: Final = 400_000
"""Number of multiplications of a product for which OpenBLAS starts no threads: they would wait actively afterwards."""


def products(vectors: Vector, query: Vector) -> Vector:
    """Return the dot product of each vector, shape (n, dimension), with a query, on this thread alone."""
    count = max(1, _ON_ONE_THREAD // max(1, len(query)))
    if len(vectors) <= count:
        return vectors @ query
    return np.concatenate([vectors[start : start + count] @ query for start in range(0, len(vectors), count)])


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
        similarities = products(self.vectors.gather(positions), query)
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


class BuildCancelledError(Exception):
    """The index is not needed any more."""


class Build:
    """One approximate segment being built out of others, which do not change meanwhile."""

    def __init__(self, sources: Sequence[Segment], executor: Executor) -> None:
        """Start the work; later removals are reported to `remove`.

        Args:
            sources: segments that the built one replaces.
            executor: runs the work, and is shut down afterwards.
        """
        self._removed: list[Rows] = []
        self._cancelled = threading.Event()
        self._executor, self._process = executor, os.getpid()
        self.sources: Final = len(sources)
        """Number of segments that the built one replaces: the first ones of the index."""
        merged = _Merged([(source, *source.living()) for source in sources])
        self._future: Future[Segment] = executor.submit(_build, merged, self._check)

    def remove(self, rows: Rows) -> None:
        """Note rows that are removed while the work goes on."""
        self._removed.append(rows)

    @property
    def is_lost(self) -> bool:
        """Whether it goes on in the process that this one was forked from, and not here."""
        return self._process != os.getpid()

    def done(self) -> bool:
        """Whether there is a result."""
        return self._future.done()

    def result(self) -> Segment:
        """Wait for the segment, without what was removed meanwhile; raises what the work raised."""
        try:
            built = self._future.result()
        finally:
            self._executor.shutdown(wait=False)
        for rows in self._removed:
            built.rows.remove(rows)
        return built

    def cancel(self) -> None:
        """Stop the work after the present step, and wait for that."""
        self._cancelled.set()
        self._future.cancel()
        self._executor.shutdown(wait=True)

    def _check(self) -> None:
        if self._cancelled.is_set():
            raise BuildCancelledError


class _Merged:
    """The vectors of several segments in the order of their rows."""

    def __init__(self, sources: Sequence[tuple[Segment, Rows, Positions]]) -> None:
        self._segments = [segment for segment, _, _ in sources]
        self._rows = np.concatenate([rows for _, rows, _ in sources])
        self._positions = np.concatenate([positions for _, _, positions in sources])
        self._sources = np.repeat(np.arange(len(sources)), [len(rows) for _, rows, _ in sources])

    def ordered(self) -> Rows:
        """Sort by row and return the rows; called once, before `gather`."""
        order = np.argsort(self._rows, kind="stable")
        self._rows, self._positions, self._sources = self._rows[order], self._positions[order], self._sources[order]
        return self._rows

    def gather(self, places: Positions) -> Vector:
        """Copy the vectors at some places of the order."""
        sources, positions = self._sources[places], self._positions[places]
        found = np.empty((len(places), self._segments[0].vectors.dimension), dtype=np.float32)
        for number, segment in enumerate(self._segments):
            here = sources == number
            found[here] = segment.vectors.gather(positions[here])
        return found


def _build(merged: _Merged, check: Callable[[], None]) -> Segment:
    rows = merged.ordered()
    return Segment(QuantizedVectors.build(len(rows), merged.gather, check), RowColumn(rows))


_LOG: Final = logging.getLogger(__name__)
_GROWTH: Final = 16
"""An approximate index is rebuilt when one part in this many was added, and no fewer than the threshold."""
_MOST_DEAD: Final = 4
"""Removed rows are dropped when they are more than one in this many."""
_FEW: Final = 1024
_SEALED_FROM: Final = 256
"""Number of rows from which a growing segment is sealed, unless the sealed ones hold more."""


def _background() -> Executor:
    return ThreadPoolExecutor(max_workers=1, thread_name_prefix="devmem-index")


class VectorReader:
    """Unit vectors of one dimension, searched by inner product: a snapshot of a `VectorIndex`."""

    def __init__(self, dimension: int, segments: Sequence[Segment]) -> None:
        self.dimension = dimension
        """Number of components of a vector."""
        self._segments = tuple(segments)

    def __len__(self) -> int:
        return sum(len(segment) for segment in self._segments)

    @property
    def approximate(self) -> bool:
        """Whether an approximate index is in use."""
        return any(isinstance(segment.vectors, QuantizedVectors) for segment in self._segments)

    def contains(self, rows: Rows) -> NDArray[np.bool_]:
        """Return for each row whether it is in the index."""
        found = np.zeros(len(rows), dtype=np.bool_)
        for segment in self._segments:
            found |= segment.rows.positions(rows) >= 0
        return found

    def search(self, query: Vector, limit: int, allowed: Rows | None = None) -> Rows:
        """Return the rows most similar to the query, best first; see `nearest`."""
        return self.nearest(query, limit, allowed)[0]

    def nearest(self, query: Vector, limit: int, allowed: Rows | None = None) -> tuple[Rows, Vector]:
        """Return the rows most similar to the query with their similarities, best first.

        Args:
            query: unit vector, shape (dimension,).
            limit: maximum number of rows.
            allowed: restricts the rows; None does not.
        """
        query = rotated_query(query)
        used = [segment for segment in self._segments if len(segment)] if limit > 0 else []
        if len(used) == 1:
            rows, near = used[0].search(query, limit, allowed)
            return rows[:limit], near[:limit]
        found = [(np.empty(0, dtype=np.int64), np.empty(0, dtype=np.float32))]
        found += [segment.search(query, limit, allowed) for segment in used]
        rows, near = (np.concatenate(column) for column in zip(*found, strict=True))
        if len(found) > 2:
            best = np.argsort(-near, kind="stable")
            rows, near = rows[best], near[best]
        return rows[:limit], near[:limit]

    def gather(self, rows: Rows) -> Vector:
        """Return the rotated vectors of some rows, shape (n, dimension); zeros for a row that has none."""
        found = np.zeros((len(rows), self.dimension), dtype=np.float32)
        for segment in self._segments:
            positions = segment.rows.positions(rows)
            there = positions >= 0
            if there.any():
                found[there] = segment.vectors.gather(positions[there])
        return found

    def similarities(self, query: Vector, rows: Rows) -> NDArray[np.float64]:
        """Return the cosine of the query and each row; NaN for a row that has no vector."""
        found, query = np.full(len(rows), np.nan), rotated_query(query)
        for segment in self._segments:
            if not len(segment):
                continue
            positions = segment.rows.positions(rows)
            there = positions >= 0
            if there.any():
                found[there] = products(segment.vectors.gather(positions[there]), query)
        return found


class VectorIndex:
    """Unit vectors of one dimension, which can be added and removed. Not thread-safe but for its readers.

    Finished segments come first, then the growing one. An approximate segment is built out of all of them.
    """

    def __init__(
        self, dimension: int, config: IndexConfig | None = None, *, executor: Callable[[], Executor] = _background
    ) -> None:
        """Make an empty index.

        Args:
            dimension: number of components of a vector.
            config: how it is searched; None takes the defaults.
            executor: makes what runs the building of an approximate segment; it is shut down afterwards.
        """
        self.dimension = dimension
        self._threshold = (config or IndexConfig()).threshold()
        self._executor = executor
        self._finished: list[Segment] = []
        self._growing = GrowingSegment.empty(dimension)
        self._rounds = False
        """Whether vectors are rounded when they are added: from the first time that some are kept as bytes."""
        self._build: Build | None = None
        self._not_below = 0

    def __len__(self) -> int:
        return sum(len(segment) for segment in self._segments())

    @property
    def approximate(self) -> bool:
        """Whether an approximate index is in use."""
        return VectorReader(self.dimension, self._finished).approximate

    def contains(self, rows: Rows) -> NDArray[np.bool_]:
        """Return for each row whether it is in the index."""
        return VectorReader(self.dimension, self._segments()).contains(rows)

    def _segments(self) -> list[Segment]:
        return [*self._finished, self._growing]

    def reader(self) -> VectorReader:
        """Return a snapshot to search, which later changes do not affect.

        This is where an approximate index that is due begins to be built, and where a finished one is taken into use:
        an index that is not searched needs none.
        """
        if self._build is not None and self._build.is_lost:
            self._build = None
        if self._build is not None and self._build.done():
            self._take_over(self._build)
        if self._build is None and self._is_due():
            self._finished = [segment for segment in self._segments() if len(segment)]
            self._growing = GrowingSegment.empty(self.dimension)
            self._build = Build([segment.view() for segment in self._finished], self._executor())
        return VectorReader(self.dimension, [segment.view() for segment in self._segments()])

    def has_news(self) -> bool:
        """Whether the next reader differs from the last one although nothing was added or removed."""
        return self._build is not None and (self._build.is_lost or self._build.done())

    def add(self, rows: Rows, vectors: Vector) -> None:
        """Append rows, shape (n,), none of which is in the index, with their vectors, shape (n, dimension)."""
        vectors = rotated(vectors)
        self._growing.add(rows, rounded(vectors) if self._rounds else vectors)
        self._seal()

    def _seal(self) -> None:
        """Keep the growing vectors as bytes, once they are as many as all that are sealed: of few segments each.

        An index that shall be exact keeps its vectors unchanged.
        """
        sealed = sum(segment.rows.used for segment in self._finished if isinstance(segment.vectors, ByteVectors))
        if self._threshold is None or self._growing.rows.used < max(_SEALED_FROM, sealed):
            return
        rows, positions = self._growing.living()
        if len(rows):
            vectors = self._growing.vectors.gather(positions)
            segment = ByteVectors.of(vectors if self._rounds else rounded(vectors))
            self._finished.append(Segment(segment, RowColumn(rows)))
        self._growing, self._rounds = GrowingSegment.empty(self.dimension), True

    def remove(self, rows: Rows) -> None:
        """Drop the rows; those that are not in the index are passed over."""
        for segment in self._segments():
            segment.rows.remove(rows)
        if self._build is not None:
            self._build.remove(rows)
        if self._growing.rows.dead > max(_FEW, self._growing.rows.used // _MOST_DEAD):
            self._growing = self._growing.compacted()
        if self._build is None and len(self) < (self._threshold or 0) and self._has_many_dead():
            self._become_exact()

    def _become_exact(self) -> None:
        """Search the few vectors that are left exactly."""
        left = GrowingSegment.empty(self.dimension)
        for segment in self._segments():
            rows, positions = segment.living()
            left.add(rows, segment.vectors.gather(positions))
        self._finished, self._growing = [], left
        self._seal()

    def wait_for_build(self) -> None:
        """Wait for the approximate index that is due or being built."""
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
        built = sum(len(segment) for segment in self._finished if isinstance(segment.vectors, QuantizedVectors))
        return total - built >= max(self._threshold, built // _GROWTH) or self._has_many_dead()

    def _has_many_dead(self) -> bool:
        dead = sum(segment.rows.dead for segment in self._finished)
        return dead * _MOST_DEAD > len(self) + dead

    def _take_over(self, build: Build) -> None:
        self._build = None
        try:
            # While it was built, the growing segment may have been sealed: those that came last stay.
            self._finished = [build.result(), *self._finished[build.sources :]]
        except (ValueError, RuntimeError, MemoryError) as error:
            # RuntimeError is what FAISS raises. With twice as many vectors it is tried again.
            self._not_below = 2 * len(self)
            _LOG.warning(
                "the approximate index of %d vectors was not built (%s); the search stays exact.", len(self), error
            )

    def parts(self) -> dict[str, NDArray[Any]]:
        """Return arrays by name, which `restore` takes: of the approximate segment, nothing of the others."""
        parts: dict[str, NDArray[Any]] = {}
        for segment in self._finished:
            if isinstance(segment.vectors, QuantizedVectors):
                dead = np.flatnonzero(~segment.rows.live)
                parts |= {
                    "rows": segment.rows.rows.astype("<i8"),
                    "dead": dead.astype("<i8"),
                    **segment.vectors.parts(),
                }
        return parts

    @classmethod
    def restore(cls, parts: Mapping[str, NDArray[Any]], config: IndexConfig | None = None) -> VectorIndex:
        """Return the index of the approximate segment that `parts` was made of; large arrays stay in that memory.

        Raises:
            ValueError, KeyError, RuntimeError: they are not such parts, or not what the configuration wants.
        """
        approximate = QuantizedVectors.restore(parts)
        if len(approximate) != len(parts["rows"]):
            raise ValueError("its approximate index is not one of its rows")
        restored = cls(approximate.dimension, config)
        if restored._threshold is None:
            raise ValueError("it is approximate, and an exact search is wanted")
        column = RowColumn(np.array(parts["rows"]), np.array(parts["dead"]))
        restored._finished.append(Segment(approximate, column))
        restored._rounds = True
        return restored
