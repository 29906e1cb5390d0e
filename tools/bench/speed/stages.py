"""What the stages of a search took, where a store tells."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol, runtime_checkable

from devmem import MemoryBase


@runtime_checkable
class TellsStages(Protocol):
    """A store that remembers what its last search spent its time on."""

    @property
    def stage_ms(self) -> Mapping[str, float]:
        """Milliseconds by stage, in the order of the stages."""
        ...


def stage_times(store: MemoryBase) -> Mapping[str, float]:
    """Give the stages of the store's last search in ms; empty for a store that does not tell."""
    return store.stage_ms if isinstance(store, TellsStages) else {}
