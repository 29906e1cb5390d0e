"""Building the approximate index in the background, while searches go on without it."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Executor, Future

import numpy as np

from devmem.indexes.row_column import RowColumn, Rows
from devmem.indexes.top_k import Positions
from devmem.indexes.vectors.quantized import QuantizedVectors
from devmem.indexes.vectors.segment import Segment
from devmem.model.items import Vector


class BuildCancelledError(Exception):
    """The index is not needed any more."""


class Build:
    """One approximate segment being built out of others, which nobody changes meanwhile."""

    def __init__(self, sources: Sequence[Segment], executor: Executor) -> None:
        """Start the work; what is removed from then on is reported to `remove`."""
        self._removed: list[Rows] = []
        self._cancelled = threading.Event()
        self._executor = executor
        merged = _Merged([(source, *source.living()) for source in sources])
        self._future: Future[Segment] = executor.submit(_build, merged, self._check)

    def remove(self, rows: Rows) -> None:
        """Note rows that are removed while the work goes on."""
        self._removed.append(rows)

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
