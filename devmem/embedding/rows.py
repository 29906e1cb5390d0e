"""Validation of vectors, which every provider's output passes."""

from __future__ import annotations

import numpy as np

from devmem.errors import EmbeddingError
from devmem.model.items import Vector


def unit_rows(matrix: Vector, *, source: str) -> Vector:
    """Return the rows of `matrix`, shape (n, dimension), scaled to unit length, as float32.

    Args:
        matrix: rows as the model returned them.
        source: name of the model, for the error.

    Raises:
        EmbeddingError: a row holds NaN or infinity, or is all zeros.
    """
    rows = np.asarray(matrix, dtype=np.float64)
    lengths = np.sqrt(np.einsum("ij,ij->i", rows, rows))[:, None]
    bad = ~np.isfinite(lengths) | (lengths == 0)
    if bad.any():
        raise EmbeddingError(
            f"{source} gave a vector that is all zeros or holds NaN or infinity (row {int(bad.argmax())})"
        )
    unit: Vector = (rows / lengths).astype(np.float32)
    return unit
