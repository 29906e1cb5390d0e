"""Items made of payloads: what every store type keeps of a node's write."""

from __future__ import annotations

import logging
import math
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Final

from devmem.errors import NotStoredError
from devmem.forks import follow_forks
from devmem.model.caller import Turn
from devmem.model.items import AGENT_KEY, MemoryItem, Provenance, SourceKind, is_pinned, parent_hash
from devmem.model.results import MemoryWritePayload, WriteOutcome, WriteStatus
from devmem.storage.protocol import Collection, SupportsFieldIndex
from devmem.stores.memory import MemoryBase
from devmem.text.devall_frames import framed_turns, strip_frames

_PREVIEW: Final = 200
"""Characters of the input that the metadata show, as DevAll's (ChatDev 2) do."""


def item_from(payload: MemoryWritePayload, summary: str, *, created_at: float) -> MemoryItem:
    """Return the item of a payload with a summary: snapshots, scope, times, trust and provenance are the payload's.

    A store type changes what it keeps otherwise with `dataclasses.replace`.

    `created_at` is in seconds since the epoch.
    """
    snapshots = [each for each in (payload.input_snapshot, payload.output_snapshot) if each is not None]
    received_from = list(dict.fromkeys(turn.speaker for turn in turns_of(payload) if turn.speaker))
    return MemoryItem(
        content_summary=summary,
        metadata={
            **payload.metadata,
            "agent_role": payload.agent_role,
            "input_preview": strip_frames(payload.inputs_text)[:_PREVIEW],
            "attachments": [each for snapshot in snapshots for each in snapshot.attachment_overview()],
            **({"received_from": [*received_from]} if received_from else {}),
            **({AGENT_KEY: payload.caller.name} if payload.caller.name else {}),
        },
        created_at=created_at,
        event_time=payload.event_time,
        expires_at=payload.expires_at,
        input_snapshot=payload.input_snapshot,
        output_snapshot=payload.output_snapshot,
        scope=payload.scope,
        provenance=Provenance(kind=SourceKind.NODE, name=payload.source),
        trust=payload.trust,
    )


def turns_of(payload: MemoryWritePayload) -> tuple[Turn, ...]:
    """Return what each sender said to the node, in order; blank turns are left out."""
    turns = payload.turns
    if turns is None:
        turns = tuple(
            Turn(text=text, speaker=speaker, role=role) for speaker, role, text in framed_turns(payload.inputs_text)
        )
    return tuple(turn for turn in turns if turn.text.strip())


def answer_of(payload: MemoryWritePayload) -> str:
    """Return what a node answered; empty where it only quoted what was recalled, as `provider: extractive` does."""
    return "" if payload.quoted else payload.output_text().strip()


def skipped(reason: str) -> WriteOutcome:
    """Return the outcome of a payload that holds nothing for a store, with the reason."""
    return WriteOutcome(status=WriteStatus.SKIPPED, reason=reason)


_LOG: Final = logging.getLogger(__name__)
Stored = Callable[[Sequence[str]], Sequence[MemoryItem]]
"""Returns the stored items of some ids."""
_FRESH_FOR: Final = 5.0
"""Seconds for which recorded fields are taken for current: another process may reindex the store by others."""


class ItemFields:
    """Settles the fields of new items, and reports items that are searched by others."""

    def __init__(self, store: str, configured: tuple[str, ...] | None, *, clock: Callable[[], float]) -> None:
        """Take the store's name, for messages, and the configured fields; None leaves them to the collection.

        `clock` returns seconds, which only grow.
        """
        self._store, self._configured, self._clock = store, configured, clock
        self._lock = threading.Lock()
        self._recorded: tuple[str, ...] = ()
        self._read_at = -math.inf
        self._is_recorded = False
        """Whether the configured fields are known to be on record."""
        follow_forks(self)

    def stamped(self, items: Sequence[MemoryItem], collection: Callable[[], Collection]) -> list[MemoryItem]:
        """Return items as they are stored: one that names no fields gets those of the store."""
        if all(item.indexed_fields is not None for item in items):
            return list(items)
        with self._lock:
            if self._configured is not None and not self._is_recorded:
                # Before items are written with them, so that a reindex knows these later.
                opened = collection()
                if self._is_outdated(opened) and isinstance(opened, SupportsFieldIndex):
                    opened.record_fields(self._configured)
                self._is_recorded = True
            elif self._configured is None and self._clock() - self._read_at >= _FRESH_FOR:
                self._recorded, self._read_at = recorded_fields(collection()), self._clock()
            fields = (self._recorded if self._configured is None else self._configured) or None
        if fields is None:
            return list(items)
        return [replace(item, indexed_fields=fields) if item.indexed_fields is None else item for item in items]

    def claimed(self, collection: Collection) -> Collection:
        """Return a collection, with the configured fields on record if it is empty; warn where items have others."""
        if self._is_outdated(collection):
            if not collection.count():
                return self.reindexed(collection)
            _LOG.warning(
                "memory store %r: its items are searched by the fields (%s), the configuration names (%s). New items "
                "follow the configuration; `devmem reindex` brings the others up to date.",
                self._store, ", ".join(recorded_fields(collection)), ", ".join(self._configured or ()),
            )  # fmt: skip
        return collection

    def reindexed(self, collection: Collection) -> Collection:
        """Return a collection, its items searched by the configured fields unless they have fields of their own."""
        if self._configured is not None:
            if isinstance(collection, SupportsFieldIndex):
                collection.index_fields(self._configured)
            else:
                _LOG.warning(
                    "memory store %r: items of this kind of file keep the fields that they were written with; a .db "
                    "file takes others (`devmem copy`).", self._store,
                )  # fmt: skip
        return collection

    def _is_outdated(self, collection: Collection) -> bool:
        return (
            self._configured is not None
            and isinstance(collection, SupportsFieldIndex)
            and collection.indexed_fields() != self._configured
        )


