"""An embedder of another package: whatever it raises, or returns that is no vector, is an `EmbeddingError`.

So a provider that fails costs no write, whoever wrote it: the items wait for their embedding.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
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
        """Identity of the embedder's model."""
        return self._embedder.identity

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
        made = called(self._name, lambda: list(self._tokens.embed_tokens(texts)))
        self._rows([one.vector for one in made], len(texts))
        for one in made:
            if np.ndim(one.tokens) != _MATRIX or len(one.tokens) != len(one.words):
                raise EmbeddingError(
                    f"the embedding provider {self._name!r} returned token vectors of shape {np.shape(one.tokens)} "
                    f"for {len(one.words)} words."
                )
        return made


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
