"""A memory of ChatDev that is kept in a store of devmem."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from entity.configs import MemoryStoreConfig
from runtime.node.agent.memory.memory_base import MemoryBase, MemoryContentSnapshot, MemoryItem, MemoryWritePayload

import devmem
from devmem.adapters.chatdev.conversion import (
    chatdev_form,
    declared,
    limits,
    payload_of,
    settings_of,
)
from devmem.config import Attachment, MemoryOptions
from devmem.plugins import registry
from devmem.stores import StoreSetup

_RUN: Final[ContextVar[Path | None]] = ContextVar("chatdev_run", default=None)


@contextmanager
def run_in(folder: Path) -> Iterator[None]:
    """Keep `auto` files of the stores that are made meanwhile in the folder of a run."""
    token = _RUN.set(folder)
    try:
        yield
    finally:
        _RUN.reset(token)


@dataclass(frozen=True, slots=True, kw_only=True)
class Installation:
    """Arguments of `install`."""

    user: str | None = None
    options: MemoryOptions = field(default_factory=MemoryOptions)
    mem0_client: Callable[[Any], Any] | None = None


class DevmemMemory(MemoryBase):  # type: ignore[misc] # ChatDev is not in the environment of the type checkers
    """ChatDev's interface to a store of devmem; it is closed when nothing refers to it any more."""

    def __init__(self, store: MemoryStoreConfig, store_type: str, installation: Installation) -> None:
        """Make the store; nothing is opened yet.

        Args:
            store: ChatDev's declaration.
            store_type: its type in devmem.
            installation: arguments of `install`.

        Raises:
            ConfigError: the settings do not fit the store type.
        """
        # Not by way of ChatDev's constructor, which would open its own embedding model.
        self.store, self.name, self.embedding = store, store.name, None
        self.installation, self.run = installation, _RUN.get()
        self.kept = self._make(store_type)
        attachment = Attachment(name=self.name)
        self._writer = devmem.MemoryManager([attachment], {self.name: self.kept}, rescue_dir=self.run)
        weakref.finalize(self, _close, self._writer, self.kept)

    def _make(self, store_type: str) -> devmem.MemoryBase:
        config = self.store.config
        declaration = declared(self.name, store_type, settings_of(store_type, config), Path.cwd())
        make_client = self.installation.mem0_client if store_type == "mem0" else None
        setup = StoreSetup(
            name=self.name,
            store_type=store_type,
            config=declaration.config,
            base_dir=Path.cwd(),
            session_dir=self.run,
            service_client=None if make_client is None else make_client(config),
        )
        return registry.get(store_type).factory(setup)

    @property
    def contents(self) -> list[MemoryItem]:
        """All items, the oldest first."""
        items = self.kept.recent(self.kept.count_memories())
        return [MemoryItem.from_dict(chatdev_form(item)) for item in reversed(items)]

    def count_memories(self) -> int:
        """Return the number of items."""
        return self.kept.count_memories()

    def load(self) -> None:
        """Open the store.

        Raises:
            DevmemError: it cannot be used.
        """
        self.kept.load()

    def save(self) -> None:
        """Finish what could not be finished before; what was written is durable without it."""
        self.kept.save()

    def retrieve(
        self, agent_role: str, query: MemoryContentSnapshot, top_k: int, similarity_threshold: float
    ) -> list[MemoryItem]:
        """Return the best items for a query; a store that fails is logged and returns none, as ChatDev expects."""
        if top_k < 1:
            return []
        attachment = Attachment(name=self.name, **limits(top_k, similarity_threshold))
        options = MemoryOptions(token_budget=None)
        reader = devmem.MemoryManager([attachment], {self.name: self.kept}, options=options)
        found = reader.retrieve(agent_role=agent_role, query=query.text, user=self.installation.user)
        return [MemoryItem.from_dict(chatdev_form(item)) for item in found.items] if found else []

    def update(self, payload: MemoryWritePayload) -> None:
        """Store what a node said; a write that fails is logged, kept, and tried again with the next one."""
        with devmem.acting_as("chatdev", by_default=True):
            self._writer.update(payload_of(payload, node="", user=self.installation.user))


def _close(writer: devmem.MemoryManager, kept: devmem.MemoryBase) -> None:
    writer.close()
    kept.close()
