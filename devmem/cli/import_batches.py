"""Putting records into a store in batches, so that nothing is stored twice."""

from __future__ import annotations

import hashlib
from collections import Counter
from dataclasses import replace
from typing import Final

from devmem.collections import Filter
from devmem.manager import dump_payload
from devmem.model.items import MemoryItem
from devmem.model.results import MemoryWritePayload, WriteOutcome, WriteStatus
from devmem.stores import MemoryBase
from devmem.transfer.importing import Record

_BATCH: Final = 128
_REASONS_SHOWN: Final = 3
_MARK: Final = "payload_id"
"""Metadata key that identifies a rescued write when it is imported again."""


class Filler:
    """Takes records one after another and counts their outcomes."""

    def __init__(self, store: MemoryBase) -> None:
        self._store = store
        self._items: list[MemoryItem] = []
        self.counts: Counter[str] = Counter()
        self._reasons: Counter[tuple[str, str]] = Counter()

    def put(self, record: Record) -> None:
        """Accept a record; it is durable after `flush`."""
        if isinstance(record, MemoryWritePayload):
            self.flush()
            self._count(self._update(record))
            return
        self._items.append(record)
        if len(self._items) >= _BATCH:
            self.flush()

    def flush(self) -> None:
        """Store the records accepted so far."""
        items, self._items = self._items, []
        # Looked up first, because a store would embed an item that it then does not need.
        there = {item.id: item.content_hash for item in self._store.get([item.id for item in items])}
        fresh = [item for item in items if there.get(item.id) != item.content_hash]
        self.counts[WriteStatus.DUPLICATE.value] += len(items) - len(fresh)
        for outcome in self._store.add(fresh):
            self._count(outcome)

    def reasons(self) -> list[str]:
        """Return the most frequent reasons why records were not stored, with their counts: `48 skipped: ...`."""
        shown = [f"{count:,} {status}: {reason}" for (status, reason), count in self._reasons.most_common()]
        more = shown[_REASONS_SHOWN:]
        return shown[:_REASONS_SHOWN] + ([f"and {len(more):,} more reasons"] if more else [])

    def _update(self, payload: MemoryWritePayload) -> WriteOutcome:
        mark = hashlib.sha256(dump_payload(payload).encode()).hexdigest()[:32]
        if self._store.count_memories(Filter(metadata={_MARK: mark})):
            return WriteOutcome(status=WriteStatus.DUPLICATE)
        return self._store.update(replace(payload, metadata={**payload.metadata, _MARK: mark}))

    def _count(self, outcome: WriteOutcome) -> None:
        self.counts[outcome.status.value] += 1
        if outcome.reason and outcome.status in (WriteStatus.SKIPPED, WriteStatus.QUEUED):
            self._reasons[outcome.status.value, outcome.reason] += 1
        if outcome.waiting:
            self.counts["waiting for their embedding"] += 1
