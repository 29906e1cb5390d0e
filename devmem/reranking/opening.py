"""From a store's `reranker:` block to a reranker: ours, registered ones, and those of installed packages."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from typing import Final

from devmem.config import RerankerConfig
from devmem.errors import RerankerError
from devmem.reranking.base import Reranker, RerankerFactory

ENTRY_POINT_GROUP: Final = "devmem.rerankers"
WITHIN_SEARCH: Final = ("late_interaction", "none")
"""What the search does itself: there is nothing to open."""
_OURS: Final = {"cross_encoder": "devmem.reranking.cross_encoder", "llm": "devmem.reranking.by_chat"}
"""Modules whose `make` is a factory; imported when a configuration names them."""

_registered: dict[str, RerankerFactory] = {}


def register_reranker(name: str, factory: RerankerFactory) -> None:
    """Register a reranker under a name that a `reranker:` block can give as its `type`.

    Raises:
        RerankerError: the name is taken by another one.
    """
    if name in WITHIN_SEARCH or name in _OURS or _registered.get(name, factory) is not factory:
        raise RerankerError(f"a reranker named {name!r} is there already; register yours under another name.")
    _registered[name] = factory


def open_reranker(
    config: RerankerConfig,
    base_dir: Path,
    *,
    discover: Callable[[], Iterable[EntryPoint]] = lambda: entry_points(group=ENTRY_POINT_GROUP),
) -> Reranker | None:
    """Make the reranker that a block names; None for what the search does itself.

    Args:
        config: the block.
        base_dir: where relative paths start.
        discover: gives the entry points of installed packages.

    Raises:
        RerankerError: nobody knows the name, or the block cannot work.
    """
    if config.type in WITHIN_SEARCH:
        return None
    if config.type in _registered:
        return _registered[config.type](config, base_dir)
    if config.type in _OURS:
        ours: RerankerFactory = import_module(_OURS[config.type]).make
        return ours(config, base_dir)
    found = {point.name: point for point in discover()}
    if config.type not in found:
        raise _unknown(config.type, {*WITHIN_SEARCH, *_OURS, *_registered, *found})
    factory: RerankerFactory = found[config.type].load()
    return factory(config, base_dir)


def _unknown(name: str, known: Iterable[str]) -> RerankerError:
    near = difflib.get_close_matches(name, sorted(known), n=1)
    hint = f" Did you mean {near[0]!r}?" if near else ""
    return RerankerError(f"unknown reranker {name!r}.{hint} Possible: {', '.join(sorted(known))}.")
