"""Vectors in a collection are finite and of unit length."""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from devmem.model.items import Vector

_UNIT_ERROR: Final = 1e-5
"""Deviation from length 1 that rounding explains; such vectors stay as they are, bit for bit."""
_DAMAGED: Final = 1e-2
"""Deviation from length 1 of a stored vector that rounding does not explain."""


def unit_vectors(vectors: Vector) -> Vector | None:
    """Return vectors, shape (n, dimension), scaled to unit length; None when one of them is zero or not finite."""
    lengths = _lengths(vectors)
    if not np.all(np.isfinite(lengths)) or not np.all(lengths > 0):
        return None
    scale = np.where(np.abs(lengths - 1) < _UNIT_ERROR, 1.0, lengths)
    return vectors if np.all(scale == 1.0) else (vectors / scale[:, None]).astype(np.float32)


def are_unit(vectors: Vector) -> NDArray[np.bool_]:
    """Return for each of the vectors, shape (n, dimension), whether its length is 1."""
    lengths = np.einsum("ij,ij->i", vectors, vectors)
    return np.asarray(np.abs(lengths - 1) < _DAMAGED)


def _lengths(vectors: Vector) -> NDArray[np.float64]:
    # In 64 bits, as the square of a large component is infinite in 32.
    return np.asarray(np.linalg.norm(vectors.astype(np.float64), axis=1))
