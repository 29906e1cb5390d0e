"""Description of one store type."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from devmem.config import ConfigModel
from devmem.stores import MemoryBase, StoreSetup

StoreFactory = Callable[[StoreSetup], MemoryBase]
"""Makes a store; a store class is its own factory."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreType:
    """A usable store type."""

    name: str
    config_model: type[ConfigModel]
    factory: StoreFactory
    summary: str = ""
    """One line for people who choose."""
