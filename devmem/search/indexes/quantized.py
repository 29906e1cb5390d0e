"""Vectors in memory: as float32, as bytes, and the approximate index.

The approximate index finds vectors by short codes and compares the best of them by their bytes. The codes are those of
product quantization with 4 bits (Jégou, Douze and Schmid, "Product Quantization for Nearest Neighbor Search", 2011;
André, Kermarrec and Le Scouarnec, "Quicker ADC", 2019), scanned whole: the tables that they are looked up in stay in
the processor's registers. The number of best codes that are compared by their bytes is measured when the index is
built, as it depends on how many vectors there are and how close they are to each other.

A vector is rounded to the same bytes in every index, whatever lies beside it, so that its similarity to a query does
not depend on the store that holds it.
"""

from __future__ import annotations

import copy
import hashlib
import math
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final, Self

import numpy as np
from numpy.typing import NDArray

from devmem.model.items import Vector
from devmem.search.indexes.columns import Positions, computed_once, with_room

if TYPE_CHECKING:
    import faiss


@contextmanager
def one_thread() -> Iterator[None]:
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


_STEPS: Final = 255
_BEYOND: Final = 1e-5
"""Maximum share of the components of random vectors that are beyond the range and cut off. Of 31,350 real vectors, 3 in
10,000 have one; a wider range would round all others more coarsely."""
_ROUNDINGS: Final = 2


def rounded(vectors: Vector) -> Vector:
    """Round rotated unit vectors, shape (n, dimension), to values that a byte a component holds unchanged.

    Of a few scales for each vector, the one is taken whose product with the vector itself is nearest to 1, in spite of
    rounding and of components that are cut off: the higher a similarity, the smaller is its error.
    """
    index, found = _byte_index(vectors.shape[1]), np.zeros_like(vectors)
    least, scales = np.ones(len(vectors), dtype=np.float32), np.ones((len(vectors), 1), dtype=np.float32)
    with one_thread():
        for _ in range(_ROUNDINGS if len(vectors) else 0):
            tried = index.sa_decode(index.sa_encode(vectors * scales))
            errors = np.einsum("ij,ij->i", tried, vectors) - 1
            better = np.abs(errors) < least
            found[better], least[better] = tried[better], np.abs(errors[better])
            scales -= errors[:, np.newaxis]
    return found


def _reach(dimension: int) -> float:
    """Return the largest absolute value of a component: of a random unit vector, few are larger.

    The chance of one above `x` is about `(1 - x²) ** ((dimension - 1) / 2)`. Of 384 components, the result is 4.7
    standard deviations.
    """
    return math.sqrt(1 - _BEYOND ** (2 / max(dimension - 1, 1)))


class ByteVectors:
    """Unit vectors with one byte a component, all of which are compared; none can be added."""

    def __init__(self, index: faiss.IndexScalarQuantizer) -> None:
        self._index = index

    def __len__(self) -> int:
        return int(self._index.ntotal)

    @classmethod
    def of(cls, vectors: Vector) -> ByteVectors:
        """Return the index of some rounded vectors, shape (n, dimension), n at least 1."""
        index = _byte_index(vectors.shape[1])
        with one_thread():
            index.add(vectors)
        return cls(index)

    @property
    def dimension(self) -> int:
        """Number of components of a vector."""
        return int(self._index.d)

    @property
    def gathered_up_to(self) -> int:
        """Number of allowed vectors up to which they are copied and multiplied, not scanned."""
        return 2000

    def gather(self, positions: Positions) -> Vector:
        """Copy the vectors at some positions, shape (n, dimension)."""
        codes, step, first = self._decoding
        found: Vector = codes[positions].astype(np.float32)
        found *= step
        found += first
        return found

    @computed_once
    def _decoding(self) -> tuple[NDArray[np.uint8], Vector, Vector]:
        """View of the codes, which FAISS never moves; step and first value of each component."""
        import faiss

        kept: Any = self._index.codes
        codes = np.asarray(faiss.rev_swig_ptr(kept.data(), kept.size())).reshape(-1, self._index.d)
        ranges: Vector = np.asarray(faiss.vector_to_array(self._index.sq.trained), dtype=np.float32).reshape(2, -1)
        step: Vector = (ranges[1] / _STEPS).astype(np.float32)
        return codes, step, (ranges[0] + step / 2).astype(np.float32)

    def search(self, query: Vector, limit: int, mask: Mask | None) -> Found:
        """Find the vectors most similar to the query, shape (dimension,), among those that the mask lets through."""
        return scan(self._index, query, limit, mask)


def _byte_index(dimension: int, padded: int | None = None) -> faiss.IndexScalarQuantizer:
    """Return an empty index of vectors of some dimension, or of those padded with zeros."""
    import faiss

    length = padded or dimension
    index = faiss.IndexScalarQuantizer(length, faiss.ScalarQuantizer.QT_8bit, faiss.METRIC_INNER_PRODUCT)
    reach = _reach(dimension)
    span = np.full(length, 2 * reach)
    # Every component's steps begin elsewhere (dithering), so that the errors of components of one size do not add up.
    first = span * (_fractions(length) / _STEPS - 0.5)
    faiss.copy_array_to_vector(np.concatenate([first, span]).astype(np.float32), index.sq.trained)
    index.is_trained = True
    return index


