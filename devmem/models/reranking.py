"""From a store's `reranker:` block to a reranker: ours, registered ones, and those of installed packages."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final, Protocol, TypeAlias, cast

from devmem.config.store import WITHIN_SEARCH, RerankerConfig
from devmem.errors import PluginClashError, RerankerError
from devmem.plugin_registry import PluginRegistry, callable_plugin


class Reranker(Protocol):
    """Scores texts for a question; safe to call from several threads."""

    def scores(self, query: str, texts: Sequence[str]) -> list[float]:
        """Score each text, higher for a better fit; only scores of the same call can be compared.

        Raises:
            RerankerError: there are no scores; the error says why.
        """
        ...


RerankerFactory: TypeAlias = Callable[[RerankerConfig, Path], Reranker]
"""Makes a reranker from its configuration and the folder where relative paths start, without loading a model."""


RERANKERS: Final[PluginRegistry[RerankerFactory]] = PluginRegistry(
    "reranker", "devmem.rerankers", callable_plugin("a reranker")
)


def register_reranker(name: str, factory: RerankerFactory) -> None:
    """Register a reranker under a name for the `type` of a `reranker:` block.

    Raises:
        PluginClashError: the name is that of the search itself, or other code registered it.
        TypeError: the factory cannot be called.
    """
    if name in WITHIN_SEARCH:
        raise PluginClashError("reranker", name, ["devmem's search", f"module {factory.__module__}"])
    RERANKERS.register(name, factory)


def reranker_names() -> Sequence[str]:
    """Return the possible `type` names of a `reranker:` block in alphabetical order, without importing anything."""
    return sorted({*WITHIN_SEARCH, *RERANKERS.names()})


def open_reranker(config: RerankerConfig, base_dir: Path) -> Reranker | None:
    """Make the reranker that a block names; None for what the search does itself.

    Args:
        config: the block.
        base_dir: where relative paths start.

    Raises:
        RerankerError: the reranker cannot be used, or the block cannot work.
    """
    if not config.reads_hits:
        return None
    return cast("Reranker", RERANKERS.make(config.type, "scores", RerankerError, config, base_dir))
