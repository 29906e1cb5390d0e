"""Putting records into a store in batches, so that nothing is stored twice."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterator
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
EXPIRED: Final = "expired"
"""Key in `Filler.counts` for records that were past their time already."""
_MARK: Final = "payload_id"
"""Metadata key that identifies a rescued write when it is imported again."""


class Filler:
    """Takes records one after another, stores them in batches and counts their outcomes.

    The counts are exact: a batch is counted when it is stored, so that they hold after a failure too.
    """

    def __init__(self, store: MemoryBase, *, fields: tuple[str, ...] | None = None) -> None:
        """Fill a store; `fields` are searched of items that name none, see `MemoryItem.indexed_fields`."""
        self._store, self._fields = store, fields
        self._items: list[MemoryItem] = []
        self.counts: Counter[str] = Counter()
        """Number of records by the status of their write, `expired` for those that were not written because of it."""
        self.replaced: list[str] = []
        """Ids of items whose earlier content was replaced."""
        self._reasons: Counter[tuple[str, str]] = Counter()

    def put(self, record: Record) -> None:
        """Take a record; it is durable after `flush`.

        Raises:
            CollectionError: it could not be stored, or the batch before it; what `counts` says is stored.
        """
        if isinstance(record, MemoryWritePayload):
            self.flush()
            self._count(self._update(record))
            return
        names_fields = record.indexed_fields is not None or self._fields is None
        self._items.append(record if names_fields else replace(record, indexed_fields=self._fields))
        if len(self._items) >= _BATCH:
            self.flush()

    def flush(self) -> None:
        """Store what was taken so far; raises as `put` does."""
        items, self._items = self._items, []
        now = self._store.setup.clock()
        current = [item for item in items if not item.expired(now)]
        self.counts[EXPIRED] += len(items) - len(current)
        # Asked first, because a store would make the embedding of an item that it then does not need.
        there = {item.id: item for item in self._store.get([item.id for item in current])}
        fresh = [item for item in current if not _is_like(item, there.get(item.id))]
        outcomes = self._store.add(fresh) if fresh else []
        self.counts[WriteStatus.DUPLICATE.value] += len(current) - len(fresh)
        for item, outcome in zip(fresh, outcomes, strict=True):
            self._count(outcome)
            if outcome.status is WriteStatus.SUPERSEDED and there[item.id].content_hash != item.content_hash:
                self.replaced.append(item.id)

    def notes(self) -> list[str]:
        """Return what a person should know: replaced contents, and the most frequent reasons why nothing was stored."""
        reasons = [f"{count:,} {status}: {reason}" for (status, reason), count in self._reasons.most_common()]
        more = len(reasons) - _REASONS_SHOWN
        shown = reasons[:_REASONS_SHOWN] + ([f"and {more:,} more reasons"] if more > 0 else [])
        return [*self._replacements(), *shown]

    def _replacements(self) -> Iterator[str]:
        if self.replaced:
            named = ", ".join(self.replaced[:_REASONS_SHOWN]) + (", ..." if len(self.replaced) > _REASONS_SHOWN else "")
            what = "item has" if len(self.replaced) == 1 else "items have"
            yield f"{len(self.replaced):,} {what} other content now than before under the same id: {named}"

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


def _is_like(item: MemoryItem, stored: MemoryItem | None) -> bool:
    """Whether an item is stored with the same content and metadata, and searched by the fields that it names.

    A store adds metadata of its own; times and expiry may be those of the import.
    """
    if stored is None or stored.content_hash != item.content_hash:
        return False
    if any(name not in stored.metadata or stored.metadata[name] != value for name, value in item.metadata.items()):
        return False
    return item.indexed_fields is None or item.indexed_fields == stored.indexed_fields
