"""Copying items from one store to another, and reporting what the target did not keep."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import Final

from devmem.model.filters import NAMED_FIELDS
from devmem.model.items import MemoryItem, version_hash
from devmem.model.results import WriteOutcome, WriteStatus
from devmem.models.embedder import TokenEmbedder
from devmem.storage.version_copy import copy_versions
from devmem.stores.abilities import every_item, keeps_versions
from devmem.stores.archiving import archive_of, archived, archived_items, every_archived
from devmem.stores.collection_memory import CollectionMemory
from devmem.stores.memory import MemoryBase
from devmem.transfer.filling import fields_of, take_fields

_BATCH_SIZE: Final = 64
_SAME_SECOND: Final = 1.0
"""Seconds by which a time may differ and still be the same: services keep whole ones."""
_COMPARED: Final = ("input_snapshot", "output_snapshot", "provenance", "trust", "indexed_fields")
_TIMES: Final = ("created_at", "event_time", "expires_at")


@dataclass(slots=True)
class CopyReport:
    """Result of a copy."""

    counts: Counter[str] = field(default_factory=Counter)
    """Number of items by the status of their write."""
    lost: Counter[str] = field(default_factory=Counter)
    """Number of items by the part that the target changed or dropped: `input_snapshot`, `metadata.tags`, ..."""
    unseen: list[str] = field(default_factory=list)
    """Ids of items that the target accepted and does not return (yet)."""
    skipped: dict[str, str] = field(default_factory=dict)
    """Ids of items that the target did not accept, and why."""
    kept_out: set[str] = field(default_factory=set)
    """Ids of items that were erased in the target, whose tombstones keep them out; these are not missing."""
    vectors_left: str = ""
    """Why the source's vectors were not taken over; empty where they were, or where there are none."""
    versions: int = 0
    """Number of versions that ended and that the target took over."""
    states: int = 0
    """Number of states beside the items, such as conversations with their summaries, that the target took over."""
    archived: int = 0
    """Number of archived items that are archived in the target now."""
    archived_left: int = 0
    """Number of archived items that the target does not have: it has no archive, or has other items of their ids."""
    still_archived: int = 0
    """Number of current items that are archived in the target with the same content, and stay so."""
    unarchived: int = 0
    """Number of items that were archived in the target with another content, and are current there now."""
    source_hash: int = 0
    """Hash of the source's items without those, ids and contents, in any order; see `_hash_of`."""
    target_hash: int = 0
    """Hash of their copies, as the target returns them."""

    @property
    def complete(self) -> bool:
        """Whether the target has every item."""
        return not self.unseen and not self.skipped and not self.archived_left

    @property
    def identical(self) -> bool:
        """Whether the copies are what the source has, by number and by hash."""
        return self.complete and not self.still_archived and self.source_hash == self.target_hash


def copy_items(source: MemoryBase, target: MemoryBase, advance: Callable[[int], None]) -> CopyReport:
    """Copy every item, oldest first, but those that the target already has, so that a copy can be continued.

    Archived items are archived in the target, too, where they are current items until then. Items that are archived in
    the target stay so, unless the source has another content of them.

    Vectors are taken over where the target's model made them; everything else the target embeds. Versions that ended
    follow the items, with their times, where both stores keep versions, and then what the stores keep beside them.

    Args:
        source: where the items are.
        target: where they go.
        advance: called with the number of items processed since the last call.
    """
    report = CopyReport()
    take_fields(target, fields_of(source))
    items = every_item(source)
    embeddings, report.vectors_left = _embeddings_of(source, target)
    while batch := list(islice(items, _BATCH_SIZE)):
        _copy([replace(item, embedding=None) for item in batch], target, report, embeddings)
        advance(len(batch))
    _copy_archive(source, target, report, embeddings)
    if isinstance(source, CollectionMemory) and isinstance(target, CollectionMemory):
        report.versions = copy_versions(source.collection, target.collection, embedded=embeddings is not None)
    report.states = target.take_states(source)
    return report


def _copy_archive(
    source: MemoryBase, target: MemoryBase, report: CopyReport, embedded: CollectionMemory | None
) -> None:
    """Copy the archived items that the target does not have, and archive them there."""
    items = every_archived(source)
    if not keeps_versions(target):
        report.archived_left = sum(1 for _ in items)
        return
    while batch := list(islice(items, _BATCH_SIZE)):
        ids = [item.id for item in batch]
        with closing(archived(target)) as old:
            there = {item.id for item in old.get(ids)}
        # An interrupted copy may have left one that is not archived yet.
        current = {item.id: item for item in target.get(ids) if item.id not in there}
        fresh = [replace(item, embedding=None) for item in batch if item.id not in there and item.id not in current]
        outcomes = zip(fresh, _add(fresh, target, embedded) if fresh else [], strict=True)
        stored = {item.id: outcome for item, outcome in outcomes}
        report.kept_out |= {name for name, outcome in stored.items() if outcome.erased_before}
        moved = [item.id for item in batch if stored.get(item.id) or _is_same(item, current.get(item.id), target)]
        archive_of(target).archive(moved)
        report.archived += len(moved)
        report.archived_left += sum(
            item.id not in there and item.id not in moved and item.id not in report.kept_out for item in batch
        )


