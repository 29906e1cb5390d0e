"""LangChain's embedding models as devmem's."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from langchain_core.embeddings import Embeddings
from langgraph.store.base import IndexConfig, ensure_embeddings
from langgraph.store.base.embed import EmbeddingsLambda

from devmem.errors import EmbeddingUnavailableError
from devmem.stores import ModelIdentity, Vector


def embedder_of(index: IndexConfig) -> LangChainEmbedder:
    """Return the embedder that an index configuration names: `embed` with vectors of the length `dims`.

    Raises:
        TypeError: it is an asynchronous function alone, which threads without an event loop cannot call.
    """
    model = ensure_embeddings(index.get("embed"))
    if isinstance(model, EmbeddingsLambda) and getattr(model, "func", None) is None:
        raise TypeError("`embed` is an async function; hand over a plain one, or an Embeddings object")
    return LangChainEmbedder(model, index["dims"])


class LangChainEmbedder:
    """An `Embedder` that asks a LangChain model."""

    def __init__(self, model: Embeddings, dimension: int, name: str | None = None) -> None:
        """Wrap a model.

        Args:
            model: LangChain's model.
            dimension: length of its vectors.
            name: identity that is recorded with the vectors; None takes the model's own name, or that of its class.
        """
        self._model = model
        known = name or getattr(model, "model", None) or getattr(model, "model_name", None) or type(model).__name__
        self._identity = ModelIdentity(name=f"langchain:{known}:{dimension}", dimension=dimension)

    @property
    def identity(self) -> ModelIdentity:
        """Identity of the model; reading it calls nothing."""
        return self._identity

    def embed(self, texts: Sequence[str]) -> Vector:
        """Embed the texts; each row of the result is of unit length, shape (len(texts), dimension).

        Raises:
            EmbeddingUnavailableError: the model failed, in whatever way its provider fails.
        """
        return self.embed_with(lambda: self._model.embed_documents(list(texts)), len(texts))

    def for_queries(self) -> _QueryEmbedder:
        """Return the embedder of the same model for questions."""
        return _QueryEmbedder(self, self._model)

    def embed_with(self, call: Callable[[], list[list[float]]], count: int) -> Vector:
        """Return the vectors of a call of the model, shape (count, dimension)."""
        try:
            raw = call()
        except Exception as error:
            raise EmbeddingUnavailableError(f"{self._identity.name}: {type(error).__name__}: {error}") from error
        vectors = np.asarray(raw, dtype=np.float32).reshape(count, -1)
        lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
        np.divide(vectors, lengths, out=vectors, where=lengths > 0)
        return vectors


class _QueryEmbedder:
    """The same model, asked as LangChain asks for queries."""

    def __init__(self, documents: LangChainEmbedder, model: Embeddings) -> None:
        self._documents, self._model = documents, model

    @property
    def identity(self) -> ModelIdentity:
        return self._documents.identity

    def embed(self, texts: Sequence[str]) -> Vector:
        return self._documents.embed_with(lambda: [self._model.embed_query(text) for text in texts], len(texts))
