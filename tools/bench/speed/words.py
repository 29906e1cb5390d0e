"""Token vectors of generated words: each word has a direction of its own, which all its tokens share."""

from __future__ import annotations

from functools import lru_cache
from hashlib import shake_256

import numpy as np

from devmem.models import TokenEmbedding
from devmem.models.embedder import PassageEmbeddings, TokenCodes
from devmem.stores import Vector


@lru_cache(maxsize=1 << 17)
def _code(word: str, dimension: int) -> bytes:
    return shake_256(word.encode()).digest(dimension // 8)


def _codes(words: list[str], dimension: int) -> TokenCodes:
    raw = b"".join(_code(word, dimension) for word in words)
    return np.frombuffer(raw, dtype=np.uint8).reshape(len(words), dimension // 8)


def encoding(text: str, vector: Vector) -> PassageEmbeddings:
    """Return the embeddings of a text as a model would: its vector, and a token code for each word."""
    return PassageEmbeddings(vectors=vector[None], tokens=(_codes(text.split(), len(vector)),))


def token_embedding(text: str, vector: Vector) -> TokenEmbedding:
    """Return a question's vector with the vectors of its words."""
    words = text.split()
    signs = np.unpackbits(_codes(words, len(vector)), axis=1).astype(np.float32) * 2 - 1
    return TokenEmbedding(vector=vector, tokens=signs / np.sqrt(np.float32(len(vector))), words=tuple(words))
