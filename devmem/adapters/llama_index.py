"""A memory block of LlamaIndex's `Memory` over a memory; needs the extra `llama-index`.

memory = Memory.from_defaults(session_id="thread-1", memory_blocks=[DevmemMemoryBlock(memory=devmem.open("notes.db"))])
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any, Final

from devmem import Memory
from devmem.adapters.hosts import last_said, recalled, role_of, within_tags, writing
from devmem.adapters.hosts import require as _require
from devmem.messages import Message
from devmem.text import estimate_tokens

_require("llama_index.core.memory", package="llama-index-core", extra="llama-index")

from llama_index.core.base.llms.types import ChatMessage
from llama_index.core.bridge.pydantic import Field, PrivateAttr
from llama_index.core.memory.memory import BaseMemoryBlock

_SESSION: Final = "session_id"
"""Key under which LlamaIndex's `Memory` names the session of a message."""


class DevmemMemoryBlock(BaseMemoryBlock[str]):  # type: ignore[misc] # not in the environment of the type checkers
    """Recalls what answers the user's last message, and remembers what leaves the short-term memory.

    What is recalled comes from all sessions within the memory's reach; what is remembered belongs to the session that
    LlamaIndex names.
    """

    name: str = Field(default="devmem", description="The name of the memory block.")
    description: str | None = Field(default="What is remembered of earlier conversations.")
    limit: int = Field(default=5, ge=1, description="Maximum number of memories that are recalled.")
    token_budget: int = Field(
        default=2000, ge=1, description="Maximum size of the recalled block, in estimated tokens."
    )
    relevance: bool = Field(
        default=True, description="Whether a message that nothing stored has to do with recalls nothing."
    )

    _memory: Memory = PrivateAttr()

    def __init__(self, memory: Memory, **fields: Any) -> None:
        """Wrap an opened memory; the caller closes it.

        Args:
            memory: a memory, or a scoped handle, which the block never leaves.
            fields: `limit`, `token_budget`, `relevance`, and the fields of every block: `name`, `description`,
                `priority`, `accept_short_term_memory`.
        """
        super().__init__(**fields)
        self._memory = memory.scoped()

    async def _aget(self, messages: list[ChatMessage] | None = None, **_: Any) -> str:
        said = [(message.role, _text(message)) for message in messages or []]
        at = last_said(said)
        if at is None:
            return ""
        block = await asyncio.to_thread(
            recalled,
            "llama_index",
            self._memory,
            said[at][1],
            shown=[text for _, text in said],
            limit=self.limit,
            token_budget=self.token_budget,
            relevance=self.relevance,
        )
        # LlamaIndex puts the block between `<memory>` and a tag of its name.
        return within_tags(block, "memory", self.name)

    async def _aput(self, messages: list[ChatMessage]) -> None:
        await asyncio.to_thread(self._put, messages)

    def _put(self, messages: Sequence[ChatMessage]) -> None:
        said = [message for message in messages if _text(message).strip()]
        sessions = dict.fromkeys(message.additional_kwargs.get(_SESSION) for message in said)
        for session in sessions:
            of_session = [each for each in said if each.additional_kwargs.get(_SESSION) == session]
            with writing("llama_index", self._memory):
                self._memory.add([_message_of(each) for each in of_session], session=session)

    async def atruncate(self, content: str, tokens_to_truncate: int) -> str | None:
        """Leave out the last memories of a block, as many as are needed; None when none is left."""
        lines = content.splitlines()
        wanted = estimate_tokens(content) - tokens_to_truncate
        # The first and the last line frame the memories between them.
        while len(lines) > 2 and estimate_tokens("\n".join(lines)) > wanted:
            del lines[-2]
        return "\n".join(lines) if any(line[:1].isdigit() for line in lines) else None


def _message_of(message: ChatMessage) -> Message:
    return Message(_text(message), role=role_of(message.role))


def _text(message: ChatMessage) -> str:
    return message.content or ""