def recorded_fields(collection: Collection) -> tuple[str, ...]:
    """Return the fields that a collection records; none for one that records nothing."""
    return collection.indexed_fields() if isinstance(collection, SupportsFieldIndex) else ()


def with_parent_hashes(items: Sequence[MemoryItem], read: Stored) -> list[MemoryItem]:
    """Return items with the hashes of what they were derived from, where they name it and have no hashes yet."""
    wanted = {parent for item in items if _lacks_hashes(item.provenance) for parent in item.provenance.parents}
    if not wanted:
        return list(items)
    # An item of the same batch may be derived from another one.
    known = {item.id: parent_hash(item) for item in (*read(list(wanted)), *items)}
    hashed: list[MemoryItem] = []
    for item in items:
        hashes = tuple(known.get(parent, "") for parent in item.provenance.parents)
        if any(hashes) and _lacks_hashes(item.provenance):
            item = replace(item, provenance=replace(item.provenance, parent_hashes=hashes))
        hashed.append(item)
    return hashed


def _lacks_hashes(provenance: Provenance) -> bool:
    return len(provenance.parents) != len(provenance.parent_hashes)


def store_items(store: MemoryBase, items: Sequence[MemoryItem]) -> list[str]:
    """Store items and return the ids under which they are kept.

    Raises:
        NotStoredError: the store does not take some of them.
        CollectionError: they cannot be written.
    """
    return kept_ids(items, store.add(items) if items else [])


def kept_ids(items: Sequence[MemoryItem], outcomes: Sequence[WriteOutcome]) -> list[str]:
    """Return the ids under which items are kept; raise `NotStoredError` where the store did not take some of them."""
    kept: list[str] = []
    refused: list[str] = []
    for item, outcome in zip(items, outcomes, strict=True):
        if outcome.status is WriteStatus.SKIPPED:
            refused.append(outcome.reason)
        else:
            kept.append(outcome.item_id or item.id)
    if refused:
        raise NotStoredError(refused, stored=kept)
    return kept


_CHECKS: Final = 100
"""Number of times within a retention that a store looks for items which were stored without it."""


class Expiry:
    """Stamps items with the time at which they expire. Thread-safe."""

    def __init__(self, *, ttl: float | None, retention: float | None = None) -> None:
        """Take the limits of a store.

        Args:
            ttl: seconds after which an item expires that has no expiry of its own; None for never.
            retention: greatest age of an item in seconds, whatever its expiry; None sets no limit.
        """
        self._ttl, self.retention = ttl, retention
        self._checked: float | None = None
        self._lock = threading.Lock()
        follow_forks(self)

    def stamped(
        self,
        items: Sequence[MemoryItem],
        now: float,
        stored: Stored,
        expected: Mapping[str, str | None] | None = None,
    ) -> list[MemoryItem]:
        """Return items with their expiry at `now`, in seconds since the epoch.

        What is stored with the same content already keeps its expiry, so that storing it again is no change. What
        replaces a version that the caller expects, by the items' ids, keeps the expiry that the caller says.
        """
        if self._ttl is None and self.retention is None:
            return list(items)
        known = {item_id for item_id, version in (expected or {}).items() if version is not None}
        fresh = [item.id for item in items if item.id not in known]
        there = {item.id: item for item in stored(fresh) if not item.expired(now)}
        return [
            self.limited(item) if item.id in known else self._stamped(item, there.get(item.id), now) for item in items
        ]

    def _stamped(self, item: MemoryItem, older: MemoryItem | None, now: float) -> MemoryItem:
        if older is not None and older.content_hash == item.content_hash:
            expires_at = older.expires_at if item.expires_at is None else item.expires_at
            return self.limited(replace(item, expires_at=expires_at), stored_at=older.created_at)
        if item.expires_at is None and self._ttl is not None and not is_pinned(item):
            item = replace(item, expires_at=now + self._ttl)
        return self.limited(item)

    def limited(self, item: MemoryItem, *, stored_at: float | None = None) -> MemoryItem:
        """Return an item that expires with the retention at the latest, counted from `stored_at` or its storing.

        A pinned item outlives it.
        """
        if self.retention is None or is_pinned(item):
            return item
        latest = (item.created_at if stored_at is None else stored_at) + self.retention
        return item if item.expires_at is not None and item.expires_at <= latest else replace(item, expires_at=latest)

    def has_passed(self, item: MemoryItem, now: float) -> bool:
        """Whether an item, as one of an import, was stored longer ago than the retention allows."""
        return self.retention is not None and not is_pinned(item) and item.created_at + self.retention <= now

    def oldest(self, now: float) -> float | None:
        """Return the time before which no item may have been stored, where it is time to look; None otherwise."""
        if self.retention is None:
            return None
        with self._lock:
            if self._checked is not None and 0 <= now - self._checked < self.retention / _CHECKS:
                return None
            self._checked = now
        return now - self.retention
