"""Vectors in a collection are finite and of unit length."""

from __future__ import annotations

import logging
from dataclasses import replace
from typing import Final

import numpy as np
from numpy.typing import NDArray

from devmem.embedding import PassageEmbeddings
from devmem.model.items import Vector

_LOG: Final = logging.getLogger(__name__)
_UNIT_ERROR: Final = 1e-5
"""Deviation from length 1 that rounding explains; such vectors stay as they are, bit for bit."""
_DAMAGED: Final = 1e-2
"""Deviation from length 1 of a stored vector that rounding does not explain."""


def unit_vectors(vectors: Vector) -> Vector | None:
    """Return vectors, shape (n, dimension), scaled to unit length; None when one of them is zero or not finite."""
    lengths = _lengths(vectors)
    # Without numpy, which takes three times as long for the few vectors of an item.
    if all(abs(length - 1) < _UNIT_ERROR for length in lengths.tolist()):
        return vectors
    if not np.all(np.isfinite(lengths)) or not np.all(lengths > 0):
        return None
    scale = np.where(np.abs(lengths - 1) < _UNIT_ERROR, 1.0, lengths)
    return (vectors / scale[:, None]).astype(np.float32)


def usable_embeddings(item_id: str, embeddings: PassageEmbeddings | None) -> PassageEmbeddings | None:
    """Return embeddings of unit length; None, for the item to wait for others, where a vector has no direction."""
    if embeddings is None:
        return None
    vectors = unit_vectors(embeddings.vectors)
    if vectors is None:
        _LOG.warning("item %r: its embedding is zero or not finite; it waits for another one.", item_id)
        return None
    return embeddings if vectors is embeddings.vectors else replace(embeddings, vectors=vectors)


def are_unit(vectors: Vector) -> NDArray[np.bool_]:
    """Return for each of the vectors, shape (n, dimension), whether its length is 1."""
    lengths = np.einsum("ij,ij->i", vectors, vectors)
    return np.asarray(np.abs(lengths - 1) < _DAMAGED)


def _lengths(vectors: Vector) -> NDArray[np.float64]:
    # In 64 bits, as the square of a large component is infinite in 32.
    return np.asarray(np.sqrt(np.einsum("ij,ij->i", vectors, vectors, dtype=np.float64)))
