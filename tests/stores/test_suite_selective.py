"""The contract of a store type, kept by one that is selective by design: it keeps only what is marked."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import ClassVar

from pydantic import JsonValue

from devmem import MemoryItem, MemoryWritePayload, WriteOutcome
from devmem.stores import skipped
from devmem.testing import StoreSuite
from devmem_stores.simple import SimpleMemory


class MarkedMemory(SimpleMemory):
    """Keeps exchanges that are marked as important."""

    def compose(self, payload: MemoryWritePayload) -> MemoryItem | WriteOutcome:
        if not payload.metadata.get("important"):
            return skipped("it is not marked as important")
        return super().compose(payload)


class TestSelective(StoreSuite):
    store_class = MarkedMemory
    config: ClassVar[Mapping[str, JsonValue]] = {"memory_path": "memory.db"}

    def kept(self, payload: MemoryWritePayload) -> MemoryWritePayload:
        return replace(payload, metadata={**payload.metadata, "important": True})
