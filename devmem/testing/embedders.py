"""Embedders for tests: no model, no network, the same vector for the same text in every process."""

from __future__ import annotations

import re
import threading
from collections.abc import Sequence
from functools import lru_cache
from hashlib import shake_256
from typing import Final

import numpy as np

from devmem.errors import EmbeddingUnavailableError
from devmem.model.items import Vector
from devmem.models.embedder import ModelIdentity, TokenEmbedding
from devmem.testing.outage import Outage

# Words in ASCII; of other scripts each letter, so that texts without spaces share words too.
_WORD: Final = re.compile(r"[a-z0-9]+|[^\W_]")
_OWN_SHARE: Final = 0.1
"""Weight of a text's own direction beside that of each of its words: enough to tell "a b" from "b a"."""


class HashEmbedder:
    """Texts that share words are similar, different texts differ, and no text gives zeros."""

    def __init__(self, dimension: int = 64, *, name: str = "") -> None:
        """Make an embedder.

        Args:
            dimension: length of a vector.
            name: the model's name, where a test needs two models; empty takes one that names the dimension.
        """
        self._identity = ModelIdentity(name=name or f"testing:hash:{dimension}", dimension=dimension)
        self._dimension = dimension
        self._lock = threading.Lock()
        self.calls = 0
        """Number of calls of `embed`."""
        self.texts: list[str] = []
        """Every text that was embedded, in order."""

    @property
    def identity(self) -> ModelIdentity:
        """Name the model."""
        return self._identity

    def embed(self, texts: Sequence[str]) -> Vector:
        """Embed the texts: float32 of shape (len(texts), dimension), rows of unit length."""
        with self._lock:
            self.calls += 1
            self.texts.extend(texts)
        return np.array([self.vector(text) for text in texts], dtype=np.float32).reshape(-1, self._dimension)

    def vector(self, text: str) -> Vector:
        """Return the vector of one text, shape (dimension,), without counting a call."""
        total = _OWN_SHARE * _direction(f"text {text}", self._dimension)
        for word in _WORD.findall(text.casefold()):
            total += _word_direction(word, self._dimension)
        return (total / np.linalg.norm(total)).astype(np.float32)


def _direction(key: str, dimension: int) -> Vector:
    """Return a pseudorandom row of -1 and 1; the rows of two keys are almost orthogonal."""
    digest = shake_256(key.encode("utf-8", "surrogatepass")).digest((dimension + 7) // 8)
    bits = np.unpackbits(np.frombuffer(digest, dtype=np.uint8))[:dimension]
    return bits.astype(np.float32) * np.float32(2) - np.float32(1)


@lru_cache(maxsize=10_000)
def _word_direction(word: str, dimension: int) -> Vector:
    row = _direction(f"word {word}", dimension)
    row.flags.writeable = False
    return row


class HashTokenEmbedder(HashEmbedder):
    """A `HashEmbedder` with token vectors: a word has the same one everywhere."""

    def embed_tokens(self, texts: Sequence[str]) -> list[TokenEmbedding]:
        """Embed the texts and their words."""
        return [self._tokens(text, vector) for text, vector in zip(texts, self.embed(texts), strict=True)]

    def _tokens(self, text: str, vector: Vector) -> TokenEmbedding:
        words = tuple(_WORD.findall(text.casefold()))
        directions = [_word_direction(word, self._dimension) for word in words]
        tokens = np.array(directions, dtype=np.float32).reshape(-1, self._dimension)
        return TokenEmbedding(vector=vector, tokens=tokens / np.sqrt(np.float32(self._dimension)), words=words)


class FailingEmbedder(Outage, HashEmbedder):
    """A `HashEmbedder` whose provider is down until `recover` is called."""

    def embed(self, texts: Sequence[str]) -> Vector:
        """Embed the texts as `HashEmbedder` does.

        Raises:
            EmbeddingUnavailableError: the provider is down.
        """
        if self._refuses():
            raise EmbeddingUnavailableError("the embedding provider of this test is down")
        return super().embed(texts)
