"""An embedder of another package: whatever it raises, or returns that is no vector, is an `EmbeddingError`.

So a provider that fails costs no write, whoever wrote it: the items wait for their embedding.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Final, Protocol, TypeVar

import numpy as np

from devmem.embedding.base import Embedder, ModelIdentity, query_embedder
from devmem.embedding.rows import unit_rows
from devmem.embedding.tokens import TokenEmbedder, TokenEmbedding
from devmem.errors import DevmemError, EmbeddingError
from devmem.model.items import Vector

T = TypeVar("T")
_MATRIX: Final = 2
"""Number of dimensions of an array of rows."""


class _TokenProvider(Embedder, TokenEmbedder, Protocol):
    """An embedder with token vectors."""


class GuardedEmbedder:
    """Checks what the embedder of a provider returns."""

    def __init__(self, name: str, embedder: Embedder) -> None:
        """Take the provider's name, for errors, and its embedder."""
        self._name, self._embedder = name, embedder

    @property
    def identity(self) -> ModelIdentity:
        """Identity of the embedder's model; raises `EmbeddingError` where it names none."""
        identity: object = called(self._name, lambda: self._embedder.identity)
        if not isinstance(identity, ModelIdentity):
            raise EmbeddingError(
                f"the embedding provider {self._name!r} has {type(identity).__name__} for its `identity`; "
                "expected a ModelIdentity."
            )
        return identity

    def for_queries(self) -> Embedder:
        """Return the embedder of questions, guarded too; this one where there is no other."""
        queries = called(self._name, lambda: query_embedder(self._embedder))
        return self if queries is self._embedder else guarded(self._name, queries)

    def embed(self, texts: Sequence[str]) -> Vector:
        """Embed the texts, rows of unit length.

        Raises:
            EmbeddingError: the embedder raised something, or its rows are not one vector a text.
        """
        return self._rows(called(self._name, lambda: self._embedder.embed(texts)), len(texts))

    def _rows(self, made: object, count: int) -> Vector:
        try:
            rows = np.asarray(made, dtype=np.float32)
        except (TypeError, ValueError) as error:
            raise EmbeddingError(f"the embedding provider {self._name!r} returned no vectors: {error}") from error
        if not count and not rows.size:
            return np.empty((0, self.identity.dimension or 0), dtype=np.float32)
        wanted = (count, self.identity.dimension)
        if rows.ndim != _MATRIX or len(rows) != count or rows.shape[1] != (wanted[1] or rows.shape[1]):
            raise EmbeddingError(
                f"the embedding provider {self._name!r} returned an array of shape {rows.shape} for {count} text(s); "
                f"expected ({count}, {wanted[1] or 'dimension'})."
            )
        return unit_rows(rows, source=f"the embedding provider {self._name!r}")


class GuardedTokenEmbedder(GuardedEmbedder):
    """A `GuardedEmbedder` of one that has token vectors."""

    def __init__(self, name: str, embedder: _TokenProvider) -> None:
        super().__init__(name, embedder)
        self._tokens: TokenEmbedder = embedder

    def embed_tokens(self, texts: Sequence[str]) -> list[TokenEmbedding]:
        """Embed the texts and their tokens; raises what `embed` raises."""
        made = [
            self._token_embedding(one) for one in called(self._name, lambda: list(self._tokens.embed_tokens(texts)))
        ]
        vectors = self._rows([one.vector for one in made], len(texts))
        return [replace(one, vector=row, tokens=self._of_words(one)) for one, row in zip(made, vectors, strict=True)]

    def _token_embedding(self, made: object) -> TokenEmbedding:
        if not isinstance(made, TokenEmbedding):
            raise EmbeddingError(
                f"the embedding provider {self._name!r} returned {type(made).__name__} for a text; "
                "expected a TokenEmbedding."
            )
        return made

    def _of_words(self, embedded: TokenEmbedding) -> Vector:
        """Return the vectors of a text's tokens, rows of unit length."""
        shape, count = np.shape(embedded.tokens), len(embedded.words)
        if len(shape) != _MATRIX or shape[0] != count:
            raise EmbeddingError(
                f"the embedding provider {self._name!r} returned token vectors of shape {shape} for {count} words."
            )
        return unit_rows(embedded.tokens, source=f"the embedding provider {self._name!r}")


def guarded(name: str, embedder: Embedder) -> Embedder:
    """Return the embedder of a provider with its results checked."""
    return (
        GuardedTokenEmbedder(name, embedder) if isinstance(embedder, TokenEmbedder) else GuardedEmbedder(name, embedder)
    )


def called(name: str, call: Callable[[], T]) -> T:
    """Return what the code of a provider returns; raise `EmbeddingError` for whatever it raises."""
    try:
        return call()
    except DevmemError:
        raise
    except Exception as error:  # a stranger's code may raise anything
        raise EmbeddingError(f"the embedding provider {name!r} failed: {type(error).__name__}: {error}") from error
