"""Long texts in front of a provider: cut, or embedded in pieces, beyond `max_length` characters."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Protocol

import numpy as np

from devmem.config.embedding import ChunkStrategy, EmbeddingParams
from devmem.embedding.base import Embedder, ModelIdentity, query_embedder
from devmem.embedding.rows import unit_rows
from devmem.embedding.tokens import TokenEmbedder, TokenEmbedding
from devmem.errors import EmbeddingError
from devmem.model.items import Vector
from devmem.text.passages import split_text


class TokenProvider(Embedder, TokenEmbedder, Protocol):
    """A provider that embeds texts and their tokens."""


_USUAL_LENGTH: int = EmbeddingParams.model_fields["max_length"].default


class ChunkingEmbedder:
    """Wraps a provider: refuses blank texts, and cuts long ones or embeds them in pieces."""

    def __init__(self, provider: Embedder, params: EmbeddingParams) -> None:
        self._provider, self._params = provider, params

    @property
    def identity(self) -> ModelIdentity:
        """Identity of the provider's model, extended by the treatment of long texts where it is not the default."""
        inner, length = self._provider.identity, self._params.max_length
        if self._params.use_chunking:
            return ModelIdentity(
                name=f"{inner.name}:chunks={self._params.chunk_strategy}/{length}", dimension=inner.dimension
            )
        if length != _USUAL_LENGTH:
            return ModelIdentity(name=f"{inner.name}:cut={length}", dimension=inner.dimension)
        return inner

    def for_queries(self) -> ChunkingEmbedder:
        """Return the embedder of questions, which treats long ones in the same way."""
        queries = query_embedder(self._provider)
        return self if queries is self._provider else with_chunking(queries, self._params)

    def embed(self, texts: Sequence[str]) -> Vector:
        """Embed the texts in one call of the provider, the pieces of the long ones among them.

        Raises:
            EmbeddingError: a text is blank: there is nothing to embed; no other text was embedded.
        """
        if isinstance(texts, str):
            raise TypeError("embed() takes a sequence of texts, not one text")
        pieces = [self._pieces(number, text) for number, text in enumerate(texts)]
        if not pieces:
            return np.empty((0, self.identity.dimension or 0), dtype=np.float32)
        vectors = self._provider.embed([piece for each in pieces for piece in each])
        if len(vectors) == len(pieces):
            return vectors
        return self._combined(vectors, [len(each) for each in pieces])

    def _head(self, number: int, text: str) -> str:
        if not text.strip():
            raise EmbeddingError(f"text {number} is blank ({text[:20]!r}): there is nothing to embed")
        return _first_with_words(_well_formed(text), self._params.max_length)

    def _pieces(self, number: int, text: str) -> list[str]:
        if not text.strip():
            raise EmbeddingError(f"text {number} is blank ({text[:20]!r}): there is nothing to embed")
        text = _well_formed(text)
        limit = self._params.max_length
        if len(text) <= limit:
            return [text]
        if not self._params.use_chunking:
            return [_first_with_words(text, limit)]
        pieces = [piece for piece in split_text(text, limit // 2) if piece.strip()]
        return pieces[:1] if self._params.chunk_strategy == "first" else pieces

    def _is_long(self, text: str) -> bool:
        return len(_well_formed(text)) > self._params.max_length

    def _combined(self, vectors: Vector, counts: Sequence[int]) -> Vector:
        rows = []
        start = 0
        for count in counts:
            weights = _weights(self._params.chunk_strategy, count)
            rows.append(weights @ vectors[start : start + count])
            start += count
        return unit_rows(np.stack(rows), source=self.identity.name)


class TokenChunkingEmbedder(ChunkingEmbedder):
    """A `ChunkingEmbedder` before a provider that gives token vectors; those of a long text's start."""

    def __init__(self, provider: TokenProvider, params: EmbeddingParams) -> None:
        super().__init__(provider, params)
        self._tokens = provider

    def embed_tokens(self, texts: Sequence[str]) -> list[TokenEmbedding]:
        """Embed the texts, as `embed` does, and the tokens of their starts; raises what `embed` raises."""
        heads = [self._head(number, text) for number, text in enumerate(texts)]
        made = self._tokens.embed_tokens(heads) if heads else []
        in_pieces = [number for number, text in enumerate(texts) if self._params.use_chunking and self._is_long(text)]
        for number, vector in zip(in_pieces, self.embed([texts[number] for number in in_pieces]), strict=True):
            made[number] = replace(made[number], vector=vector)
        return made


def with_chunking(provider: Embedder, params: EmbeddingParams) -> ChunkingEmbedder:
    """Wrap a provider, with its token vectors where it has them."""
    if isinstance(provider, TokenEmbedder):
        return TokenChunkingEmbedder(provider, params)
    return ChunkingEmbedder(provider, params)


def _well_formed(text: str) -> str:
    """Join the halves of surrogate pairs, and replace a lone half: no encoding has a place for it."""
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


def _first_with_words(text: str, limit: int) -> str:
    head = text[:limit]
    return head if head.strip() else text.lstrip()[:limit]


def _weights(strategy: ChunkStrategy, count: int) -> Vector:
    """Return the pieces' weights, shape (count,), which add up to 1."""
    weights = np.ones(count) if strategy == "average" else 1 / np.arange(1, count + 1)
    shares: Vector = (weights / weights.sum()).astype(np.float32)
    return shares
