"""The interface of every memory of messages, for threads and for tasks."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Iterable

from devmem.model.message import Message


class MessageMemory(ABC):
    """A memory of messages, each once; one kind can stand in for another.

    A method that may wait has an async twin, which does the same without blocking the event loop.
    """

    @abstractmethod
    def add(self, message: Message) -> bool:
        """Take a message in; return whether it was new."""

    @abstractmethod
    def add_batch(self, messages: Iterable[Message]) -> list[Message]:
        """Take messages in; return those that were new, in order."""

    @abstractmethod
    def update(self, message: Message) -> bool:
        """Put a message in the place of the one with its id; return whether there was one."""

    @abstractmethod
    def find_news(self, observed: Iterable[Message], k: int = 0, *, within: int = 0) -> list[Message]:
        """Return the last `k` observed messages that are not known, with 0 all; nothing is added.

        `within` limits what counts as known to that number of newest messages, as MetaGPT's `k` does; 0 means all.
        """

    @abstractmethod
    def get(self, k: int = 0) -> list[Message]:
        """Return the `k` newest messages, oldest first; 0 means all."""

    @abstractmethod
    def delete(self, message: Message | str) -> bool:
        """Forget a message, or the message with an id; return whether it was known."""

    @abstractmethod
    def delete_newest(self) -> Message | None:
        """Forget and return the message that was added last; None when there is none."""

    @abstractmethod
    def clear(self) -> int:
        """Forget everything; return the number of messages."""

    async def aadd(self, message: Message) -> bool:
        """Do `add` without blocking the event loop."""
        return await asyncio.to_thread(self.add, message)

    async def aadd_batch(self, messages: Iterable[Message]) -> list[Message]:
        """Do `add_batch` without blocking the event loop."""
        return await asyncio.to_thread(self.add_batch, messages)

    async def aupdate(self, message: Message) -> bool:
        """Do `update` without blocking the event loop."""
        return await asyncio.to_thread(self.update, message)

    async def afind_news(self, observed: Iterable[Message], k: int = 0, *, within: int = 0) -> list[Message]:
        """Do `find_news` without blocking the event loop."""
        return await asyncio.to_thread(self.find_news, observed, k, within=within)

    async def aget(self, k: int = 0) -> list[Message]:
        """Do `get` without blocking the event loop."""
        return await asyncio.to_thread(self.get, k)

    async def adelete(self, message: Message | str) -> bool:
        """Do `delete` without blocking the event loop."""
        return await asyncio.to_thread(self.delete, message)

    async def adelete_newest(self) -> Message | None:
        """Do `delete_newest` without blocking the event loop."""
        return await asyncio.to_thread(self.delete_newest)

    async def aclear(self) -> int:
        """Do `clear` without blocking the event loop."""
        return await asyncio.to_thread(self.clear)
