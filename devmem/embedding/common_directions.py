"""The common part of all vectors of a model, taken off, so that their cosines tell words and texts apart.

In many models the vectors of any two tokens, or texts, are similar: they share a mean, and a few directions hold most
of their variance, such as that of the language. Without both, cosines compare meanings. The method is that of Mu and
Viswanath, "All-but-the-Top: Simple and Effective Postprocessing for Word Representations" (ICLR 2018).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Self

import numpy as np

from devmem.model.items import Vector

_DIRECTIONS: Final = 16
"""Number of directions taken off; on Chinese memories with multilingual-e5-small, 4 and 32 found less."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class CommonDirections:
    """The mean of a model's vectors, and the directions in which they vary most."""

    mean: Vector
    """Shape (dimension,)."""
    directions: Vector
    """Orthonormal rows, shape (directions, dimension)."""

    @classmethod
    def of(cls, samples: Sequence[Vector]) -> Self:
        """Return those of the vectors of sample texts, each of shape (vectors, dimension)."""
        vectors = np.concatenate(samples)
        vectors = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
        mean = vectors.mean(axis=0)
        _, _, directions = np.linalg.svd(vectors - mean, full_matrices=False)
        return cls(mean=mean.astype(np.float32), directions=directions[:_DIRECTIONS].astype(np.float32))

    def removed_from(self, vectors: Vector) -> Vector:
        """Return vectors without what they have in common, rows of any length, of the same shape."""
        rest = vectors / np.linalg.norm(vectors, axis=1, keepdims=True) - self.mean
        found: Vector = rest - (rest @ self.directions.T) @ self.directions
        return found
