"""The embedding providers: ours, registered ones, and those of installed packages."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable, Sequence
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points
from typing import Final, Protocol, TypeAlias, runtime_checkable

from devmem.config.embedding import EmbeddingConfig
from devmem.embedding.base import Embedder
from devmem.embedding.guarded import called, guarded
from devmem.errors import EmbeddingError
from devmem.model.items import Vector

ENTRY_POINT_GROUP: Final = "devmem.embeddings"
_OURS: Final = {
    "e5": "devmem.embedding.e5",
    "local": "devmem.embedding.local",
    "minilm": "devmem.embedding.minilm",
    "onnx": "devmem.embedding.onnx_folder",
    "openai": "devmem.embedding.openai_service",
}
"""Modules whose `Provider` is a factory; imported when a configuration names them."""

EmbeddingProvider: TypeAlias = Callable[[EmbeddingConfig], Embedder]
"""Makes an embedder from its configuration, without loading a model or asking a service.

The embedder gets at least one text and no blank ones; long texts are cut before it.
"""
Discover: TypeAlias = Callable[[], Iterable[EntryPoint]]
"""Returns the entry points of installed packages."""


@runtime_checkable
class _Embeds(Protocol):
    """The part of an embedder that can be asked for without loading a model, which its identity may need."""

    def embed(self, texts: Sequence[str]) -> Vector: ...


_registered: dict[str, EmbeddingProvider] = {}


def _installed() -> Iterable[EntryPoint]:
    return entry_points(group=ENTRY_POINT_GROUP)


def register_embedding_provider(name: str, provider: EmbeddingProvider) -> None:
    """Register a provider under a name for the `provider` of an `embedding:` block.

    Raises:
        EmbeddingError: the name is taken by another one.
    """
    if name in _OURS or _registered.get(name, provider) is not provider:
        raise EmbeddingError(f"an embedding provider named {name!r} is there already; register yours under another.")
    _registered[name] = provider


def embedding_provider_names(discover: Discover = _installed) -> Sequence[str]:
    """Return the possible `provider` names of an `embedding:` block in alphabetical order; nothing is imported."""
    return sorted({*_OURS, *_registered, *(point.name for point in discover())})


def make_provider(config: EmbeddingConfig, *, discover: Discover = _installed) -> Embedder:
    """Make the embedder of the provider that a block names.

    Args:
        config: the block.
        discover: returns the entry points of installed packages.

    Raises:
        EmbeddingError: nobody knows the name, two packages claim it, or the block cannot work.
    """
    name = config.provider
    factory = _factory(name, discover)
    if name in _OURS:
        return factory(config)
    made = called(name, lambda: factory(config))
    if not isinstance(made, _Embeds):
        raise EmbeddingError(
            f"the embedding provider {name!r} made {type(made).__name__}, which has no method `embed`."
        )
    return guarded(name, made)


def _factory(name: str, discover: Discover) -> EmbeddingProvider:
    if name in _registered:
        return _registered[name]
    if name in _OURS:
        ours: EmbeddingProvider = import_module(_OURS[name]).Provider
        return ours
    # One distribution can be seen twice, as an editable install and on the path.
    claims = {point.value: point for point in discover() if point.name == name}
    if len(claims) > 1:
        raise EmbeddingError(f"two packages offer an embedding provider {name!r}: {', '.join(sorted(claims))}.")
    for point in claims.values():
        try:
            found: EmbeddingProvider = point.load()
        except Exception as error:  # a stranger's module may raise anything while it is imported
            raise EmbeddingError(
                f"the embedding provider {name!r} ({point.value}) cannot be loaded: {type(error).__name__}: {error}"
            ) from error
        return found
    raise _unknown(name, embedding_provider_names(discover))


def _unknown(name: str, known: Sequence[str]) -> EmbeddingError:
    near = difflib.get_close_matches(name, known, n=1)
    hint = f" Did you mean {near[0]!r}?" if near else ""
    return EmbeddingError(
        f"unknown embedding provider {name!r}.{hint} Possible: {', '.join(known)}. "
        "Others need their package installed, or their module under `plugins`."
    )
