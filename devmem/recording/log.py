"""A store whose records can be read by conversation and by trace."""

from __future__ import annotations

from typing import Protocol, runtime_checkable

from devmem.model.interactions import Interaction


@runtime_checkable
class InteractionLog(Protocol):
    """An ability of a store type, asked for with `isinstance`."""

    def log(self, conversation: str) -> list[Interaction]:
        """Return all records of a conversation as they happened."""
        ...

    def trace(self, trace: str) -> list[Interaction]:
        """Return all records of a trace as they happened."""
        ...
