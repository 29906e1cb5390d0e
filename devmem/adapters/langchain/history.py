"""A history of LangChain's messages in a memory."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Final

from langchain_core.chat_history import BaseChatMessageHistory
from langchain_core.messages import BaseMessage, convert_to_messages, message_to_dict, messages_from_dict

from devmem import Filter, Memory, MemoryItem, Scope
from devmem.adapters.hosts import collection_of, kept_message, role_of, writing
from devmem.messages import Message
from devmem.storage import Unique, starts_with

MESSAGE: Final = "langchain.message"
"""Metadata key of a message as it came, as JSON text."""
_HOST: Final = "langchain"
_ROLES: Final = {"human": "user", "ai": "assistant"}


class DevmemChatMessageHistory(BaseChatMessageHistory):
    """The messages of one conversation, which other programs find in the memory at the same time.

    Messages are appended as they come, an equal one later in the conversation too.
    """

    def __init__(self, session_id: str, memory: Memory) -> None:
        """Take the part of a memory that belongs to a conversation; the caller closes the memory.

        Args:
            session_id: name of the conversation, which is the `session` of its items' scope.
            memory: a memory, or a scoped handle, which the history never leaves.

        Raises:
            TypeError: the memory is of a store type that keeps no collection, such as `mem0`.
            ValueError: the id is blank.
        """
        self._store = collection_of(memory, "a history")
        self.session_id = session_id
        self._memory = memory.scoped().scoped(session=session_id)

    @property
    def messages(self) -> list[BaseMessage]:
        """The messages, oldest first."""
        return messages_from_dict([json.loads(str(item.metadata[MESSAGE])) for item in self._store.scan(self._where())])

    def add_messages(self, messages: Sequence[BaseMessage]) -> None:
        """Append messages, all of them or, after an error, none."""
        scope, now = self._memory.guard.new_scope(), self._store.setup.clock()
        items = [_item_of(message, scope, now) for message in convert_to_messages(messages)]
        if items:
            with writing(_HOST, self._memory):
                self._store.store_items(items, unique=Unique.ID)

    def clear(self) -> None:
        """Delete the messages permanently."""
        with writing(_HOST, self._memory):
            self._store.erase(where=self._where())

    def _where(self) -> Filter:
        return self._memory.guard.matching(Filter(metadata={MESSAGE: starts_with("{")}))


def _item_of(message: BaseMessage, scope: Scope, now: float) -> MemoryItem:
    form = json.dumps(message_to_dict(message), ensure_ascii=False)
    said = Message(str(message.text), role=role_of(_ROLES.get(message.type, message.type)), source=message.name or "")
    return kept_message(said, scope, now, {MESSAGE: form})
