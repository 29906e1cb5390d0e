"""Putting records into a store, some hundreds at a time, so that nothing is stored twice."""

from __future__ import annotations

import hashlib
from collections import Counter
from dataclasses import replace
from typing import Final

from devmem.base import MemoryBase
from devmem.collections import Filter
from devmem.importing import Record
from devmem.items import MemoryItem
from devmem.manager import dump_payload
from devmem.outcomes import MemoryWritePayload, WriteOutcome, WriteStatus

_BATCH: Final = 128
_MARK: Final = "payload_id"
"""Metadata key by which a rescued write is known when it comes again."""


class Filler:
    """Takes records one after another and counts what becomes of them."""

    def __init__(self, store: MemoryBase) -> None:
        self._store = store
        self._items: list[MemoryItem] = []
        self.counts: Counter[str] = Counter()

    def put(self, record: Record) -> None:
        """Take a record; it is durable after `flush`."""
        if isinstance(record, MemoryWritePayload):
            self.flush()
            self._count(self._update(record))
            return
        self._items.append(record)
        if len(self._items) >= _BATCH:
            self.flush()

    def flush(self) -> None:
        """Store what was taken so far."""
        items, self._items = self._items, []
        # Asked first, because a store would make the embedding of an item that it then does not need.
        there = {item.id: item.content_hash for item in self._store.get([item.id for item in items])}
        fresh = [item for item in items if there.get(item.id) != item.content_hash]
        self.counts[WriteStatus.DUPLICATE.value] += len(items) - len(fresh)
        for outcome in self._store.add(fresh):
            self._count(outcome)

    def _update(self, payload: MemoryWritePayload) -> WriteOutcome:
        mark = hashlib.sha256(dump_payload(payload).encode()).hexdigest()[:32]
        if self._store.count_memories(Filter(metadata={_MARK: mark})):
            return WriteOutcome(status=WriteStatus.DUPLICATE)
        return self._store.update(replace(payload, metadata={**payload.metadata, _MARK: mark}))

    def _count(self, outcome: WriteOutcome) -> None:
        self.counts[outcome.status.value] += 1
        if outcome.waiting:
            self.counts["waiting for their embedding"] += 1
