"""ChatDev's `MemoryManager` over stores of devmem."""

from __future__ import annotations

import logging
import weakref
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final

from entity.configs import MemoryAttachmentConfig
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
from devmem.adapters.chatdev.conversion import attachment_of, chatdev_form, payload_of
from devmem.adapters.chatdev.stores import DevmemMemory, Installation
from devmem.workflow import MemoryRetrievalResult as Recalled

_LOG: Final = logging.getLogger(__name__)


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
        own = {name: store for name, store in self.memories.items() if isinstance(store, DevmemMemory)}
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
        found = self._own.retrieve(
            agent_role=agent_role,
            query=query.text,
            current_stage=current_stage.value,
            user=self._installation.user,
            caller=self._caller(),
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
