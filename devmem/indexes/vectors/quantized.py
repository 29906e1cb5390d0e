"""Vectors that are found by short codes and compared as they are: the approximate index.

The codes are those of product quantization with 4 bits (Jégou, Douze and Schmid, "Product Quantization for Nearest
Neighbor Search", 2011; André, Kermarrec and Le Scouarnec, "Quicker ADC", 2019), scanned whole: the tables that they are
looked up in stay in the processor's registers. How many of the best codes are compared with the vectors themselves is
measured when the index is made.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from numpy.typing import NDArray

from devmem.indexes.top_k import Positions
from devmem.indexes.vectors.exact import Found, Mask, scan
from devmem.indexes.vectors.float16 import widen
from devmem.indexes.vectors.threads import one_thread
from devmem.model.items import Vector

if TYPE_CHECKING:
    import faiss

_MOST_PARTS: Final = 256
"""A vector is cut into so many parts of at least two dimensions, each of which becomes 4 bits."""
_CENTROIDS: Final = 16
_TRAINED_ON: Final = 1024
_ROUNDS: Final = 10
"""Codes learned in so many rounds from so many vectors find as much as those of 25 rounds and 8,192, in a tenth of the
time."""
_BLOCK: Final = 8192
_PROBES: Final = 32
_NEIGHBOURS: Final = 10
_RECALL: Final = 0.99
"""Share of the `_NEIGHBOURS` nearest ones that must be found when the index is made."""
_CANDIDATES: Final = (100, 200, 400, 800, 1600, 3200)
_CANDIDATES_EACH: Final = 4
_SPARE: Final = 200
"""So many candidates are compared for each vector that is asked for, but no more than so many beyond them: of many
vectors the last ones need not be the very nearest."""
_GATHERED: Final = 500
"""To copy one vector out costs as much as to pass over so many."""
_SCAN_BELOW: Final = 8
"""When fewer than one in so many vectors are allowed, or candidates, the vectors themselves are scanned."""


class QuantizationError(ValueError):
    """The codes do not tell these vectors apart well enough."""


class QuantizedVectors:
    """Unit vectors as float16 with a code each; none can be added."""

    def __init__(
        self, dimension: int, full: faiss.IndexScalarQuantizer, codes: faiss.IndexPQFastScan, candidates: int
    ) -> None:
        self.dimension = dimension
        import faiss

        self._full, self._codes = full, codes
        # Gives as many as it is asked for, ordered by the vectors themselves.
        self._compared = faiss.IndexRefine(codes, full)
        self.candidates = candidates
        """So many of the best codes are compared as vectors."""
        self._memory: tuple[NDArray[Any], ...] = ()
        """What FAISS reads from without a copy."""

    def __len__(self) -> int:
        return int(self._full.ntotal)

    @classmethod
    def build(cls, count: int, gather: Callable[[Positions], Vector], check: Callable[[], None]) -> QuantizedVectors:
        """Make the index of `count` vectors, which `gather` gives by position.

        Args:
            count: number of vectors.
            gather: gives the vectors at positions, shape (positions, dimension).
            check: called between the steps; what it raises ends the work.

        Raises:
            QuantizationError: not enough of the nearest ones are found by their codes.
        """
        with one_thread():
            sample = gather(_spread(count, _TRAINED_ON))
            dimension = sample.shape[1]
            full, codes = _empty(dimension)
            codes.train(_padded(sample, codes.d))
            check()
            for start in range(0, count, _BLOCK):
                positions = np.arange(start, min(count, start + _BLOCK), dtype=np.int64)
                block = _padded(gather(positions), codes.d)
                full.add(block)
                codes.add(block)
                check()
            made = cls(dimension, full, codes, _CANDIDATES[0])
            made.candidates = made._enough_candidates(sample, check)
        return made

    @property
    def gathered_up_to(self) -> int:
        """So many allowed vectors are copied and multiplied rather than scanned for."""
        return len(self) // _GATHERED

    def gather(self, positions: Positions) -> Vector:
        """Copy some of them, shape (n, dimension)."""
        return widen(self._halves[positions])[:, : self.dimension]

    @cached_property
    def _halves(self) -> NDArray[np.float16]:
        """The vectors as they are kept, which nothing moves."""
        import faiss

        kept: Any = self._full.codes
        return np.asarray(faiss.rev_swig_ptr(kept.data(), kept.size())).view(np.float16).reshape(-1, self._full.d)

    def search(self, query: Vector, limit: int, mask: Mask | None) -> Found:
        """Find the vectors most similar to the query, shape (dimension,), comparing with all if need be."""
        query = _padded(query.reshape(1, -1), self._codes.d)
        live = len(self) if mask is None else int(np.count_nonzero(mask))
        wanted = max(self.candidates, min(_CANDIDATES_EACH * limit, limit + _SPARE))
        asked = wanted if mask is None else math.ceil(1.25 * wanted * len(self) / max(live, 1))
        if not live or asked * _SCAN_BELOW > len(self) or live * _SCAN_BELOW < len(self):
            return scan(self._full, query, limit, mask)
        with one_thread():
            (near,), (positions,) = self._compared.search(query, asked)
        return self._admitted(query, (positions, near), limit, wanted, mask)

    def _admitted(self, query: Vector, found: Found, limit: int, wanted: int, mask: Mask | None) -> Found:
        """Take what the mask lets through; when that is too little, it lies where the query is not."""
        if mask is not None:
            admitted = mask[found[0]]
            if np.count_nonzero(admitted) < wanted:
                return scan(self._full, query, limit, mask)
            found = found[0][admitted], found[1][admitted]
        return found[0][:limit], found[1][:limit]

    def _enough_candidates(self, sample: Vector, check: Callable[[], None]) -> int:
        """Measure with queries near some of the vectors how many candidates hold the nearest ones."""
        chance = np.random.default_rng(len(self))
        probes = sample[chance.permutation(len(sample))[:_PROBES]]
        noise = chance.standard_normal(probes.shape, dtype=np.float32)
        probes = _padded(probes + 0.5 * noise / np.linalg.norm(noise, axis=1, keepdims=True), self._codes.d)
        nearest = []
        for probe in probes:
            nearest.append(scan(self._full, probe, _NEIGHBOURS, None)[0])
            check()
        for candidates in _CANDIDATES:
            _, found = self._codes.search(probes, min(candidates, len(self)))
            shares = [np.isin(true, near).mean() for true, near in zip(nearest, found, strict=True)]
            if np.mean(shares) >= _RECALL:
                return candidates
        raise QuantizationError(
            f"more than {1 - _RECALL:.0%} of the {_NEIGHBOURS} nearest vectors are not among the best codes"
        )

    def parts(self) -> dict[str, NDArray[Any]]:
        """Give what `restore` takes."""
        import faiss

        return {
            "full": faiss.serialize_index(self._full),
            "codes": faiss.serialize_index(self._codes),
            "figures": np.array([self.dimension, self.candidates], dtype="<i8"),
        }

    @classmethod
    def restore(cls, parts: Mapping[str, NDArray[Any]]) -> QuantizedVectors:
        """Make the index from the parts that `parts` gave; the vectors stay in that memory, which may be a file's.

        Raises:
            ValueError, KeyError, RuntimeError: they are not such parts.
        """
        import faiss

        full, codes = _read(parts["full"]), _read(parts["codes"])
        if (type(full), type(codes)) != (faiss.IndexScalarQuantizer, faiss.IndexPQFastScan):
            raise ValueError("its index is of another kind")
        if full.ntotal != codes.ntotal:
            raise ValueError("its codes are not those of its vectors")
        dimension, candidates = parts["figures"].tolist()
        restored = cls(dimension, full, codes, candidates)
        restored._memory = (parts["full"], parts["codes"])
        return restored


def _read(memory: NDArray[np.uint8]) -> Any:  # noqa: ANN401 - FAISS has an own type for every kind
    """Make an index that stays in the memory it is read from, as far as FAISS can."""
    import faiss

    reader: Any = faiss.ZeroCopyIOReader  # type: ignore[attr-defined] # FAISS's stubs do not know it.
    return faiss.read_index(reader(faiss.swig_ptr(memory), memory.nbytes))


def _empty(dimension: int) -> tuple[faiss.IndexScalarQuantizer, faiss.IndexPQFastScan]:
    import faiss

    product = faiss.METRIC_INNER_PRODUCT
    each = max(2, math.ceil(dimension / _MOST_PARTS))
    parts = math.ceil(dimension / each)
    full = faiss.IndexScalarQuantizer(parts * each, faiss.ScalarQuantizer.QT_fp16, product)
    codes = faiss.IndexPQFastScan(parts * each, parts, 4, product)
    # FAISS would say on stderr that so few vectors could be more.
    codes.pq.cp.min_points_per_centroid = 1
    codes.pq.cp.niter = _ROUNDS
    return full, codes


def _padded(vectors: Vector, dimension: int) -> Vector:
    """Add zeros, which change no product, up to a multiple of the parts."""
    missing = dimension - vectors.shape[1]
    return np.ascontiguousarray(np.pad(vectors, ((0, 0), (0, missing))) if missing else vectors, dtype=np.float32)


def _spread(count: int, most: int) -> Positions:
    """Choose positions all over, in order."""
    if count <= most:
        return np.arange(count, dtype=np.int64)
    return np.sort(np.random.default_rng(count).choice(count, most, replace=False))
