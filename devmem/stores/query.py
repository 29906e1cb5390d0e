"""A store's query, and the embedding of it that all stores of one model share."""

from __future__ import annotations

import logging
import threading
from dataclasses import dataclass, field

from devmem.collections import Filter
from devmem.config import ViewConfig
from devmem.embedding import Embedder, TokenEmbedder, TokenEmbedding, query_embedder
from devmem.errors import EmbeddingError
from devmem.model.caller import Caller
from devmem.model.items import MemoryContentSnapshot, Vector

_LOG = logging.getLogger(__name__)


class QueryEmbedding:
    """The embedding of one query by any model, made at most once a model; safe to use from several threads.

    A provider that fails is asked once too: its stores search by text, and the failure is kept in `failures`.
    """

    def __init__(self, text: str) -> None:
        self.text = text
        self.failures: dict[str, EmbeddingError] = {}
        self._vectors: dict[str, Vector] = {}
        self._tokens: dict[str, TokenEmbedding] = {}
        self._lock = threading.Lock()

    def known(self, model: str, vector: Vector, tokens: TokenEmbedding | None = None) -> None:
        """Take over an embedding that is known already, shape (dimension,), and that of the text's tokens."""
        with self._lock:
            self._vectors[model] = vector
            if tokens is not None:
                self._tokens[model] = tokens

    def by(self, embedder: Embedder) -> Vector | None:
        """Return the embedding, shape (dimension,); None for a blank text or when the provider failed."""
        if not self.text.strip():
            return None
        name = embedder.identity.name
        with self._lock:
            if name in self.failures:
                return None
            if name not in self._vectors:
                try:
                    self._embed(name, embedder)
                except EmbeddingError as error:
                    _LOG.warning("The query is searched by its text alone: %s", error)
                    self.failures[name] = error
                    return None
            return self._vectors[name]

    def tokens_by(self, embedder: Embedder) -> TokenEmbedding | None:
        """Return the token vectors that came with the embedding; None for a model without them."""
        self.by(embedder)
        return self._tokens.get(embedder.identity.name)

    def _embed(self, name: str, embedder: Embedder) -> None:
        queries = query_embedder(embedder)
        if isinstance(queries, TokenEmbedder):
            (self._tokens[name],) = queries.embed_tokens([self.text])
            self._vectors[name] = self._tokens[name].vector
        else:
            self._vectors[name] = queries.embed([self.text])[0]


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryQuery:
    """A query to one store."""

    text: str
    """The user's or the previous node's words."""
    top_k: int = 3
    """Maximum number of hits, or of conversations."""
    similarity_threshold: float = -1.0
    """Least cosine similarity; an item that was found by its text alone, without an embedding, has none and passes."""
    min_relevance: float | None = None
    """Least score of the search, before any reranker; None is that of the store's `retrieval:` block."""
    agent_role: str = ""
    """The agent's system prompt."""
    caller: Caller = field(default_factory=Caller)
    """The agent that asks."""
    view: ViewConfig | None = None
    """Part of a global memory that is read; None takes the store's own, and other stores have none."""
    snapshot: MemoryContentSnapshot | None = None
    """The query with its multimodal blocks."""
    where: Filter = field(default_factory=Filter)
    asked_at: float | None = None
    """Time of the question in seconds since the epoch, which "last week" is relative to; None means now."""
    explain: bool = False
    """Report what was cut and why, and what the filter left out; this takes longer."""
    embedding: QueryEmbedding = field(default=None)  # type: ignore[assignment]
    """Shared by all stores that get the same query; made from the text where it is absent."""

    def __post_init__(self) -> None:
        if self.embedding is None:
            object.__setattr__(self, "embedding", QueryEmbedding(self.text))
