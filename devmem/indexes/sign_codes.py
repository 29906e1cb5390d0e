"""Sign codes of vectors: one bit for each component after a rotation that spreads every vector over all of them.

The Hamming distance of two codes estimates the angle of their vectors (Charikar, "Similarity Estimation Techniques from
Rounding Algorithms", 2002); with the query's components rounded to 16 steps instead of two the estimate is better, as
in RaBitQ (Gao and Long, 2024). The rotation is that of a randomized Hadamard transform, whose entries are computed
exactly, so that codes of different machines can be compared.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

import numpy as np
from numpy.typing import NDArray

from devmem.indexes.top_k import Positions
from devmem.model.items import Vector
from devmem.ranking import QueryTokens
from devmem.ranking.late_interaction import hamming_distances

SignCodes = NDArray[np.uint8]
"""Shape (n, `code_length(dimension)`)."""

_LEAST_BITS: Final = 512
"""FAISS compares codes of 64 bytes four times as fast as those of 48."""
_REFINED: Final = 4
"""Number of codes that are compared with the rounded query, for each that is wanted."""
_SAMPLE: Final = 1 << 15
"""Number of distances from which a bound for the lowest is estimated, where there are more."""
_MARGIN: Final = 2
"""Factor by which the estimate lets more through, so that enough are almost always found."""


def code_length(dimension: int) -> int:
    """Return the bytes of a vector's code."""
    return max(_LEAST_BITS, 1 << (dimension - 1).bit_length()) // 8


def sign_codes(vectors: Vector) -> SignCodes:
    """Return the codes of some vectors, shape (n, dimension)."""
    return np.packbits(vectors @ _rotation(vectors.shape[1]) > 0, axis=1)


@lru_cache(maxsize=4)
def _rotation(dimension: int) -> Vector:
    """Return the matrix that rotates rows into a space of as many dimensions as codes have bits."""
    bits = 8 * code_length(dimension)
    rotated = np.eye(bits, dimension, dtype=np.float32)
    for turn in range(2):
        raw = hashlib.shake_256(b"devmem sign codes %d" % turn).digest(bits // 8)
        signs = np.unpackbits(np.frombuffer(raw, dtype=np.uint8)).astype(np.float32) * 2 - 1
        rotated = _hadamard(rotated * signs[:, np.newaxis])
    return np.ascontiguousarray(rotated.T / np.float32(bits))


def _hadamard(matrix: Vector) -> Vector:
    """Return the Walsh-Hadamard transform of each column, whose length is a power of two."""
    length, half = len(matrix), 1
    while half < length:
        pairs = matrix.reshape(length // (2 * half), 2, half, -1)
        matrix = np.stack([pairs[:, 0] + pairs[:, 1], pairs[:, 0] - pairs[:, 1]], axis=1).reshape(length, -1)
        half *= 2
    return matrix


@dataclass(frozen=True, slots=True, eq=False)
class CodeQuery:
    """A query's vector, rotated as the codes are."""

    code: SignCodes
    tokens: QueryTokens

    @classmethod
    def of(cls, vector: Vector) -> CodeQuery:
        """Return the query of a vector of unit length."""
        rotated = vector[np.newaxis] @ _rotation(len(vector))
        return cls(np.packbits(rotated > 0, axis=1), QueryTokens(vectors=rotated, weights=np.ones(1, np.float32)))

    def nearest(self, codes: SignCodes, limit: int) -> Positions:
        """Return the places of the `limit` codes that are probably the nearest, in any order."""
        if len(codes) <= limit:
            return np.arange(len(codes))
        found = _lowest(hamming_distances(self.code, codes)[0], _REFINED * limit, 8 * codes.shape[1])
        near = self.tokens.best_matches(codes[found], np.ones(len(found), dtype=np.int64))[0]
        return found if len(found) <= limit else found[np.argpartition(-near, limit)[:limit]]


def _lowest(distances: NDArray[np.int32], limit: int, largest: int) -> Positions:
    """Return the places of the lowest distances, at least `limit` and all that are as low as the last of these."""
    if len(distances) <= limit:
        return np.arange(len(distances))
    # Counting a million distances takes longer than computing a third of them: most are left out by a sample first.
    step = len(distances) // _SAMPLE + 1
    sample = distances[::step]
    rank = _MARGIN * (limit // step + 1)
    if step > 1 and rank < len(sample):
        found = np.flatnonzero(distances <= np.partition(sample, rank)[rank])
        if len(found) >= limit:
            return found[_up_to_rank(distances[found], limit, largest)]
    return np.flatnonzero(_up_to_rank(distances, limit, largest))


def _up_to_rank(distances: NDArray[np.int32], rank: int, largest: int) -> NDArray[np.bool_]:
    """Return for each distance whether it is at most the one of a rank."""
    counts = np.cumsum(np.bincount(distances, minlength=largest + 1))
    return np.asarray(distances <= np.searchsorted(counts, rank))
