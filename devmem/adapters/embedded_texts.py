"""A memory's embedding model for hosts that hand on a question's vector alone: it knows which text the vector is of."""

from __future__ import annotations

import hashlib
import threading
from collections import OrderedDict
from collections.abc import Sequence
from typing import Final

import numpy as np

from devmem.stores import Embedder, Vector

_KEPT: Final = 10_000


class EmbeddedTexts:
    """Embeds texts as hosts ask for it, and remembers the last ones; safe to use from several threads."""

    def __init__(self, embedder: Embedder) -> None:
        """Wrap the memory's model."""
        self._embedder = embedder
        self._texts: OrderedDict[bytes, str] = OrderedDict()
        self._lock = threading.Lock()

    def __call__(self, texts: Sequence[str]) -> list[list[float]]:
        """Return a vector for each text, none of which is blank.

        Raises:
            EmbeddingError: the model failed.
        """
        vectors = self._embedder.embed(list(texts))
        with self._lock:
            for text, vector in zip(texts, vectors, strict=True):
                self._texts[_digest(vector)] = text
                self._texts.move_to_end(_digest(vector))
            while len(self._texts) > _KEPT:
                self._texts.popitem(last=False)
        return [vector.tolist() for vector in vectors]

    def text_of(self, vector: Sequence[float]) -> str | None:
        """Return the text that a vector was made of here; None when it was not, or long ago."""
        with self._lock:
            return self._texts.get(_digest(np.asarray(vector, dtype=np.float32)))


def _digest(vector: Vector) -> bytes:
    return hashlib.blake2b(np.ascontiguousarray(vector, dtype=np.float32).tobytes(), digest_size=16).digest()
