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
from devmem.models.given_vectors import GivenVectors
from devmem.plugin_registry import PluginRegistry, callable_plugin
from devmem.text.analysis import split_text

T = TypeVar("T")
_MATRIX: Final = 2
"""Number of dimensions of an array of rows."""


class TokenProvider(Embedder, TokenEmbedder, Protocol):
    """A provider that embeds texts and their tokens."""


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


def _make_provider(config: EmbeddingConfig) -> Embedder:
    made: Embedder = PROVIDERS.make(config.provider, "embed", EmbeddingError, config)
    return made


class ChunkingEmbedder:
    """Wraps a provider: refuses blank texts, cuts long ones or embeds them in pieces, and checks a plugin's vectors."""

    def __init__(self, provider: Embedder, params: EmbeddingParams, plugin: str | None = None) -> None:
        """Take a provider, how long texts are treated, and the name of a plugin; None for a provider of ours."""
        self._provider, self._params, self._plugin = provider, params, plugin

    @property
    def identity(self) -> ModelIdentity:
        """Identity of the provider's model, extended by the way in which long texts are embedded in pieces.

        Raises:
            EmbeddingError: the provider names none.
        """
        inner: object = self._ask(lambda: self._provider.identity)
        if not isinstance(inner, ModelIdentity):
            raise self._error(f"has {type(inner).__name__} for its `identity`; expected a ModelIdentity.")
        if not self._params.use_chunking:
            return inner
        name = f"{inner.name}:chunks={self._params.chunk_strategy}/{self._params.max_length}"
        return ModelIdentity(name=name, dimension=inner.dimension)

    def for_queries(self) -> ChunkingEmbedder:
        """Return the embedder of questions, which treats long ones in the same way."""
        queries = self._ask(lambda: query_embedder(self._provider))
        return self if queries is self._provider else with_chunking(queries, self._params, self._plugin)

    def embed(self, texts: Sequence[str]) -> Vector:
        """Embed the texts in one call of the provider, the pieces of the long ones among them.

        Raises:
            EmbeddingError: a text is blank: there is nothing to embed; no other text was embedded. Or the provider
                failed, or returned something else than one vector a text.
        """
        if isinstance(texts, str):
            raise TypeError("embed() takes a sequence of texts, not one text")
        pieces = [self._pieces(number, text) for number, text in enumerate(texts)]
        if not pieces:
            return np.empty((0, self.identity.dimension or 0), dtype=np.float32)
        counts = [len(each) for each in pieces]
        every = [piece for each in pieces for piece in each]
        try:
            vectors = self._rows(self._ask(lambda: self._provider.embed(every)), len(every))
        except TextsRefusedError as error:
            texts_of = np.repeat(np.arange(len(pieces)), counts)
            refused = {int(texts_of[piece]): reason for piece, reason in error.refused.items()}
            accepted = np.delete(texts_of, list(error.refused))
            made = error.made[~np.isin(accepted, list(refused))]
            others = [count for at, count in enumerate(counts) if at not in refused]
            raise TextsRefusedError(refused, self._combined(made, others)) from None
        return self._combined(vectors, counts)

    def _ask(self, call: Callable[[], T]) -> T:
        return call() if self._plugin is None else called(self._plugin, call)

    def _error(self, said: str) -> EmbeddingError:
        return EmbeddingError(f"the embedding provider {self._plugin!r} {said}")

    def _rows(self, made: Vector | list[Vector], count: int) -> Vector:
        """Return what a provider made of some texts as rows of unit length; ours, which are tested, are not checked."""
        if self._plugin is None and not isinstance(made, list):
            return made
        try:
            rows = np.asarray(made, dtype=np.float32)
        except (TypeError, ValueError) as error:
            raise self._error(f"returned no vectors: {error}") from error
        dimension = self.identity.dimension
        if rows.ndim != _MATRIX or len(rows) != count or rows.shape[1] != (dimension or rows.shape[1]):
            raise self._error(
                f"returned an array of shape {rows.shape} for {count} text(s); "
                f"expected ({count}, {dimension or 'dimension'})."
            )
        return unit_rows(rows, source=f"the embedding provider {self._plugin!r}")

    def _head(self, number: int, text: str) -> str:
        return _first_with_words(_readable(number, text), self._params.max_length)

    def _pieces(self, number: int, text: str) -> list[str]:
        text, limit = _readable(number, text), self._params.max_length
        if len(text) <= limit:
            return [text]
        if not self._params.use_chunking:
            return [_first_with_words(text, limit)]
        pieces = [piece for piece in split_text(text, limit // 2) if piece.strip()]
        return pieces[:1] if self._params.chunk_strategy == "first" else pieces

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

    def __init__(self, provider: TokenProvider, params: EmbeddingParams, plugin: str | None = None) -> None:
        super().__init__(provider, params, plugin)
        self._tokens = provider

    def embed_tokens(self, texts: Sequence[str]) -> list[TokenEmbedding]:
        """Embed the texts, as `embed` does, and the tokens of their starts; raises what `embed` raises."""
        heads = [self._head(number, text) for number, text in enumerate(texts)]
        made = list(self._ask(lambda: self._tokens.embed_tokens(heads))) if heads else []
        if self._plugin is not None and made:
            made = [self._checked(one) for one in made]
            vectors = self._rows([one.vector for one in made], len(heads))
            made = [replace(one, vector=vector) for one, vector in zip(made, vectors, strict=True)]
        longest = self._params.max_length if self._params.use_chunking else None
        in_pieces = [number for number, text in enumerate(texts) if longest is not None and len(text) > longest]
        for number, vector in zip(in_pieces, self.embed([texts[number] for number in in_pieces]), strict=True):
            made[number] = replace(made[number], vector=vector)
        return made

    def _checked(self, made: object) -> TokenEmbedding:
        """Return what a plugin made of a text, its tokens as rows of unit length."""
        if not isinstance(made, TokenEmbedding):
            raise self._error(f"returned {type(made).__name__} for a text; expected a TokenEmbedding.")
        shape, count = np.shape(made.tokens), len(made.words)
        if len(shape) != _MATRIX or shape[0] != count:
            raise self._error(f"returned token vectors of shape {shape} for {count} words.")
        return replace(made, tokens=unit_rows(made.tokens, source=f"the embedding provider {self._plugin!r}"))


def with_chunking(provider: Embedder, params: EmbeddingParams, plugin: str | None = None) -> ChunkingEmbedder:
    """Wrap a provider, with its token vectors where it has them; see `ChunkingEmbedder`."""
    if isinstance(provider, TokenEmbedder):
        return TokenChunkingEmbedder(provider, params, plugin)
    return ChunkingEmbedder(provider, params, plugin)


def _readable(number: int, text: str) -> str:
    """Return a text that is not blank; halves of surrogate pairs are joined, or replaced: no encoding has them."""
    if not text.strip():
        raise EmbeddingError(f"text {number} is blank ({text[:20]!r}): there is nothing to embed")
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
        return _wrapped(_make_provider(config), config)
    with _lock:
        plain = _without_chunking(config)
        provider = _once(_providers, plain, lambda: _make_provider(plain))
        return _once(_embedders, config, lambda: _wrapped(provider, config))


def _wrapped(provider: Embedder, config: EmbeddingConfig) -> Embedder:
    """Wrap a provider, unless the caller makes its vectors."""
    if isinstance(provider, GivenVectors):
        return provider
    is_ours = type(provider).__module__.startswith("devmem.models.")
    return with_chunking(provider, config.params, None if is_ours else config.provider)


def _once(table: dict[EmbeddingConfig, Embedder], config: EmbeddingConfig, make: Callable[[], Embedder]) -> Embedder:
    if config not in table:
        table[config] = make()
    return table[config]


def _without_chunking(config: EmbeddingConfig) -> EmbeddingConfig:
    usual = EmbeddingParams()
    same = {name: getattr(usual, name) for name in ("use_chunking", "chunk_strategy", "max_length")}
    return config.model_copy(update={"params": config.params.model_copy(update=same)})
