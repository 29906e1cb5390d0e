"""ChatDev's memories and its `MemoryManager` over stores of devmem."""

from __future__ import annotations

import logging
import time
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

from entity.configs import MemoryAttachmentConfig, MemoryStoreConfig
from entity.enums import AgentExecFlowStage
from runtime.node.agent.memory.memory_base import (
    MemoryBase,
    MemoryContentSnapshot,
    MemoryItem,
    MemoryManager,
    MemoryRetrievalResult,
    MemoryWritePayload,
)

import devmem
from devmem import Stage
from devmem.adapters.chatdev.conversion import (
    attachment_of,
    chatdev_form,
    declared,
    limits,
    payload_of,
    settings_of,
)
from devmem.config import Attachment, MemoryOptions
from devmem.plugins import registry
from devmem.stores import RecallRecorder, StoreSetup
from devmem.workflow import MemoryRetrievalResult as Recalled

_LOG: Final = logging.getLogger(__name__)
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
    recalls: RecallRecorder | None = None
    """Records what agents are shown; None records nothing."""


class ChatDevMemory(MemoryBase):  # type: ignore[misc] # ChatDev is not in the environment of the type checkers
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
        items = self.kept.recent(self.kept.count())
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
        # As in ChatDev: the nearest items whatever was said, and equal ones too.
        attachment = Attachment(name=self.name, relevance=False, **limits(top_k, similarity_threshold))
        options = MemoryOptions(token_budget=None, dedupe=False)
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


class DevmemMemoryManager(MemoryManager):  # type: ignore[misc] # ChatDev is not in the environment of the type checkers
    """Retrieves and writes as devmem does: a store that fails is logged, and never costs the agent its answer.

    Stores of other types, which others registered with ChatDev, are served by ChatDev's own manager.
    """

    def __init__(self, attachments: Sequence[MemoryAttachmentConfig], stores: Mapping[str, MemoryBase]) -> None:
        """Attach a node to its stores.

        Raises:
            ValueError: an attachment names a store that is not there, or limits that cannot be kept.
        """
        super().__init__(attachments, stores)
        own = {name: store for name, store in self.memories.items() if isinstance(store, ChatDevMemory)}
        first = next(iter(own.values()), None)
        self._installation = first.installation if first else Installation()
        self._run = first.run if first else None
        self.node = ""
        self._own = devmem.MemoryManager(
            [attachment_of(each) for each in attachments if each.name in own],
            {name: store.kept for name, store in own.items()},
            options=self._installation.options,
            rescue_dir=self._run,
        )
        others = [each for each in attachments if each.name not in own]
        self._others = MemoryManager(others, stores) if others else None
        weakref.finalize(self, self._own.close)

    def retrieve(
        self, agent_role: str, query: MemoryContentSnapshot, current_stage: AgentExecFlowStage
    ) -> MemoryRetrievalResult | None:
        """Return what is recalled at a stage; None when there is nothing to show."""
        began = time.perf_counter()
        found = self._own.retrieve(
            agent_role=agent_role,
            query=query.text,
            current_stage=current_stage.value,
            user=self._installation.user,
            caller=self._caller(),
        )
        stage, recalls = Stage(current_stage.value), self._installation.recalls
        if recalls is not None and self._own.reads_at(stage):
            recalls.record_for_host(
                "",
                query.text,
                found,
                host=self.node,
                scope=devmem.Scope(user=self._installation.user, run=self._run.name if self._run else None),
                stage=stage,
                seconds=time.perf_counter() - began,
                budget=self._installation.options.token_budget,
            )
        results = [_result(found)] if found and found.formatted_text else []
        if self._others is not None:
            try:
                other = self._others.retrieve(agent_role, query, current_stage)
            except Exception:  # noqa: BLE001 - a store type may be anyone's code, and memory never takes a node down
                _LOG.exception("node %r: a memory store that is not devmem's could not retrieve", self.node)
            else:
                results += [other] if other is not None else []
        if not results:
            return None
        text = "\n\n".join(result.formatted_text for result in results)
        return MemoryRetrievalResult(formatted_text=text, items=[item for each in results for item in each.items])

    def update(self, payload: MemoryWritePayload) -> None:
        """Write what a finished node said; it is durable when this returns, and what fails is kept and tried again."""
        said = payload_of(payload, node=self.node, user=self._installation.user)
        self._own.update(replace(said, caller=self._caller()))
        if self._others is not None:
            try:
                self._others.update(payload)
            except Exception:  # noqa: BLE001 - see `retrieve`
                _LOG.exception("node %r: a memory store that is not devmem's could not be written", self.node)

    def _caller(self) -> devmem.Caller:
        return devmem.Caller(node=self.node, conversation=self._run.name if self._run else None)


def _result(found: Recalled) -> MemoryRetrievalResult:
    items = [MemoryItem.from_dict(chatdev_form(item)) for item in found.items]
    return MemoryRetrievalResult(formatted_text=found.formatted_text, items=items)
