"""A fixed rotation of vectors, which spreads what a model puts into few components evenly over all.

Afterwards the components of a unit vector are distributed nearly as independent normal values, whatever the model, so
that one range fits all of them. The rotation changes random signs and takes the discrete Hartley transform (Bracewell,
"Discrete Hartley transform", 1983), as the randomized Hadamard transform does with its own (Ailon and Chazelle, "The
Fast Johnson-Lindenstrauss Transform", 2009), but for any dimension.
"""

from __future__ import annotations

import hashlib
from functools import lru_cache

import numpy as np

from devmem.model.items import Vector


def rotated(vectors: Vector) -> Vector:
    """Rotate vectors, shape (..., dimension); products of rotated ones are those of the vectors themselves."""
    dimension = vectors.shape[-1]
    transformed = np.fft.rfft(vectors * _factors(dimension), axis=-1)
    real, imaginary = transformed.real, transformed.imag
    known, mirrored = real.shape[-1], (dimension + 1) // 2
    found = np.empty(vectors.shape, dtype=np.float32)
    np.subtract(real, imaginary, out=found[..., :known])
    np.add(real[..., 1:mirrored], imaginary[..., 1:mirrored], out=found[..., : known - 1 : -1])
    return found


def rotated_query(query: Vector) -> Vector:
    """Rotate one vector, shape (dimension,), which a search asks for several times; the result is read-only."""
    return _rotated_query(np.asarray(query, dtype=np.float32).tobytes())


@lru_cache(maxsize=8)
def _rotated_query(raw: bytes) -> Vector:
    found = rotated(np.frombuffer(raw, dtype=np.float32))
    found.flags.writeable = False
    return found


@lru_cache(maxsize=8)
def _factors(dimension: int) -> Vector:
    """Return the sign of each component, divided by the length that the transform adds, shape (dimension,)."""
    # Not NumPy's generators, whose numbers may change: an index that was saved is searched by the same rotation.
    drawn = np.frombuffer(hashlib.shake_128(b"signs").digest((dimension + 7) // 8), dtype=np.uint8)
    signs = 1 - 2 * np.unpackbits(drawn)[:dimension].astype(np.float32)
    factors: Vector = (signs / np.sqrt(dimension)).astype(np.float32)
    return factors
