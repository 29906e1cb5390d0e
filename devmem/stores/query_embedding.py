"""The embedding of a query."""

from __future__ import annotations

import logging
import threading
from collections.abc import Mapping
from functools import lru_cache
from typing import Final

from devmem.errors import EmbeddingError
from devmem.model.items import Vector
from devmem.models.embedder import READABLE, Embedder, TokenEmbedding, embed_query
from devmem.models.given_vectors import GivenVectors
from devmem.search.spelling import Signals, SpellingCheck
from devmem.text.query_text import QueryText
from devmem.text.spelling import corrected

_LOG = logging.getLogger(__name__)
_KEPT: Final = 256


class QueryEmbedding:
    """The embedding of one query by any model, made at most once a model; safe to use from several threads.

    A provider that fails is asked once too: its stores search by text, and the failure is kept in `failures`.
    """

    def __init__(self, text: str, *, given: Vector | None = None, focus: bool = True) -> None:
        """Take the text.

        Args:
            text: of the query.
            given: a vector that the caller made for it, used with any model; shape (dimension,).
            focus: whether a store may embed only what of the text asks something, as `retrieval: {focus: true}` has
                it, and correct misspelled words; not for a text that others are compared with.
        """
        self.text, self.given, self.focus = text, given, focus
        self.failures: dict[str, EmbeddingError] = {}
        self._others: dict[str, QueryEmbedding] = {}
        self._vectors: dict[str, Vector] = {}
        self._tokens: dict[str, TokenEmbedding] = {}
        self._lock = threading.Lock()

    def known(self, model: str, vector: Vector, tokens: TokenEmbedding | None = None) -> None:
        """Take over an embedding that is known already, shape (dimension,), and that of the text's tokens."""
        with self._lock:
            self._vectors[model] = vector
            if tokens is not None:
                self._tokens[model] = tokens

    def focused(self) -> QueryEmbedding:
        """Return the embedding of what of the text asks something; this one where that is all of it, or is given."""
        asked = self.text if self.given is not None else QueryText.of(self.text, focus=self.focus).asked
        return self if asked == self.text else self._of(asked)

    def _of(self, text: str) -> QueryEmbedding:
        """Return the embedding of another text in place of this one, which is made at most once, too."""
        with self._lock:
            if text not in self._others:
                self._others[text] = QueryEmbedding(text)
                self._others[text].failures = self.failures
            return self._others[text]

    def signals(self, embedder: Embedder | None) -> Signals:
        """Return the embedding and that of the tokens; neither of a text that the model cannot read."""
        if embedder is None:
            return None, None
        vector, tokens = self.by(embedder), self.tokens_by(embedder)
        return (None, None) if tokens is not None and tokens.known < READABLE else (vector, tokens)

    def spelling(self, embedder: Embedder | None) -> SpellingCheck | None:
        """Return how misspelled words are found; None for a text that others are compared with, or is not readable."""
        tokens = self.tokens_by(embedder) if embedder is not None else None
        if not self.focus or (tokens is not None and tokens.known < READABLE):
            return None
        if embedder is None or tokens is None or tokens.vocabulary is None:
            return SpellingCheck()
        return SpellingCheck(
            vocabulary=tokens.vocabulary, embed=lambda by_word: self.corrected(by_word).signals(embedder)
        )

    def corrected(self, by_word: Mapping[str, str]) -> QueryEmbedding:
        """Return the embedding of the text with its misspelled words replaced."""
        return self._of(corrected(self.text, by_word)) if by_word else self

    def by(self, embedder: Embedder) -> Vector | None:
        """Return the embedding, shape (dimension,); None for a blank text or when the provider failed."""
        if self.given is not None or isinstance(embedder, GivenVectors):
            return self.given
        if not self.text.strip():
            return None
        name = embedder.identity.name
        with self._lock:
            if name not in self._vectors:
                if name in self.failures:
                    return None
                try:
                    self._vectors[name], tokens = embed_query(embedder, self.text)
                except EmbeddingError as error:
                    _LOG.warning("The query is searched by its text alone: %s", error)
                    self.failures[name] = error
                    return None
                if tokens is not None:
                    self._tokens[name] = tokens
            return self._vectors[name]

    def tokens_by(self, embedder: Embedder) -> TokenEmbedding | None:
        """Return the token vectors that came with the embedding; None for a model without them."""
        self.by(embedder)
        return self._tokens.get(embedder.identity.name)


class QueryEmbeddings:
    """The embeddings of the last queries."""

    def __init__(self) -> None:
        self._made = lru_cache(_KEPT)(QueryEmbedding)

    def of(self, query: str) -> QueryEmbedding:
        """Return the embedding of a query, made once; one whose provider failed is tried again."""
        known = self._made(query)
        return QueryEmbedding(query) if known.failures else known