def _embeddings_of(source: MemoryBase, target: MemoryBase) -> tuple[CollectionMemory | None, str]:
    """Return the source where the target can take over its vectors, and otherwise the reason, if it has any."""
    if not isinstance(source, CollectionMemory) or not isinstance(target, CollectionMemory):
        return None, ""
    info = source.info()
    if info.embedding is None:
        return None, ""
    if target.embedder is None:
        return None, f"the vectors of {info.embedding} stay behind, as {target.name} has no embedding model"
    wanted = target.embedder.identity
    if info.embedding == wanted.name and wanted.dimension in (None, info.dimension):
        return source, ""
    return None, f"the vectors of {info.embedding} stay behind, as {target.name} embeds with {wanted.name}"


def _add(items: Sequence[MemoryItem], target: MemoryBase, embedded: CollectionMemory | None) -> Sequence[WriteOutcome]:
    """Add items to the target, with the embeddings that `embedded` has of them."""
    if embedded is None or not isinstance(target, CollectionMemory):
        return target.add(items)
    known = embedded.collection.embeddings([item.id for item in items])
    if isinstance(target.embedder, TokenEmbedder):
        # The source may have been embedded without late interaction.
        known = {item_id: one for item_id, one in known.items() if one.tokens is not None}
    return target.add(items, embeddings=known)


def _copy(
    batch: Sequence[MemoryItem], target: MemoryBase, report: CopyReport, embedded: CollectionMemory | None
) -> None:
    ids = [item.id for item in batch]
    there = {item.id: item for item in target.get(ids)}
    old = {item.id: item for item in archived_items(target, [each for each in ids if each not in there])}
    like = {item.id for item in batch if _is_same(item, there.get(item.id) or old.get(item.id), target)}
    fresh = [item for item in batch if item.id not in like]
    report.counts[WriteStatus.DUPLICATE.value] += len(like - old.keys())
    report.still_archived += len(like & old.keys())
    for item, outcome in zip(fresh, _add(fresh, target, embedded) if fresh else [], strict=True):
        report.counts[outcome.status.value] += 1
        report.unarchived += bool(outcome) and item.id in old
        if outcome.erased_before:
            report.kept_out.add(item.id)
        elif outcome.status in (WriteStatus.SKIPPED, WriteStatus.QUEUED):
            report.skipped[item.id] = outcome.reason
    copies = {copy.id: copy for copy in target.get(ids)}
    for item in batch:
        if item.id in report.kept_out or item.id in like & old.keys():
            continue
        report.source_hash ^= _hash_of(_with_fields_of(copies.get(item.id), item))
        if item.id in copies:
            report.target_hash ^= _hash_of(copies[item.id])
            report.lost.update(lost_parts(item, copies[item.id]))
        elif item.id not in report.skipped:
            report.unseen.append(item.id)


def _is_same(item: MemoryItem, copy: MemoryItem | None, target: MemoryBase) -> bool:
    """Whether an item need not be copied again; a service may never return one as it was given."""
    if copy is None:
        return False
    if isinstance(target, CollectionMemory):
        return version_hash(_with_fields_of(copy, item)) == version_hash(copy)
    return item.content_summary == copy.content_summary


def _with_fields_of(copy: MemoryItem | None, item: MemoryItem) -> MemoryItem:
    """Return an item as the target stores it, whose fields are settled there where the item names none."""
    if copy is None or item.indexed_fields is not None:
        return item
    return replace(item, indexed_fields=copy.indexed_fields)


def _hash_of(item: MemoryItem) -> int:
    """Return a hash of an item's id and version; those of all items are combined by exclusive or."""
    return int.from_bytes(hashlib.sha256(f"{item.id}\0{version_hash(item)}".encode()).digest())


def lost_parts(item: MemoryItem, copy: MemoryItem) -> list[str]:
    """Name the parts of an item that its copy lacks or has changed; an embedding does not count, it can be made."""
    lost = [name for name in _COMPARED if getattr(item, name) not in (None, getattr(copy, name))]
    lost += [f"scope.{each.name}" for each in NAMED_FIELDS if each.of(item) not in (None, each.of(copy))]
    lost += [f"metadata.{key}" for key, value in item.metadata.items() if copy.metadata.get(key) != value]
    lost += ["text"] * (item.content_summary != copy.content_summary)
    return lost + [name for name in _TIMES if _moved(getattr(item, name), getattr(copy, name))]


def _moved(before: float | None, after: float | None) -> bool:
    if before is None:
        return False
    return after is None or abs(before - after) > _SAME_SECOND
