"""The embedding providers: ours, registered ones, and those of installed packages."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from threading import RLock
from typing import Final, Protocol, TypeAlias, TypeVar

import numpy as np

from devmem.config.store import ChunkStrategy, EmbeddingConfig, EmbeddingParams
from devmem.errors import DevmemError, EmbeddingError, TextsRefusedError
from devmem.model.items import Vector
from devmem.models.embedder import Embedder, ModelIdentity, TokenEmbedder, TokenEmbedding, query_embedder, unit_rows
from devmem.models.given_vectors import Provider as GivenVectors
from devmem.plugin_registry import PluginRegistry, callable_plugin
from devmem.text.analysis import split_text

T = TypeVar("T")
_MATRIX: Final = 2
"""Number of dimensions of an array of rows."""


class TokenProvider(Embedder, TokenEmbedder, Protocol):
    """A provider that embeds texts and their tokens."""


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

    def __init__(self, name: str, embedder: TokenProvider) -> None:
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


EmbeddingProvider: TypeAlias = Callable[[EmbeddingConfig], Embedder]
"""Makes an embedder from its configuration, without loading a model or asking a service.

The embedder gets at least one text and no blank ones; long texts are cut before it.
"""


PROVIDERS: Final[PluginRegistry[EmbeddingProvider]] = PluginRegistry(
    "embedding provider", "devmem.embeddings", callable_plugin("an embedder")
)


def register_embedding_provider(name: str, provider: EmbeddingProvider) -> None:
    """Register a provider under a name for the `provider` of an `embedding:` block.

    Raises:
        PluginClashError: other code registered the name.
        TypeError: the provider cannot be called.
    """
    PROVIDERS.register(name, provider)


def embedding_provider_names() -> Sequence[str]:
    """Return the possible `provider` names of an `embedding:` block in alphabetical order; nothing is imported."""
    return PROVIDERS.names()


def make_provider(config: EmbeddingConfig) -> Embedder:
    """Make the embedder of the provider that a block names.

    Raises:
        EmbeddingError: the provider cannot be used, or the block cannot work.
    """
    name = config.provider
    made: Embedder = PROVIDERS.make(name, "embed", EmbeddingError, config)
    # What is checked afterwards costs a pass over the rows; ours are tested.
    return made if type(made).__module__.startswith("devmem.models.") else guarded(name, made)


class ChunkingEmbedder:
    """Wraps a provider: refuses blank texts, and cuts long ones or embeds them in pieces."""

    def __init__(self, provider: Embedder, params: EmbeddingParams) -> None:
        self._provider, self._params = provider, params

    @property
    def identity(self) -> ModelIdentity:
        """Identity of the provider's model, extended by the way in which long texts are embedded in pieces."""
        inner, params = self._provider.identity, self._params
        if not params.use_chunking:
            return inner
        name = f"{inner.name}:chunks={params.chunk_strategy}/{params.max_length}"
        return ModelIdentity(name=name, dimension=inner.dimension)

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
        counts = [len(each) for each in pieces]
        try:
            vectors = self._provider.embed([piece for each in pieces for piece in each])
        except TextsRefusedError as error:
            texts_of = np.repeat(np.arange(len(pieces)), counts)
            refused = {int(texts_of[piece]): reason for piece, reason in error.refused.items()}
            accepted = np.delete(texts_of, list(error.refused))
            made = error.made[~np.isin(accepted, list(refused))]
            others = [count for at, count in enumerate(counts) if at not in refused]
            raise TextsRefusedError(refused, self._combined(made, others)) from None
        return self._combined(vectors, counts)

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
        """Return one vector a text from those of its pieces."""
        if len(vectors) == len(counts):
            return vectors
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


def _with_chunking(provider: Embedder, params: EmbeddingParams) -> Embedder:
    """Wrap a provider, unless the caller makes its vectors."""
    return provider if isinstance(provider, GivenVectors) else with_chunking(provider, params)


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


_lock = RLock()
_embedders: dict[EmbeddingConfig, Embedder] = {}
_providers: dict[EmbeddingConfig, Embedder] = {}


def open_embedder(config: EmbeddingConfig, *, shared: bool = True) -> Embedder:
    """Return the embedder that `config` describes; nothing is loaded or requested before its first `embed`.

    Equal configurations get the same instance in this process, and those that differ only in how they treat
    long texts share one loaded model; it stays loaded until the process ends.

    Args:
        config: The `embedding:` block of a store.
        shared: False makes a new instance that is not shared, for tests.

    Raises:
        EmbeddingError: nobody offers the provider, or the configuration cannot work, whatever is installed.
    """
    if not shared:
        return _with_chunking(make_provider(config), config.params)
    with _lock:
        plain = _without_chunking(config)
        provider = _once(_providers, plain, lambda: make_provider(plain))
        return _once(_embedders, config, lambda: _with_chunking(provider, config.params))


def _once(table: dict[EmbeddingConfig, Embedder], config: EmbeddingConfig, make: Callable[[], Embedder]) -> Embedder:
    if config not in table:
        table[config] = make()
    return table[config]


def _without_chunking(config: EmbeddingConfig) -> EmbeddingConfig:
    usual = EmbeddingParams()
    same = {name: getattr(usual, name) for name in ("use_chunking", "chunk_strategy", "max_length")}
    return config.model_copy(update={"params": config.params.model_copy(update=same)})
