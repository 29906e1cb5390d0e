"""Vectors of one model with token vectors of another, such as a service's with those of a model on this machine."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from devmem.embedding.base import Embedder, ModelIdentity, query_embedder
from devmem.embedding.tokens import READABLE, TokenEmbedder, TokenEmbedding
from devmem.errors import EmbeddingError
from devmem.model.items import Vector


class CombinedEmbedder:
    """Embeds texts with one model and their tokens with another."""

    def __init__(self, vectors: Embedder, tokens: Embedder) -> None:
        """Take both models.

        Raises:
            EmbeddingError: the second one has no token vectors.
        """
        if not isinstance(tokens, TokenEmbedder):
            raise EmbeddingError(
                "`retrieval: {tokens: ...}` names a provider without token vectors; `minilm`, `e5`, `onnx` and `local` "
                "have them."
            )
        self._vectors = vectors
        self._tokens: TokenEmbedder = tokens
        self._token_model: Embedder = tokens

    @property
    def identity(self) -> ModelIdentity:
        """Identity of both models: what either of them made is not compared with what another one made."""
        inner = self._vectors.identity
        return ModelIdentity(name=f"{inner.name}+tokens:{self._token_model.identity.name}", dimension=inner.dimension)

    def embed(self, texts: Sequence[str]) -> Vector:
        """Embed the texts with the first model; raises what it raises."""
        return self._vectors.embed(texts)

    def embed_tokens(self, texts: Sequence[str]) -> list[TokenEmbedding]:
        """Embed the texts with the first model and their tokens with the second; raises what either raises.

        A text that the second model cannot read has no tokens.
        """
        vectors, made = self._vectors.embed(texts), self._tokens.embed_tokens(texts)
        return [_combined(vector, tokens) for vector, tokens in zip(vectors, made, strict=True)]

    def for_queries(self) -> CombinedEmbedder:
        """Return the embedder of questions, of both models."""
        return CombinedEmbedder(query_embedder(self._vectors), query_embedder(self._token_model))


def _combined(vector: Vector, made: TokenEmbedding) -> TokenEmbedding:
    if made.known < READABLE:
        made = replace(made, tokens=made.tokens[:0], words=())
    # The share was fitted for the vectors of the other model.
    return replace(made, vector=vector, vector_share=0.0, known=1.0)
