"""A conversation for event loops too: every method that may wait has a twin."""

from __future__ import annotations

import asyncio

from devmem import MemoryItem, WriteOutcome
from devmem.messages import Message
from devmem_stores.brain.conversation import Conversation
from devmem_stores.brain.llm_tasks import Rewriting
from devmem_stores.brain.state import BrainState, Summary


class Brain(Conversation):
    """One conversation of one user; `BrainMemory.brain` gives it.

    The twins do what the methods of the same name do, without blocking the event loop.
    """

    async def asnapshot(self) -> BrainState:
        """Do `snapshot`; its properties are those of the conversation."""
        return await asyncio.to_thread(self.snapshot)

    async def aadd_talk(self, message: Message | str) -> WriteOutcome:
        """Do `add_talk`."""
        return await asyncio.to_thread(self.add_talk, message)

    async def aadd_answer(self, message: Message | str) -> WriteOutcome:
        """Do `add_answer`."""
        return await asyncio.to_thread(self.add_answer, message)

    async def aadd_history(self, message: Message) -> WriteOutcome:
        """Do `add_history`."""
        return await asyncio.to_thread(self.add_history, message)

    async def aadd_knowledge(self, message: Message | str) -> WriteOutcome:
        """Do `add_knowledge`."""
        return await asyncio.to_thread(self.add_knowledge, message)

    async def apop_last_talk(self) -> str | None:
        """Do `pop_last_talk`."""
        return await asyncio.to_thread(self.pop_last_talk)

    async def aset_history_summary(self, summary: str) -> WriteOutcome:
        """Do `set_history_summary`."""
        return await asyncio.to_thread(self.set_history_summary, summary)

    async def asummarize(self, max_words: int = 200, *, keep_language: bool = False, limit: int = -1) -> str:
        """Do `summarize`."""
        return await asyncio.to_thread(lambda: self.summarize(max_words, keep_language=keep_language, limit=limit))

    async def acompress(self) -> int:
        """Do `compress`."""
        return await asyncio.to_thread(self.compress)

    async def aget_title(self, max_words: int = 5) -> str:
        """Do `get_title`."""
        return await asyncio.to_thread(self.get_title, max_words)

    async def ais_related(self, text1: str, text2: str) -> bool:
        """Do `is_related`."""
        return await asyncio.to_thread(self.is_related, text1, text2)

    async def arewrite(self, sentence: str, context: str) -> Rewriting:
        """Do `rewrite`."""
        return await asyncio.to_thread(self.rewrite, sentence, context)

    async def asources(self, summary: Summary) -> list[MemoryItem]:
        """Do `sources`."""
        return await asyncio.to_thread(self.sources, summary)

    async def asave(self) -> bool:
        """Do `save`."""
        return await asyncio.to_thread(self.save)
