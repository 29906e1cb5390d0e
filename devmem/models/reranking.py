"""From a store's `reranker:` block to a reranker: ours, registered ones, and those of installed packages."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final, Protocol, TypeAlias, runtime_checkable

from devmem.config.store import WITHIN_SEARCH, RerankerConfig
from devmem.errors import DevmemError, PluginClashError, PluginError, RerankerError
from devmem.plugin_registry import PluginRegistry, callable_plugin


@runtime_checkable
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
    try:
        factory = RERANKERS.get(config.type)
    except PluginError as error:
        raise RerankerError(str(error)) from error
    try:
        made: object = factory(config, base_dir)
    except DevmemError:
        raise
    except Exception as error:  # a stranger's code may raise anything
        reason = f"{type(error).__name__}: {error}"
        raise RerankerError(f"reranker {config.type!r} of {RERANKERS.owner(config.type)} failed: {reason}") from error
    if not isinstance(made, Reranker):
        raise RerankerError(f"the factory of {config.type!r} made {type(made).__name__}, which has no method `scores`.")
    return made
