"""Checks that every provider's vectors pass before they leave this floor."""

from __future__ import annotations

import numpy as np

from devmem.errors import EmbeddingError
from devmem.model.items import Vector


def unit_rows(matrix: Vector, *, source: str) -> Vector:
    """Give each row of `matrix`, shape (n, dimension), unit length, as float32.

    Args:
        matrix: The rows as the model gave them.
        source: Who made them, for the error.

    Raises:
        EmbeddingError: a row has no direction: it holds NaN or infinity, or is all zeros.
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
