"""Versions of an item, and runs whose changes are kept or dropped together: plain data."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from enum import StrEnum
from typing import Final

from pydantic import JsonValue

from devmem.model.items import MemoryItem, version_hash
from devmem.model.times import datetime_of


class Operation(StrEnum):
    """Change of an item that begins or ends a version."""

    ADD = "add"
    UPDATE = "update"
    """Another version of the same id took its place."""
    FORGET = "forget"
    """It was deleted."""
    ARCHIVE = "archive"
    """It was moved into the archive, where only who asks for archived items finds it."""
    RESTORE = "restore"
    """An older version became the current one again: the run that replaced it was reverted, or it was archived."""


GONE: Final = (Operation.FORGET, Operation.ARCHIVE)
"""Changes after which there is no current version."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """Who changed an item, how and when."""

    operation: Operation
    at: float | None
    """When it was committed: seconds since the epoch; None while its run is pending."""
    run: str | None = None
    actor: str | None = None
    """The node, tool or user that is known to have made the change."""


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class ItemVersion:
    """One version of an item: what it was from one change until the next, exclusive."""

    item: MemoryItem
    began: Change
    ended: Change | None = None
    """The change that ended it; None for the current version."""
    replaced: str | None = None
    """`version_hash` of the item whose place it took; None where it took none, or where that is not known."""

    @property
    def operation(self) -> Operation:
        """The change that made it so."""
        return self.began.operation

    @property
    def run(self) -> str | None:
        """The run in which it was made so; None outside of runs."""
        return self.began.run

    @property
    def actor(self) -> str | None:
        """The node, tool or user that is known to have made it so."""
        return self.began.actor

    @property
    def since(self) -> datetime:
        """When it was made so; UTC."""
        return datetime_of(self.began.at or 0.0)

    @property
    def until(self) -> datetime | None:
        """When another version took its place, or it was forgotten, exclusive; None for the current version."""
        return None if self.ended is None else datetime_of(self.ended.at or 0.0)

    def __repr__(self) -> str:
        until = "now" if self.until is None else f"{self.until:%Y-%m-%d %H:%M:%S}"
        return f"<ItemVersion {self.operation} {self.since:%Y-%m-%d %H:%M:%S} to {until}: {self.item!r}>"


def with_replaced(history: Sequence[ItemVersion]) -> list[ItemVersion]:
    """Return the versions of an item, oldest first, each with the version whose place it took.

    The first one took none, nor did one that was added after the item was forgotten or archived.
    """
    return [
        version
        if before is None or before.ended is None or before.ended.operation in GONE
        else replace(version, replaced=version_hash(before.item))
        for before, version in zip([None, *history], history, strict=False)
    ]


class RunState(StrEnum):
    """State of a run."""

    PENDING = "pending"
    """Its changes are seen by the run alone; so they stay when its process dies."""
    COMMITTED = "committed"
    DISCARDED = "discarded"
    REVERTED = "reverted"
    """It was committed, and its changes were taken back by changes that follow them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunInfo:
    """A run that changed a collection, or is about to."""

    run: str
    state: RunState
    actor: str | None = None
    started_at: float
    """Seconds since the epoch."""
    ended_at: float | None = None
    """When it was committed, discarded or reverted: seconds since the epoch; None while it is pending."""
    changes: int = 0
    """Number of items that it changed, or would change on commit."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ItemDifference:
    """An item that differs between two states of a collection."""

    before: MemoryItem | None
    """None when it was not there."""
    after: MemoryItem | None
    """None when it is not there any more."""

    @property
    def item_id(self) -> str:
        """Id of the item."""
        item = self.after or self.before
        return "" if item is None else item.id

    @property
    def operation(self) -> Operation:
        """The change that leads from one state to the other."""
        if self.before is None:
            return Operation.ADD
        return Operation.FORGET if self.after is None else Operation.UPDATE


def derived(item: MemoryItem, parents: Sequence[MemoryItem]) -> MemoryItem:
    """Return an item as one that was made of others.

    Its trust is at most the least of theirs, its provenance names them beside those that it names already, and it
    expires with the first of them.
    """
    times = [each.expires_at for each in (item, *parents) if each.expires_at is not None]
    names = dict.fromkeys([*item.provenance.parents, *(parent.id for parent in parents)])
    return replace(
        item,
        trust=min([item.trust, *(parent.trust for parent in parents)]),
        expires_at=min(times, default=None),
        provenance=replace(item.provenance, parents=tuple(names), parent_hashes=()),
    )


MERGED: Final = "devmem.merged"
"""Metadata key of the near-duplicates that an item stands for, one mapping for each."""


def merged_notes(item: MemoryItem) -> list[dict[str, JsonValue]]:
    """Return what an item tells of the near-duplicates that it stands for."""
    found = item.metadata.get(MERGED)
    notes = found if isinstance(found, list) else []
    return [dict(each) for each in notes if isinstance(each, Mapping) and "id" in each]


def merged_ids(item: MemoryItem) -> list[str]:
    """Return the ids of the near-duplicates that an item stands for."""
    return [str(each["id"]) for each in merged_notes(item)]
