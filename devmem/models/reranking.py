"""From a store's `reranker:` block to a reranker: ours, registered ones, and those of installed packages."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable, Sequence
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from typing import Final, Protocol, TypeAlias, runtime_checkable

from devmem.config.store import WITHIN_SEARCH, RerankerConfig
from devmem.errors import RerankerError


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


ENTRY_POINT_GROUP: Final = "devmem.rerankers"
_OURS: Final = {"cross_encoder": "devmem.models.cross_encoder", "llm": "devmem.models.chat_reranker"}
"""Modules whose `make` is a factory; imported when a configuration names them."""

Discover: TypeAlias = Callable[[], Iterable[EntryPoint]]
"""Returns the entry points of installed packages."""

_registered: dict[str, RerankerFactory] = {}


def _installed() -> Iterable[EntryPoint]:
    return entry_points(group=ENTRY_POINT_GROUP)


def register_reranker(name: str, factory: RerankerFactory) -> None:
    """Register a reranker under a name for the `type` of a `reranker:` block.

    Raises:
        RerankerError: the name is taken by another one.
    """
    if name in WITHIN_SEARCH or name in _OURS or _registered.get(name, factory) is not factory:
        raise RerankerError(f"a reranker named {name!r} is there already; register yours under another name.")
    _registered[name] = factory


def reranker_names(discover: Discover = _installed) -> Sequence[str]:
    """Return the possible `type` names of a `reranker:` block in alphabetical order, without importing anything."""
    return sorted({*WITHIN_SEARCH, *_OURS, *_registered, *(point.name for point in discover())})


def open_reranker(config: RerankerConfig, base_dir: Path, *, discover: Discover = _installed) -> Reranker | None:
    """Make the reranker that a block names; None for what the search does itself.

    Args:
        config: the block.
        base_dir: where relative paths start.
        discover: gives the entry points of installed packages.

    Raises:
        RerankerError: nobody knows the name, or the block cannot work.
    """
    if not config.reads_hits:
        return None
    made: object = _factory(config.type, discover)(config, base_dir)
    if not isinstance(made, Reranker):
        raise RerankerError(f"the factory of {config.type!r} made {type(made).__name__}, which has no method `scores`.")
    return made


def _factory(name: str, discover: Discover) -> RerankerFactory:
    if name in _registered:
        return _registered[name]
    factory: RerankerFactory
    if name in _OURS:
        factory = import_module(_OURS[name]).make
        return factory
    found = {point.name: point for point in discover()}
    if name not in found:
        raise _unknown(name, reranker_names(lambda: found.values()))
    factory = found[name].load()
    return factory


def _unknown(name: str, known: Sequence[str]) -> RerankerError:
    near = difflib.get_close_matches(name, known, n=1)
    hint = f" Did you mean {near[0]!r}?" if near else ""
    return RerankerError(f"unknown reranker {name!r}.{hint} Possible: {', '.join(known)}.")
