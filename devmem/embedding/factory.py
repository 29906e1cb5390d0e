"""From a store's `embedding:` block to an embedder that all stores with the same block share."""

from __future__ import annotations

from collections.abc import Callable
from threading import RLock

from devmem.config.embedding import EmbeddingConfig, EmbeddingParams
from devmem.embedding.base import Embedder
from devmem.embedding.chunking import with_chunking
from devmem.embedding.registry import make_provider

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
        return with_chunking(make_provider(config), config.params)
    with _lock:
        plain = _without_chunking(config)
        provider = _once(_providers, plain, lambda: make_provider(plain))
        return _once(_embedders, config, lambda: with_chunking(provider, config.params))


def _once(table: dict[EmbeddingConfig, Embedder], config: EmbeddingConfig, make: Callable[[], Embedder]) -> Embedder:
    if config not in table:
        table[config] = make()
    return table[config]


def _without_chunking(config: EmbeddingConfig) -> EmbeddingConfig:
    usual = EmbeddingParams()
    same = {name: getattr(usual, name) for name in ("use_chunking", "chunk_strategy", "max_length")}
    return config.model_copy(update={"params": config.params.model_copy(update=same)})
