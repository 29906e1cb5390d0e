"""Stores whose records can be read by conversation and by trace, and that take records."""

from __future__ import annotations

from typing import Protocol, runtime_checkable

from devmem.model.interactions import Interaction
from devmem.recording.forwarder import Sink


@runtime_checkable
class InteractionLog(Protocol):
    """An ability of a store type, asked for with `isinstance`."""

    def log(self, conversation: str) -> list[Interaction]:
        """Return all records of a conversation as they happened."""
        ...

    def trace(self, trace: str) -> list[Interaction]:
        """Return all records of a trace as they happened."""
        ...


@runtime_checkable
class InteractionStore(InteractionLog, Sink, Protocol):
    """A log that a recorder may write to; an ability of a store type too."""
