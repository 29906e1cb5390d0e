"""Vectors that name a text and say nothing of its meaning, for memories that are searched by words alone."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Final

import numpy as np

from devmem.stores import ModelIdentity, Vector

_DIMENSION: Final = 32


class TextNames:
    """Makes of each text a vector of its own, of unit length; equal texts have the same one."""

    identity: Final = ModelIdentity(name="devmem:text-names", dimension=_DIMENSION)

    def embed(self, texts: Sequence[str]) -> Vector:
        """Return a row for each text."""
        digests = b"".join(
            hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=2 * _DIMENSION).digest()
            for text in texts
        )
        numbers: Vector = np.frombuffer(digests, dtype="<i2").reshape(-1, _DIMENSION).astype(np.float32) + 0.5
        numbers /= np.linalg.norm(numbers, axis=1, keepdims=True)
        return numbers
