"""Embedding each text once in a run, however many stores hold it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from devmem import Embedder, EmbeddingConfig, ModelIdentity, Vector, open_embedder


class RememberingEmbedder:
    """Passes on to an embedder what it was not asked before."""

    def __init__(self, inner: Embedder) -> None:
        self._inner = inner
        self._known: dict[str, Vector] = {}
        self.remembers = True
        """False lets every text be embedded anew, as it is without this class."""

    @property
    def identity(self) -> ModelIdentity:
        """Name the model."""
        return self._inner.identity

    def embed(self, texts: Sequence[str]) -> Vector:
        """Give the vectors, made now or before; raises what the embedder raises."""
        if not self.remembers:
            return self._inner.embed(texts)
        new = list(dict.fromkeys(text for text in texts if text not in self._known))
        if new:
            self._known.update(zip(new, self._inner.embed(new), strict=True))
        return np.stack([self._known[text] for text in texts])


class EmbeddingMemo:
    """The embedders of one run, by model; give `open` to whatever opens embedders."""

    def __init__(self, open_inner: Callable[[EmbeddingConfig], Embedder] = open_embedder) -> None:
        self._open_inner = open_inner
        self._embedders: dict[str, RememberingEmbedder] = {}

    def open(self, config: EmbeddingConfig) -> Embedder:
        """Open the model that the configuration names."""
        inner = self._open_inner(config)
        return self._embedders.setdefault(inner.identity.name, _with_abilities(inner))

    @contextmanager
    def set_aside(self) -> Iterator[None]:
        """Let every text be embedded anew inside the block."""
        for embedder in self._embedders.values():
            embedder.remembers = False
        try:
            yield
        finally:
            for embedder in self._embedders.values():
                embedder.remembers = True


def _with_abilities(inner: Embedder) -> RememberingEmbedder:
    """Wrap an embedder so that it still has every further ability that stores ask for by protocol."""
    own = {name for name in dir(RememberingEmbedder) if not name.startswith("_")}
    further = {name for name in dir(type(inner)) if not name.startswith("_")} - own
    kind = type("RememberingEmbedder", (RememberingEmbedder,), {name: _passed_on(name) for name in further})
    return kind(inner)  # type: ignore[no-any-return]


def _passed_on(name: str) -> property:
    def get(self: Any) -> Any:  # noqa: ANN401 - whatever the ability is
        return getattr(self._inner, name)

    return property(get)