def _fractions(length: int) -> NDArray[np.float64]:
    """Return fixed random numbers between -0.5 and 0.5, shape (length,)."""
    drawn = hashlib.shake_128(b"steps").digest(length)
    return (np.frombuffer(drawn, dtype=np.uint8) + 0.5) / 256 - 0.5


_MOST_PARTS: Final = 256
"""Maximum number of parts of at least two dimensions that a vector is cut into; each becomes 4 bits."""
_CENTROIDS: Final = 16
_TRAINED_ON: Final = 1024
_ROUNDS: Final = 10
"""Codes learned in 10 rounds from 1,024 vectors find as much as in 25 rounds from 8,192, in a tenth of the time."""
_BLOCK: Final = 8192
_PROBES: Final = 32
_FEW: Final = 10
_MANY: Final = 200
"""Numbers of nearest vectors for which the candidates are measured; a collection asks for the second."""
_RECALL: Final = 0.99
"""Share of the nearest ones that must be found when the index is built."""
_CANDIDATES: Final = (100, 200, 300, 400, 500, 600, 800, 1000, 1200, 1400, 1600, 2000, 2400, 3200)
_LEAST_EACH: Final = 4
_LEAST_SPARE: Final = 200
"""Candidates compared at least for each vector that is asked for, and beyond those: between few and many nearest ones
more are needed than the measured numbers of both tell."""
_UNMEASURED_EACH: Final = 6.0
"""Candidates for each vector that is asked for, in an index of a version that did not measure them: enough for 300,000
generated vectors."""
_GATHERED: Final = 500
"""Copying one vector costs as much as passing over this many."""
_SCAN_BELOW: Final = 8
"""When fewer than one in this many vectors are allowed, or more are candidates, the vectors themselves are scanned."""


class QuantizationError(ValueError):
    """The codes do not tell these vectors apart well enough."""


