"""Copying items from one store to another, and reporting what the target did not keep."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, fields, replace
from itertools import islice
from typing import Final

from devmem.embedding import TokenEmbedder
from devmem.model.items import MemoryItem, Scope
from devmem.model.results import WriteOutcome, WriteStatus
from devmem.stores import CollectionMemory, MemoryBase
from devmem.transfer import every_item

_BATCH: Final = 64
_SAME_SECOND: Final = 1.0
"""Seconds by which a time may differ and still be the same: services keep whole ones."""
_COMPARED: Final = ("input_snapshot", "output_snapshot", "provenance", "trust")
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

    @property
    def complete(self) -> bool:
        """Whether the target has every item."""
        return not self.unseen and not self.skipped


def copy_items(source: MemoryBase, target: MemoryBase, advance: Callable[[int], None]) -> CopyReport:
    """Copy every item, oldest first; what is in the target already is not stored again, so that one can go on.

    Vectors are taken over where the target's model made them; everything else the target embeds.

    Args:
        source: where the items are.
        target: where they go.
        advance: called with the number of items processed since the last call.
    """
    report = CopyReport()
    items = every_item(source)
    embeddings = _same_model(source, target)
    while batch := list(islice(items, _BATCH)):
        _copy([replace(item, embedding=None) for item in batch], target, report, embeddings)
        advance(len(batch))
    return report


def _same_model(source: MemoryBase, target: MemoryBase) -> CollectionMemory | None:
    """Return the source when the target's embedding model made its vectors, which the target can take over then."""
    if not isinstance(source, CollectionMemory) or not isinstance(target, CollectionMemory) or not target.embedder:
        return None
    wanted, info = target.embedder.identity, source.info()
    same = info.embedding == wanted.name and wanted.dimension in (None, info.dimension)
    return source if same else None


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
    there = {item.id: item.content_summary for item in target.get(ids)}
    fresh = [item for item in batch if there.get(item.id) != item.content_summary]
    report.counts[WriteStatus.DUPLICATE.value] += len(batch) - len(fresh)
    for item, outcome in zip(fresh, _add(fresh, target, embedded) if fresh else [], strict=True):
        report.counts[outcome.status.value] += 1
        if outcome.status in (WriteStatus.SKIPPED, WriteStatus.QUEUED):
            report.skipped[item.id] = outcome.reason
    copies = {copy.id: copy for copy in target.get(ids)}
    for item in batch:
        if item.id in copies:
            report.lost.update(lost_parts(item, copies[item.id]))
        elif item.id not in report.skipped:
            report.unseen.append(item.id)


def lost_parts(item: MemoryItem, copy: MemoryItem) -> list[str]:
    """Name the parts of an item that its copy lacks or has changed; an embedding does not count, it can be made."""
    lost = [name for name in _COMPARED if _differs(item, copy, name)]
    lost += [f"scope.{f.name}" for f in fields(Scope) if _differs(item.scope, copy.scope, f.name)]
    lost += [f"metadata.{key}" for key, value in item.metadata.items() if copy.metadata.get(key) != value]
    lost += ["text"] * (item.content_summary != copy.content_summary)
    return lost + [name for name in _TIMES if _moved(getattr(item, name), getattr(copy, name))]


def _differs(one: object, other: object, name: str) -> bool:
    mine = getattr(one, name)
    return mine is not None and mine != getattr(other, name)


def _moved(before: float | None, after: float | None) -> bool:
    if before is None:
        return False
    return after is None or abs(before - after) > _SAME_SECOND
