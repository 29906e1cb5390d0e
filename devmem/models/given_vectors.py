"""The embedding provider `given`: vectors that the caller made."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

from devmem.config.store import EmbeddingConfig
from devmem.errors import EmbeddingError
from devmem.model.items import Vector
from devmem.models.embedder import ModelIdentity

_WAY_OUT: Final = "embedding: {provider: given, model: NAME}"
PREFIX: Final = "given:"
"""Begins the name of the model in collections."""
_LONGEST: Final = 100_000
"""Components of a vector."""


class GivenVectors:
    """Stands for a model that only the caller has: items and queries come with their vectors."""

    def __init__(self, config: EmbeddingConfig) -> None:
        """Take the name and the length of the vectors from a block.

        Raises:
            EmbeddingError: it names no model.
        """
        if not config.model:
            raise EmbeddingError(f"name the model that makes the vectors: `{_WAY_OUT}`")
        self._identity = ModelIdentity(name=f"{PREFIX}{config.model}", dimension=config.params.dimensions)

    @property
    def identity(self) -> ModelIdentity:
        """The model as the block names it."""
        return self._identity

    def embed(self, texts: Sequence[str]) -> Vector:
        """Raise `EmbeddingError`: the caller embeds."""
        raise EmbeddingError(
            f"the vectors of {self._identity.name.removeprefix(PREFIX)!r} come from the caller: give `embedding=` with "
            f"what is added, and `vector=` with a search ({len(texts)} text(s))"
        )


def checked_vector(name: str, given: object, dimension: int | None = None) -> Vector:
    """Return a vector as it is stored, float32 of shape (dimension,).

    Args:
        name: the argument's, for errors.
        given: numbers in a sequence or an array.
        dimension: length that it has to have; None for any.

    Raises:
        ValueError: it is none, of another length, all zeros, or has a number that is not finite.
    """
    try:
        vector = np.asarray(given, dtype=np.float32)
    except (TypeError, ValueError) as error:
        raise ValueError(f"`{name}` is a sequence of numbers: {error}") from error
    if vector.ndim != 1 or not 0 < len(vector) <= _LONGEST:
        raise ValueError(f"`{name}` is one vector of numbers, not an array of shape {vector.shape}")
    if not np.isfinite(vector).all() or not vector.any():
        raise ValueError(f"`{name}` is all zeros, or has NaN or infinity in it, so it has no direction")
    if dimension not in (None, len(vector)):
        raise ValueError(f"`{name}` has {len(vector)} numbers; the vectors of this memory have {dimension}")
    return vector