class QuantizedVectors:
    """Unit vectors with a byte a component and a code each; none can be added."""

    def __init__(self, dimension: int, full: faiss.IndexScalarQuantizer, codes: faiss.IndexPQFastScan) -> None:
        self.dimension = dimension
        import faiss

        self._full, self._codes = full, codes
        self._bytes = ByteVectors(full)
        # Orders the best codes by the vectors themselves.
        self._compared = faiss.IndexRefine(codes, full)
        self.candidates = _CANDIDATES[0]
        """Minimum number of best codes that are compared as vectors."""
        self.candidates_each = _UNMEASURED_EACH
        """Number of best codes that are compared for each vector that is asked for."""
        self._memory: tuple[NDArray[Any], ...] = ()
        """Memory that FAISS reads from without a copy."""

    def __len__(self) -> int:
        return int(self._full.ntotal)

    @classmethod
    def build(cls, count: int, gather: Callable[[Positions], Vector], check: Callable[[], None]) -> QuantizedVectors:
        """Build the index of `count` vectors, which `gather` returns by position.

        Args:
            count: number of vectors.
            gather: returns the rounded vectors at positions, shape (positions, dimension).
            check: called between the steps; an exception from it ends the work.

        Raises:
            QuantizationError: not enough of the nearest ones are found by their codes.
        """
        with one_thread():
            sample = gather(_spread(count, _TRAINED_ON))
            dimension = sample.shape[1]
            codes = _empty_codes(dimension)
            codes.train(_padded(sample, codes.d))
            check()
            full = _byte_index(dimension, codes.d)
            for start in range(0, count, _BLOCK):
                positions = np.arange(start, min(count, start + _BLOCK), dtype=np.int64)
                block = _padded(gather(positions), codes.d)
                full.add(block)
                codes.add(block)
                check()
            made = cls(dimension, full, codes)
            made._measure_candidates(sample, check)
        return made

    @property
    def gathered_up_to(self) -> int:
        """Number of allowed vectors up to which they are copied and multiplied, not scanned."""
        return len(self) // _GATHERED

    def gather(self, positions: Positions) -> Vector:
        """Copy the vectors at some positions, shape (n, dimension)."""
        return self._bytes.gather(positions)[:, : self.dimension]

    def search(self, query: Vector, limit: int, mask: Mask | None) -> Found:
        """Find the vectors most similar to the query, shape (dimension,); exact where the codes would find too few."""
        query = _padded(query.reshape(1, -1), self._codes.d)
        live = len(self) if mask is None else int(np.count_nonzero(mask))
        wanted = max(
            self.candidates, min(_LEAST_EACH * limit, limit + _LEAST_SPARE), math.ceil(self.candidates_each * limit)
        )
        asked = wanted if mask is None else math.ceil(1.25 * wanted * len(self) / max(live, 1))
        if not live or asked * _SCAN_BELOW > len(self) or live * _SCAN_BELOW < len(self):
            return scan(self._full, query, limit, mask)
        found = self._best_codes(query, limit if mask is None else asked, asked)
        return self._admitted(query, found, limit, wanted, mask)

    def _best_codes(self, query: Vector, limit: int, candidates: int) -> Found:
        """Return the vectors most similar to the query, shape (1, dimension), of some number of best codes."""
        import faiss

        # FAISS rounds the product with the limit down, and its stubs do not know the keyword.
        made: Any = faiss.IndexRefineSearchParameters
        with one_thread():
            (near,), (positions,) = self._compared.search(
                query, limit, params=made(k_factor=(candidates + 0.5) / limit)
            )
        return positions, near

    def _admitted(self, query: Vector, found: Found, limit: int, wanted: int, mask: Mask | None) -> Found:
        """Keep what the mask lets through, and scan all vectors when that is too little."""
        if mask is not None:
            admitted = mask[found[0]]
            if np.count_nonzero(admitted) < wanted:
                return scan(self._full, query, limit, mask)
            found = found[0][admitted], found[1][admitted]
        return found[0][:limit], found[1][:limit]

    def _measure_candidates(self, sample: Vector, check: Callable[[], None]) -> None:
        """Measure with queries near some of the vectors how many candidates contain the few and the many nearest."""
        chance = np.random.default_rng(len(self))
        probes = sample[chance.permutation(len(sample))[:_PROBES]]
        noise = chance.standard_normal(probes.shape, dtype=np.float32)
        probes = _padded(probes + 0.5 * noise / np.linalg.norm(noise, axis=1, keepdims=True), self._codes.d)
        nearest = []
        for probe in probes:
            nearest.append(scan(self._full, probe, _MANY, None)[0])
            check()
        _, coded = self._codes.search(probes, min(_CANDIDATES[-1], len(self)))

        def enough(count: int) -> int | None:
            for candidates in _CANDIDATES:
                found = zip(nearest, coded, strict=True)
                shares = [np.isin(true[:count], near[:candidates]).mean() for true, near in found]
                if np.mean(shares) >= _RECALL:
                    return candidates
            return None

        few, many = enough(_FEW), enough(_MANY)
        if few is None:
            raise QuantizationError(
                f"more than {1 - _RECALL:.0%} of the {_FEW} nearest vectors are not among the best codes"
            )
        self.candidates, self.candidates_each = few, (many or _CANDIDATES[-1]) / _MANY

    def parts(self) -> dict[str, NDArray[Any]]:
        """Return arrays by name, which `restore` takes."""
        import faiss

        return {
            "full": faiss.serialize_index(self._full),
            "codes": faiss.serialize_index(self._codes),
            "figures": np.array([self.dimension, self.candidates], dtype="<i8"),
            "each": np.array([self.candidates_each], dtype="<f8"),
        }

    @classmethod
    def restore(cls, parts: Mapping[str, NDArray[Any]]) -> QuantizedVectors:
        """Return the index that `parts` was made of; the vectors stay in that memory, which may be a file's.

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
        restored = cls(dimension, full, codes)
        restored.candidates = candidates
        if "each" in parts:
            (restored.candidates_each,) = parts["each"].tolist()
        restored._memory = (parts["full"], parts["codes"])
        return restored


def _read(memory: NDArray[np.uint8]) -> Any:  # noqa: ANN401 - FAISS has an own type for every kind
    """Read an index that stays in the memory it is read from, as far as FAISS can."""
    import faiss

    reader: Any = faiss.ZeroCopyIOReader  # type: ignore[attr-defined] # FAISS's stubs do not know it.
    return faiss.read_index(reader(faiss.swig_ptr(memory), memory.nbytes))


def _empty_codes(dimension: int) -> faiss.IndexPQFastScan:
    import faiss

    each = max(2, math.ceil(dimension / _MOST_PARTS))
    parts = math.ceil(dimension / each)
    codes = faiss.IndexPQFastScan(parts * each, parts, 4, faiss.METRIC_INNER_PRODUCT)
    # FAISS would warn on stderr that there could be more training vectors.
    codes.pq.cp.min_points_per_centroid = 1
    codes.pq.cp.niter = _ROUNDS
    return codes


def _padded(vectors: Vector, dimension: int) -> Vector:
    """Pad with zeros, which change no product, up to a multiple of the parts."""
    missing = dimension - vectors.shape[1]
    return np.ascontiguousarray(np.pad(vectors, ((0, 0), (0, missing))) if missing else vectors, dtype=np.float32)


def _spread(count: int, most: int) -> Positions:
    """Return positions sampled evenly, ascending."""
    if count <= most:
        return np.arange(count, dtype=np.int64)
    return np.sort(np.random.default_rng(count).choice(count, most, replace=False))
