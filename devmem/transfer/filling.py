"""Putting records into a store in batches, so that nothing is stored twice."""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any, Final

from devmem.errors import DataFileError
from devmem.model.filters import NAMED_FIELDS, SCOPE_PARTS, Filter
from devmem.model.items import APPROVED, QUARANTINE, TRUST, MemoryItem, Scope, SourceKind
from devmem.model.results import MemoryWritePayload, WriteOutcome, WriteStatus
from devmem.storage.protocol import SupportsFieldIndex
from devmem.stores.archiving import archived_items
from devmem.stores.collection_memory import CollectionMemory
from devmem.stores.config import CollectionConfig
from devmem.stores.items import recorded_fields
from devmem.stores.memory import MemoryBase
from devmem.transfer.importing.records import Record
from devmem.workflow.rescue import dump_write


def fields_of(store: MemoryBase) -> tuple[str, ...]:
    """Return the fields that a store records; none for one that records nothing."""
    return recorded_fields(store.collection) if isinstance(store, CollectionMemory) else ()


def take_fields(target: MemoryBase, fields: tuple[str, ...]) -> None:
    """Record the fields of the store that items come from, before these are added.

    An empty target is searched by them from now on, unless its configuration names some. Any other keeps its own, and
    knows that the items which have these left them to their store, as a reindex has to.
    """
    if not fields or not isinstance(target, CollectionMemory):
        return
    config, into = target.setup.config, target.collection
    if not isinstance(into, SupportsFieldIndex) or into.indexed_fields() == fields:
        return
    is_configured = isinstance(config, CollectionConfig) and config.index.fields is not None
    if is_configured or into.indexed_fields() or into.count():
        into.record_fields(fields)
    else:
        into.index_fields(fields)


_BATCH_SIZE: Final = 128
_DIGEST: Final = re.compile(r"[0-9a-f]{32}")
_REASONS_SHOWN: Final = 3
_SAMPLES: Final = 3
EXPIRED: Final = "expired"
"""Key in `Filler.counts` for records that were past their time already."""
ARCHIVED: Final = "still archived"
"""Key in `Filler.counts` for records that are archived unchanged, and stay so."""
UNARCHIVED: Final = "taken out of the archive"
"""Key in `Filler.counts` for records, counted as stored too, that were archived with another content."""
_MARK: Final = "payload_id"
"""Metadata key that identifies a rescued write when it is imported again."""


class RecordSummary:
    """Speakers, times and samples of records, by which a person sees whether a file was understood."""

    def __init__(self) -> None:
        self.records = 0
        """Number of records."""
        self.times: list[float] = []
        """First and last time of an event, in seconds since the epoch; empty without any."""
        self.speakers: Counter[str] = Counter()
        """Number of records by speaker."""
        self.samples: list[str] = []
        """Texts of the first records."""

    def note(self, record: Record) -> None:
        """Take a record."""
        self.records += 1
        if not isinstance(record, MemoryItem):
            return
        if len(self.samples) < _SAMPLES:
            self.samples.append(record.content_summary)
        if record.event_time is not None:
            self.times = [min([*self.times, record.event_time]), max([*self.times, record.event_time])]
        if isinstance(speaker := record.metadata.get("speaker"), str) and speaker:
            self.speakers[speaker] += 1

    def facts(self) -> dict[str, Any]:
        """Return what is known, for programs: `first` and `last` in seconds since the epoch, and more."""
        times = {"first": self.times[0], "last": self.times[1]} if self.times else {}
        return {**times, **({"speakers": dict(self.speakers)} if self.speakers else {}), "samples": self.samples}


