"""Changes of stored items: updates, consolidation, restoring archived ones, and decisions about those in quarantine.

Others may change an item meanwhile; an update is then repeated, unless it names the version that it may change.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from itertools import islice
from types import EllipsisType
from typing import Any, Final

from pydantic import JsonValue

from devmem.errors import ItemNotFoundError, NotStoredError, VersionConflictError
from devmem.memory.contents import (
    ConsolidateOptions,
    check_trust,
    expiry_of,
    field_paths,
    with_metadata,
    with_text,
    with_vector,
)
from devmem.memory.repeats import ATTEMPTS, check_vectors, let_others_go_first
from devmem.memory.scope import ScopeGuard, checked_name, split_scope
from devmem.model.caller import acting_as
from devmem.model.filters import Filter
from devmem.model.items import APPROVED, QUARANTINE, TRUST, MemoryItem, is_quarantined, version_hash
from devmem.model.results import NOT_ARCHIVED, WriteOutcome, WriteStatus
from devmem.model.times import When
from devmem.models.embedder import PassageEmbeddings
from devmem.storage.writing import Unique
from devmem.stores.abilities import every_item
from devmem.stores.archiving import MAX_TRUST, ArchiveRule, archive_of, archived_items, restore
from devmem.stores.collection_memory import CollectionMemory
from devmem.stores.consolidation import Consolidation, consolidate
from devmem.stores.guarding import admitting
from devmem.stores.items import kept_ids
from devmem.stores.memory import MemoryBase, Progress, observed
from devmem.text.moments import parse_moment


@dataclass(frozen=True, slots=True, kw_only=True)
class Changes:
    """Changes of an item; what is not given stays."""

    text: str | None = None
    metadata: Mapping[str, JsonValue] | None = None
    time: When | EllipsisType | None = ...
    expires_at: When | timedelta | EllipsisType | None = ...
    fields: Sequence[str] | EllipsisType | None = ...
    embedding: object = ...
    trust: float | None = None

    def of(self, item: MemoryItem, now: float) -> MemoryItem:
        """Return the item with the changes; `now` is in seconds since the epoch.

        Raises:
            ValueError: the text is blank, or another value is not what it should be.
        """
        new = item if item.embedding is None else replace(item, embedding=None)
        if self.text is not None:
            # Whoever words it now knows what its sources say now.
            new = replace(with_text(new, self.text), provenance=replace(new.provenance, parent_hashes=()))
        new = new if self.metadata is None else with_metadata(new, self.metadata)
        changed: dict[str, Any] = {}
        if self.time is not ...:
            changed["event_time"] = None if self.time is None else parse_moment(self.time)
        if self.expires_at is not ...:
            changed["expires_at"] = None if self.expires_at is None else expiry_of(self.expires_at, now)
        if self.trust is not None:
            check_trust(self.trust)
            changed["trust"] = self.trust
        if self.fields is not ...:
            changed["indexed_fields"] = field_paths(self.fields)
        new = replace(new, **changed) if changed else new
        return new if self.embedding is ... else with_vector(new, self.embedding)


_BATCH_SIZE: Final = 200
"""Number of items that are changed in one transaction."""


def update_matching(store: MemoryBase, where: Filter, changes: Changes) -> int:
    """Change every item that matches, some at a time; return the number of items that are others now.

    What somebody else changes meanwhile is read again, and changed if it still matches.
    """
    # What is changed counts as stored last, so a list that is read meanwhile would not end.
    ids = iter([item.id for item in every_item(store, where)])
    changed = 0
    while part := list(islice(ids, _BATCH_SIZE)):
        left = ATTEMPTS
        while (written := _update_part(store, part, where, changes)) is None:
            left -= 1
            if not left:
                raise VersionConflictError(part[0], expected=None, found=None)
            let_others_go_first(ATTEMPTS - left)
        changed += written
    return changed


def _update_part(store: MemoryBase, ids: Sequence[str], where: Filter, changes: Changes) -> int | None:
    """Change the items of some ids that still match; return their number, None where one was changed meanwhile."""
    now = store.setup.clock()
    pairs = [(item, changes.of(item, now)) for item in store.get(ids) if where.admits(item, now)]
    found = {item.id: version_hash(item) for item, _ in pairs}
    items = [_as_stored(store, new) for item, new in pairs if version_hash(new) != found[item.id]]
    if not items:
        return 0
    try:
        _replace_items(store, items, found, changes)
    except VersionConflictError:
        return None
    return len(items)


def update_item(
    store: MemoryBase, read: Callable[[], MemoryItem | None], item_id: str, changes: Changes, if_version: str | None
) -> MemoryItem:
    """Change an item and return it; the change is repeated where somebody else changes the item meanwhile.

    Args:
        store: keeps the item.
        read: returns the current item; None where none is visible.
        item_id: its id.
        changes: what is changed.
        if_version: `version_hash` of the only version that may be changed; None for any.

    Raises:
        ValueError: `if_version` is blank.
        ItemNotFoundError: there is no such item.
        VersionConflictError: another version than `if_version` is stored.
        NotStoredError: the store keeps the item as it was.
        CollectionError: it cannot be written.
    """
    if if_version is not None:
        checked_name("if_version", if_version)
    left = ATTEMPTS
    while True:
        if (item := read()) is None:
            raise ItemNotFoundError(item_id)
        found = version_hash(item)
        if if_version not in (None, found):
            raise VersionConflictError(item.id, expected=if_version, found=found)
        new = _as_stored(store, changes.of(item, store.setup.clock()))
        left -= 1
        try:
            _replace_items(store, [new], {item.id: found}, changes)
        except VersionConflictError:
            if if_version is not None or not left:
                raise
            let_others_go_first(ATTEMPTS - left)
        else:
            return new


def _as_stored(store: MemoryBase, item: MemoryItem) -> MemoryItem:
    """Return an item with the fields that a store would add to it, so that its version is the one that is stored."""
    return store.with_fields([item])[0] if isinstance(store, CollectionMemory) else item


def _replace_items(store: MemoryBase, items: Sequence[MemoryItem], found: Mapping[str, str], changes: Changes) -> None:
    """Store items in the place of versions that are known by their hashes; the vectors that still fit are kept."""
    if isinstance(store, CollectionMemory):
        check_vectors(store, items)
        given = {item.id: PassageEmbeddings.of(item.embedding) for item in items if item.embedding is not None}
        # Whoever says how far a text is trusted, and leaves it unchanged, has decided about it.
        decided = items if changes.trust is not None and changes.text is None else ()
        with admitting(*(item.id for item in decided)):
            outcomes = store.add(items, expected={item.id: found[item.id] for item in items}, embeddings=given)
    else:
        # Other stores cannot compare what they replace.
        outcomes = store.add(items)
    for item, outcome in zip(items, outcomes, strict=True):
        as_it_was = outcome.status is WriteStatus.DUPLICATE and outcome.item_id == item.id
        if not outcome and not as_it_was:
            reason = outcome.reason or f"a store of type {store.setup.store_type!r} does not change this of an item"
            raise NotStoredError([reason])


def consolidated(
    store: MemoryBase, guard: ScopeGuard, options: ConsolidateOptions, *, dry_run: bool, progress: Progress | None
) -> Consolidation:
    """Consolidate what is within reach; see `Memory.consolidate`."""
    scope, said = split_scope(options, ConsolidateOptions)
    digested, archived_before = said.get("digest_before"), said.get("archive_before")
    check_trust(most := said.get("max_trust", MAX_TRUST))
    rule = None if archived_before is None else ArchiveRule(before=parse_moment(archived_before), max_trust=most)
    with observed(store, "update_memory") as operation, acting_as(guard.parts.agent):
        done = consolidate(
            store,
            guard.matching(**scope),
            ignore=said.get("ignore", ()),
            digest_before=None if digested is None else parse_moment(digested),
            archive=rule,
            dry_run=dry_run,
            progress=progress,
        )
        operation.records(0 if dry_run else done.removed + len(done.archived), tuple)
        return done


def restored(store: MemoryBase, guard: ScopeGuard, ids: Sequence[str]) -> list[WriteOutcome]:
    """Bring archived items within reach back; see `Memory.restore`."""
    reach, now = guard.filter(), store.setup.clock()
    archive_of(store)
    within = {item.id for item in archived_items(store, ids) if reach.admits(item, now)}
    # An id out of reach is as one that does not exist.
    wanted = list(dict.fromkeys(one for one in ids if one in within))
    with acting_as(guard.parts.agent):
        outcomes = dict(zip(wanted, restore(store, wanted), strict=True))
    return [outcomes.get(one, NOT_ARCHIVED) for one in ids]


def approved_item(store: MemoryBase, found: MemoryItem | None, item_id: str, reason: str) -> MemoryItem:
    """Take an item out of quarantine and return it, under the id that it was to have, with its trust and expiry.

    It never takes the place of another item: where one stands under this id meanwhile, it keeps the id that it has.

    Raises:
        ItemNotFoundError: there is no such item, `found` is None.
        ValueError: it is not in quarantine.
        VersionConflictError: the id was taken meanwhile.
        NotStoredError, CollectionError: it cannot be stored.
    """
    item = _checked(found, item_id)
    mark = item.metadata.get(QUARANTINE)
    known = mark if isinstance(mark, Mapping) else {}
    trust, until, named = known.get("trust"), known.get("expires_at"), known.get("id")
    # Anybody can store a mark that names an id.
    is_free = isinstance(named, str) and named != item.id and not store.get([named])
    wanted, there = (str(named), None) if is_free else (item.id, item)
    at = datetime.fromtimestamp(store.setup.clock(), UTC).isoformat(timespec="seconds")
    approval: dict[str, JsonValue] = {"at": at, "reason": reason, "caught": str(known.get("reason", ""))}
    approved = replace(
        item,
        id=wanted,
        metadata={key: value for key, value in item.metadata.items() if key != QUARANTINE} | {APPROVED: approval},
        trust=float(trust) if isinstance(trust, int | float) and trust > 0 else TRUST[item.provenance.kind],
        expires_at=float(until) if isinstance(until, int | float) else item.expires_at if not known else None,
        embedding=None,
    )
    with admitting(approved.id):
        (kept,) = kept_ids([approved], _stored(store, approved, there))
    if kept != item.id:
        store.delete(ids=[item.id])
    return next(iter(store.get([kept])), approved)


def _stored(store: MemoryBase, item: MemoryItem, there: MemoryItem | None) -> list[WriteOutcome]:
    """Store an item in the place of what stands under its id, if that is still the same."""
    if not isinstance(store, CollectionMemory):
        return store.add([item])
    # A store of files refuses to have items added, but not a decision about its own.
    expected = {item.id: None if there is None else version_hash(there)}
    return store.store_items([item], unique=Unique.ID, expected=expected)


def _checked(item: MemoryItem | None, item_id: str) -> MemoryItem:
    """Return an item that is in quarantine.

    Raises:
        ItemNotFoundError: there is no such item.
        ValueError: it is not in quarantine.
    """
    if item is None:
        raise ItemNotFoundError(item_id)
    if not is_quarantined(item):
        raise ValueError(f"{item_id!r} is not in quarantine")
    return item
