"""agentUniverse's memory components: a budget that is kept, and a chat that is more than its last list of messages."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from hashlib import sha256
from typing import Any, ClassVar, Final

from agentuniverse.agent.memory.chat_memory import ChatMemory
from agentuniverse.agent.memory.memory import Memory
from agentuniverse.agent.memory.memory_compressor.memory_compressor_manager import MemoryCompressorManager
from agentuniverse.agent.memory.memory_storage.memory_storage_manager import MemoryStorageManager
from agentuniverse.agent.memory.message import Message
from agentuniverse.base.util.memory_util import get_memory_tokens
from pydantic import Field, PrivateAttr

from devmem.text import shorten

_FOR_A_SUMMARY: Final = 4
"""Divisor of the budget that gives the budget of a summary."""


class DevmemAgentMemory(Memory):
    """A memory component: every storage that it names exists, and what it returns fits `max_tokens`."""

    prunes: ClassVar[bool] = False
    """Whether a read leaves out what does not fit the budget, where it does not say."""

    memory_storages: list[str] | None = Field(default_factory=lambda: ["devmem_memory_storage"])

    _summaries: dict[str, str] = PrivateAttr(default_factory=dict)
    """Summaries by the messages that they were made of: a read asks the model once."""

    def _storage(self, name: str | None) -> Any:
        found = MemoryStorageManager().get_instance_obj(name)
        if found is None:
            raise ValueError(
                f"memory {self.name!r} names the memory storage {name!r}, which is not a component: "
                "is its YAML in a package that config.toml names under memory_storage?"
            )
        return found

    def add(
        self, message_list: Sequence[Message], session_id: str | None = None, agent_id: str | None = None, **more: Any
    ) -> None:
        """Add messages to every storage; one that fails keeps them from no other, and its error is raised after.

        Raises:
            ValueError: a storage is not a component; nothing was added.
        """
        if message_list:
            self._each("add", list(message_list), session_id, agent_id, **more)

    def delete(self, session_id: str | None = None, **more: Any) -> None:
        """Delete messages from every storage; raises as `add`."""
        self._each("delete", session_id, **more)

    def _each(self, method: str, *given: Any, **more: Any) -> None:
        failures: list[Exception] = []
        for storage in [self._storage(name) for name in self.memory_storages or ()]:
            try:
                getattr(storage, method)(*given, **more)
            except Exception as error:  # noqa: BLE001 - whatever another's storage raises
                failures.append(error)
        if failures:
            raise failures[0]

    def get(
        self, session_id: str | None = None, agent_id: str | None = None, prune: bool | None = None, **more: Any
    ) -> list[Message]:
        """Return messages of the storage that is read, with `prune` those that fit the budget; None is the class's own.

        Raises:
            ValueError: the storage is not a component.
        """
        found = self.get_with_no_prune(session_id, agent_id, **more)
        return self.prune(found) if (self.prunes if prune is None else prune) else found

    def get_with_no_prune(
        self, session_id: str | None = None, agent_id: str | None = None, **more: Any
    ) -> list[Message]:
        """Return messages of the storage that is read; raises as `get`."""
        named = self.memory_retrieval_storage or next(iter(self.memory_storages or ()), None)
        found: list[Message] = self._storage(named).get(session_id, agent_id, **more)
        return found

    def prune(self, memories: Sequence[Message]) -> list[Message]:
        """Return the newest messages that fit `max_tokens`, after a summary of the others where a compressor is named.

        The newest message is always there, shortened where it alone is too long. A summary counts, and is made once.
        """
        if not memories:
            return []
        if self._tokens(memories) <= self.max_tokens:
            return list(memories)
        compressor = MemoryCompressorManager().get_instance_obj(self.memory_compressor)
        for_summary = self.max_tokens // _FOR_A_SUMMARY if compressor else 0
        kept = self._newest(memories, self.max_tokens - for_summary)
        older = list(memories)[: len(memories) - len(kept)]
        if not compressor or not older:
            return kept
        key = sha256("\x1e".join(f"{one.id}\x1f{one.content}" for one in older).encode()).hexdigest()
        if key not in self._summaries:
            self._summaries[key] = str(compressor.compress_memory(older, for_summary) or "")
        text = self._summaries[key]
        return [self._shortened(Message(content=text), for_summary), *kept] if text else kept

    def _newest(self, memories: Sequence[Message], budget: int) -> list[Message]:
        room, kept = budget, list[Message]()
        for message in reversed(memories):
            room -= self._tokens([message])
            if room < 0:
                break
            kept.insert(0, message)
        return kept or [self._shortened(memories[-1], budget)]

    def _shortened(self, message: Message, budget: int) -> Message:
        """Return a message whose text is as long as the budget allows."""
        text = str(message.content)

        def cut(length: int) -> Message:
            return message.model_copy(update={"content": shorten(text, length)})

        fitting = bisect_right(range(1, len(text) + 1), budget, key=lambda length: self._tokens([cut(length)]))
        return cut(max(fitting, 1))

    def _tokens(self, memories: Sequence[Message]) -> int:
        return int(get_memory_tokens(list(memories), getattr(self, "agent_llm_name", None)))


class DevmemChatMemory(DevmemAgentMemory, ChatMemory):
    """A chat whose messages stay in the storages: `add` takes the whole chat so far, or what is new in it.

    Messages without an id are known by their place among those that say the same, so that a chat that is handed over
    whole each turn is stored once; a chat that is handed over in parts needs messages with ids.
    """

    prunes = True

    def add(
        self, message_list: Sequence[Message], session_id: str | None = None, agent_id: str | None = None, **more: Any
    ) -> None:
        """Add the messages that are not there; raises as `DevmemAgentMemory.add`."""
        named = _named(message_list, session_id, agent_id)
        super().add(named, session_id, agent_id, **more)
        self.messages = self.get_with_no_prune(session_id, agent_id, top_k=max(len(named), _CHAT))


_CHAT: Final = 100
"""Number of messages of a chat that LangChain is handed."""


def _named(messages: Sequence[Message], session_id: str | None, agent_id: str | None) -> list[Message]:
    """Return messages with ids: those without one are named by their place among those that say the same."""
    seen: dict[tuple[object, ...], int] = {}
    named = []
    for message in messages:
        said = (session_id, agent_id, message.type, message.source, str(message.content))
        seen[said] = seen.get(said, 0) + 1
        made = sha256(repr((said, seen[said])).encode()).hexdigest()[:32]
        named.append(message if message.id else message.model_copy(update={"id": made}))
    return named
