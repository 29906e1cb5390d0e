"""A run of a memory: what is written in it is committed as a whole, or not at all."""

from __future__ import annotations

import asyncio
from types import TracebackType
from typing import Generic, TypeVar

from devmem.stores.runs import StoreRun

M = TypeVar("M")


class MemoryRun(Generic[M]):
    """A pending run of a memory; its `with` block commits it at the end, and discards it after an error."""

    def __init__(self, memory: M, run: StoreRun) -> None:
        self.memory = memory
        """The memory as the run sees and changes it."""
        self._run = run

    @property
    def id(self) -> str:
        """Id of the run."""
        return self._run.run

    def commit(self) -> None:
        """Show everybody what the run wrote.

        Raises:
            RunConflictError: others changed the same items since; nothing was committed, and the run stays pending.
        """
        self._run.commit()

    def discard(self) -> None:
        """Drop what the run wrote; what it had replaced or forgotten is there as before."""
        self._run.discard()

    def close(self) -> None:
        """Release what the run holds; it stays pending."""
        self._run.close()

    def __enter__(self) -> M:
        return self.memory

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is None:
            self.commit()
        else:
            self.discard()

    async def __aenter__(self) -> M:
        return self.memory

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await asyncio.to_thread(self.__exit__, kind, error, trace)
