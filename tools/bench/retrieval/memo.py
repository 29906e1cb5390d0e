"""Embedding each text once in a run, however many stores hold it."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any, Final

import numpy as np

from devmem.stores import Embedder, EmbeddingConfig, ModelIdentity, Vector, open_embedder

_KEPT: Final = 4_000
"""Texts of which the results of further abilities are kept, the newest: a text's token vectors may take 400 KB."""


class RememberingEmbedder:
    """Passes on to an embedder only those texts that it has not embedded yet."""

    def __init__(self, inner: Embedder) -> None:
        self._inner = inner
        self._known: dict[str, Vector] = {}
        self._further: dict[str, dict[str, Any]] = {}
        self.remembers = True
        """Whether to reuse embeddings; False embeds every text each time."""

    @property
    def identity(self) -> ModelIdentity:
        """Name the model."""
        return self._inner.identity

    def embed(self, texts: Sequence[str]) -> Vector:
        """Return the vectors, cached or computed now; raises what the embedder raises."""
        if not self.remembers:
            return self._inner.embed(texts)
        new = _not_in(self._known, texts)
        if new:
            self._known.update(zip(new, self._inner.embed(new), strict=True))
        return np.stack([self._known[text] for text in texts])

    def _further_of(self, name: str, texts: Sequence[str]) -> list[Any]:
        """Return the results of a further method of the embedder, one for each text."""
        ability = getattr(self._inner, name)
        if not self.remembers:
            return list(ability(texts))
        known = self._further.setdefault(name, {})
        found = {text: known[text] for text in texts if text in known}
        new = _not_in(known, texts)
        if new:
            found.update(zip(new, ability(new), strict=True))
        known.update(found)
        for oldest in list(known)[: max(len(known) - _KEPT, 0)]:
            del known[oldest]
        return [found[text] for text in texts]


def _not_in(known: Container[str], texts: Sequence[str]) -> list[str]:
    return list(dict.fromkeys(text for text in texts if text not in known))


class EmbeddingMemo:
    """The embedders of one run, by configuration; pass `open` to whatever opens embedders."""

    def __init__(self, open_inner: Callable[[EmbeddingConfig], Embedder] = open_embedder) -> None:
        self._open_inner = open_inner
        self._embedders: dict[EmbeddingConfig, RememberingEmbedder] = {}

    def open(self, config: EmbeddingConfig) -> Embedder:
        """Return the embedder of a configuration, the same one for equal ones."""
        if config not in self._embedders:
            self._embedders[config] = _with_abilities(self._open_inner(config))
        return self._embedders[config]

    @contextmanager
    def set_aside(self) -> Iterator[None]:
        """Embed every text without the cache inside the block."""
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
    """Pass an attribute on; a method that is asked with texts alone, as `embed` is, gives a result a text."""

    def get(self: RememberingEmbedder) -> Any:  # noqa: ANN401 - whatever the ability is
        ability = getattr(self._inner, name)
        return partial(_asked, self, name, ability) if callable(ability) else ability

    return property(get)


def _asked(embedder: RememberingEmbedder, name: str, ability: Callable[..., Any], *given: Any, **options: Any) -> Any:  # noqa: ANN401
    texts = given[0] if len(given) == 1 and not options else None
    if isinstance(texts, (list, tuple)) and all(isinstance(text, str) for text in texts):
        return embedder._further_of(name, texts)  # noqa: SLF001 - a part of the class
    return ability(*given, **options)
