"""Stores that a forgetting reaches, opened when they are needed."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path

from devmem.stores import MemoryBase, StoreSetup


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """A store of a workflow, in one session."""

    setup: StoreSetup
    session: str = ""
    """Session whose files it has, for messages; empty for the usual one."""
    open: Callable[[], AbstractContextManager[MemoryBase]]
    """Opens the store for a `with` block; one that is open already stays open."""
    files: tuple[Path, ...] = ()
    """Files and folders that the store keeps."""
    is_elsewhere: bool = False
    """Whether its items are in a server or behind a service, which other machines may use too."""
    journals: Path | None = None
    """Folder of the journals in which its records wait."""

    @property
    def label(self) -> str:
        """Name for messages."""
        return f"{self.setup.name} (session {self.session})" if self.session else self.setup.name
