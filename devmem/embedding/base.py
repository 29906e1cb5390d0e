"""The embedding protocol: texts in, vectors out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from devmem.model.items import Vector


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelIdentity:
    """Identity of the model that makes the vectors; vectors of two models are never compared."""

    name: str
    """Provider, model and whatever else changes the vectors, as in `openai:text-embedding-3-small:512`."""
    dimension: int | None = None
    """Length of a vector; None when only the provider's first answer will tell."""


@runtime_checkable
class Embedder(Protocol):
    """Turns texts into vectors; safe to call from several threads."""

    @property
    def identity(self) -> ModelIdentity:
        """Identity of the model; reading it calls nothing."""
        ...

    def embed(self, texts: Sequence[str]) -> Vector:
        """Embed the texts, each of them as it was written.

        Returns:
            float32 of shape (len(texts), dimension), each row of unit length.

        Raises:
            EmbeddingUnavailableError: the provider does not answer now; nothing was embedded.
            EmbeddingError: it will never embed these texts.
        """
        ...


@runtime_checkable
class AsymmetricEmbedder(Protocol):
    """An embedder of a model that embeds questions in another way than what is searched."""

    def for_queries(self) -> Embedder:
        """Return the embedder of questions, of the same identity; it shares the loaded model."""
        ...


def query_embedder(embedder: Embedder) -> Embedder:
    """Return what embeds the questions for texts that `embedder` embeds: itself, unless the model tells them apart."""
    return embedder.for_queries() if isinstance(embedder, AsymmetricEmbedder) else embedder
