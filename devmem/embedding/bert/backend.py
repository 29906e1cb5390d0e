"""The backend protocol, and the sizes of the models' layers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, Protocol

from devmem.model.items import Vector

HEADS: Final = 12
WIDTH: Final = 384
LAYER_NORM_EPSILON: Final = 1e-12


class Rows(Protocol):
    """A table of word embeddings, shape (words, 384)."""

    def __getitem__(self, ids: Sequence[int], /) -> Vector:
        """Return the rows of some words, shape (len(ids), 384), float32."""
        ...


class Backend(Protocol):
    """Runs the model on token ids; safe to call from several threads."""

    def forward(self, batch: Sequence[Sequence[int]]) -> list[Vector]:
        """Return each text's token vectors, shape (its tokens, 384); no text is empty."""
        ...


def layers_of(weights: Mapping[str, Vector]) -> int:
    """Return the number of layers that a model's weights are of."""
    return sum(name.endswith("attention.self.query.weight") for name in weights)


def places_of(weights: Mapping[str, Vector]) -> Vector:
    """Return what is added to the embedding of a text's nth token, shape (positions, 384)."""
    types = weights["embeddings.token_type_embeddings.weight"]
    places: Vector = weights["embeddings.position_embeddings.weight"] + types[0]
    return places
