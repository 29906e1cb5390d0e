"""An embedder with precomputed vectors: the cost of a store without the cost of a model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from devmem.stores import ModelIdentity, Vector


class PrecomputedEmbedder:
    """Looks every text's vector up."""

    def __init__(self, known: Mapping[str, Vector], dimension: int) -> None:
        self._known = known
        self.identity = ModelIdentity(name="bench:precomputed", dimension=dimension)

    def embed(self, texts: Sequence[str]) -> Vector:
        """Return the known vectors; raises `KeyError` for a text that is not known."""
        return np.stack([self._known[text] for text in texts])
