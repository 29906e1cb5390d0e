"""A memory as it was at an earlier time."""

from __future__ import annotations

from types import TracebackType
from typing import Self

from devmem.memory.reading import MemoryReader


class EarlierMemory(MemoryReader):
    """A memory as it was at a time, with the methods of a memory that change nothing.

    Closing it, or leaving its `with` block, releases its indexes; the memory itself stays open.
    """

    def close(self) -> None:
        """Release what it holds; closing twice is allowed."""
        self.store.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