class Filler:
    """Takes records one after another, stores them in batches and counts their outcomes.

    The counts are exact: a batch is counted when it is stored, so that they hold after a failure too.
    """

    def __init__(self, store: MemoryBase, *, fields: tuple[str, ...] | None = None, scope: Scope | None = None) -> None:
        """Fill a store.

        Args:
            store: where the records go.
            fields: are searched besides those that items name, see `MemoryItem.indexed_fields`.
            scope: whose the items become, in each part that they leave open.
        """
        self._store, self._fields, self._scope = store, fields, scope or Scope()
        self._items: dict[str, MemoryItem] = {}
        self.counts: Counter[str] = Counter()
        """Number of records by the status of their write, `expired` and `still archived` for those that were not
        written because of it."""
        self.replaced: list[str] = []
        """Ids of items whose earlier content was replaced, or archived."""
        self._payloads: Counter[str] = Counter()
        self._kept: Counter[str] = Counter()
        """Number of duplicates by the part that is stored with another value than the record's, which stays."""
        self._reasons: Counter[tuple[str, str]] = Counter()

    def fill(self, records: Iterable[Record], fields: tuple[str, ...] = ()) -> None:
        """Store all records of a file; where it cannot be read to its end, those before the error.

        Args:
            records: of the file.
            fields: by which the store was searched that they come from.

        Raises:
            DataFileError: a record cannot be read.
            CollectionError: some could not be stored; what `counts` says is stored.
        """
        take_fields(self._store, fields)
        try:
            for record in records:
                self.put(record)
        except DataFileError:
            self.flush()
            raise
        self.flush()

    def put(self, record: Record) -> None:
        """Take a record; it is durable after `flush`.

        Raises:
            CollectionError: it could not be stored, or the batch before it; what `counts` says is stored.
        """
        if isinstance(record, MemoryWritePayload):
            self.flush()
            self._count(self._update(record))
            return
        if self._fields is not None:
            searched = dict.fromkeys([*(record.indexed_fields or ()), *self._fields])
            record = replace(record, indexed_fields=tuple(searched))
        if getattr(self._store.setup.config, "guard", None) is not None:
            # What a file says of its own trust and quarantine is not believed.
            kept = {key: value for key, value in record.metadata.items() if key not in (QUARANTINE, APPROVED)}
            record = replace(record, metadata=kept, trust=min(record.trust, TRUST[SourceKind.IMPORT]))
        given = {part: getattr(self._scope, part) for part in SCOPE_PARTS if getattr(record.scope, part) is None}
        if (scope := replace(record.scope, **given)) != record.scope:
            # An id made of the content says nothing of whose it is: the same file may be imported for two users.
            made = _DIGEST.fullmatch(record.id) is not None
            own = hashlib.sha256("\0".join([record.id, *map(str, given.values())]).encode()).hexdigest()[:32]
            record = replace(record, scope=scope, id=own if made else record.id)
        if record.id in self._items:
            # A batch holds an item once; the later record takes the place of the earlier one, as in any later batch.
            self.flush()
        self._items[record.id] = record
        if len(self._items) >= _BATCH_SIZE:
            self.flush()

    def flush(self) -> None:
        """Store what was taken so far; raises as `put` does."""
        items, self._items = [*self._items.values()], {}
        now = self._store.setup.clock()
        current = [item for item in items if not item.expired(now)]
        self.counts[EXPIRED] += len(items) - len(current)
        # Asked first, because a store would make the embedding of an item that it then does not need.
        there = {item.id: item for item in self._store.get([item.id for item in current])}
        like = [item for item in current if self._is_like(item, there.get(item.id))]
        known = {item.id for item in like}
        others = [item for item in current if item.id not in known]
        # A record that is archived unchanged leaves its item in the archive.
        missing = [item.id for item in others if item.id not in there]
        old = {item.id: item for item in archived_items(self._store, missing)} if missing else {}
        fresh = [item for item in others if not self._is_like(item, old.get(item.id))]
        outcomes = self._store.add(fresh) if fresh else []
        self.counts[WriteStatus.DUPLICATE.value] += len(like)
        self.counts[ARCHIVED] += len(others) - len(fresh)
        # A service may never return an item as it was given.
        for item in self._store.stamped(like) if isinstance(self._store, CollectionMemory) else ():
            self._kept.update(_kept_parts(item, there[item.id]))
        for item, outcome in zip(fresh, outcomes, strict=True):
            self._count(outcome)
            was_archived = old.get(item.id) if outcome else None
            self.counts[UNARCHIVED] += was_archived is not None
            before = there[item.id] if outcome.status is WriteStatus.SUPERSEDED else was_archived
            if before is not None and before.content_hash != item.content_hash:
                self.replaced.append(item.id)

    def notes(self) -> list[str]:
        """Return what a person should know: replaced and kept contents, and the reasons why nothing was stored."""
        reasons = [f"{count:,} {status}: {reason}" for (status, reason), count in self._reasons.most_common()]
        more = len(reasons) - _REASONS_SHOWN
        shown = reasons[:_REASONS_SHOWN] + ([f"and {more:,} more reasons"] if more > 0 else [])
        notes = []
        if self.replaced:
            named = ", ".join(self.replaced[:_REASONS_SHOWN]) + (", ..." if len(self.replaced) > _REASONS_SHOWN else "")
            what = "item has" if len(self.replaced) == 1 else "items have"
            notes.append(f"{len(self.replaced):,} {what} other content now than before under the same id: {named}")
        if left := self.counts[ARCHIVED]:
            what = "item is archived and stays" if left == 1 else "items are archived and stay"
            notes.append(f"{left:,} {what} so: `devmem update --unarchive` brings them back")
        if self._kept:
            named = ", ".join(f"{part} of {count:,}" for part, count in self._kept.most_common(_REASONS_SHOWN))
            more_parts = ", ..." if len(self._kept) > _REASONS_SHOWN else ""
            where = f"duplicates stay as they are where the file differs: {named}{more_parts}"
            notes.append(f"{where}; `devmem update` changes them")
        return [*notes, *shown]

    def _is_like(self, item: MemoryItem, stored: MemoryItem | None) -> bool:
        """Whether all that an item says is stored; only its content and metadata where a service keeps it."""
        if stored is None or stored.content_hash != item.content_hash:
            return False
        # A store adds metadata of its own.
        is_told = all(name in stored.metadata and stored.metadata[name] == told for name, told in item.metadata.items())
        if not isinstance(self._store, CollectionMemory):
            return is_told
        is_same_time, is_same_fields = (
            getattr(item, name) in (None, getattr(stored, name)) for name in ("event_time", "indexed_fields")
        )
        return is_told and item.trust == stored.trust and is_same_time and is_same_fields

    def _update(self, payload: MemoryWritePayload) -> WriteOutcome:
        dumped = dump_write(payload)
        # An equal write is another one; the same file has the same number of them next time.
        self._payloads[dumped] += 1
        mark = hashlib.sha256(f"{self._payloads[dumped]}{dumped}".encode()).hexdigest()[:32]
        if self._store.count(Filter(metadata={_MARK: mark})):
            return WriteOutcome(status=WriteStatus.DUPLICATE)
        return self._store.update(replace(payload, metadata={**payload.metadata, _MARK: mark}))

    def _count(self, outcome: WriteOutcome) -> None:
        self.counts[outcome.status.value] += 1
        if outcome.reason and outcome.status in (WriteStatus.SKIPPED, WriteStatus.QUEUED):
            self._reasons[outcome.status.value, outcome.reason] += 1
        if outcome.waiting:
            self.counts["waiting for their embedding"] += 1


def _kept_parts(item: MemoryItem, stored: MemoryItem) -> Iterator[str]:
    """Name the parts of a stored item that a record of the same content lacks, and the expiry where it differs."""
    yield from (f"metadata.{key}" for key in stored.metadata if key not in item.metadata)
    if item.event_time is None and stored.event_time is not None:
        yield "event_time"
    if item.expires_at != stored.expires_at:
        yield "expires_at"
    yield from (field.key for field in NAMED_FIELDS if field.of(item) != field.of(stored))
