"""Changes of stored items: updates, consolidation, restoring archived ones, and decisions about those in quarantine.

Others may change an item meanwhile; an update is then repeated, unless it names the version that it may change.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import partial
from itertools import islice
from typing import Any, Final, TypedDict

from pydantic import JsonValue

from devmem.errors import ItemNotFoundError, NotStoredError, VersionConflictError
from devmem.memory.contents import (
    ConsolidateOptions,
    Numbers,
    check_trust,
    checked_metadata,
    expiry_of,
    field_paths,
    with_text,
    with_vector,
)
from devmem.memory.repeats import check_vectors, repeated
from devmem.memory.scope import ScopeGuard, ScopeParts, checked_name, split_scope
from devmem.model.caller import acting_as
from devmem.model.filters import Filter
from devmem.model.items import APPROVED, QUARANTINE, TRUST, MemoryItem, is_quarantined, version_hash
from devmem.model.results import NOT_ARCHIVED, WriteOutcome, WriteStatus
from devmem.model.times import When
from devmem.models.embedder import PassageEmbeddings
from devmem.storage.writing import Unique
from devmem.stores.abilities import every_item
from devmem.stores.archiving import MAX_TRUST, ArchiveRule, archive_of, archived_items
from devmem.stores.collection_memory import CollectionMemory
from devmem.stores.consolidation import Consolidation, consolidate
from devmem.stores.guarding import admitting
from devmem.stores.items import kept_ids
from devmem.stores.memory import MemoryBase, Progress, observed
from devmem.text.moments import parse_moment


class ChangeOptions(TypedDict, total=False):
    """Options of `Memory.update`; what is not given stays."""

    metadata: Mapping[str, JsonValue] | None
    """Values to set; None takes a key out."""
    time: When | None
    """When it happened; None is not known."""
    expires_at: When | timedelta | None
    """From when on it is forgotten, or how long from now; None is never."""
    fields: Sequence[str] | None
    """Paths of the metadata that are searched too; None takes those of the store."""
    embedding: Numbers | None
    """The text's vector, as for `add`; None leaves it to the model."""
    trust: float | None
    """From 0 to 1; with 0 no search returns the item."""


class MatchingOptions(ScopeParts, ChangeOptions, total=False):
    """Options of `Memory.update` with a filter: the changes, and whose items are changed."""


_BATCH_SIZE: Final = 200
"""Number of items that are changed in one transaction."""


def changed_item(item: MemoryItem, text: str | None, changes: ChangeOptions, now: float) -> MemoryItem:
    """Return the item with the changes; `now` is in seconds since the epoch.

    Raises:
        ValueError: the text is blank, or another value is not what it should be.
    """
    new: dict[str, Any] = {"embedding": None}
    if text is not None:
        # Whoever words it now knows what its sources say now.
        item = replace(with_text(item, text), provenance=replace(item.provenance, parent_hashes=()))
    if (values := changes.get("metadata")) is not None:
        merged = {**item.metadata, **checked_metadata(values)}
        new["metadata"] = {key: value for key, value in merged.items() if value is not None}
    if "time" in changes:
        new["event_time"] = None if changes["time"] is None else parse_moment(changes["time"])
    if "expires_at" in changes:
        new["expires_at"] = None if changes["expires_at"] is None else expiry_of(changes["expires_at"], now)
    if (trust := changes.get("trust")) is not None:
        check_trust(trust)
        new["trust"] = trust
    if "fields" in changes:
        new["indexed_fields"] = field_paths(changes["fields"])
    item = replace(item, **new)
    return with_vector(item, changes["embedding"]) if "embedding" in changes else item


def update_matching(store: MemoryBase, where: Filter, text: str | None, changes: ChangeOptions) -> int:
    """Change every item that matches, some at a time; return the number of items that are others now.

    What somebody else changes meanwhile is read again, and changed if it still matches.
    """
    # What is changed counts as stored last, so a list that is read meanwhile would not end.
    ids = iter([item.id for item in every_item(store, where)])

    def change(part: Sequence[str], _attempt: int) -> int:
        now = store.setup.clock()
        items = [item for item in store.get(part) if where.admits(item, now)]
        return len(_replaced(store, items, text, changes))

    changed = 0
    while part := list(islice(ids, _BATCH_SIZE)):
        changed += repeated(partial(change, part))
    return changed


def update_item(
    store: MemoryBase,
    read: Callable[[], MemoryItem | None],
    item_id: str,
    text: str | None,
    changes: ChangeOptions,
    if_version: str | None,
) -> MemoryItem:
    """Change an item and return it; the change is repeated where somebody else changes the item meanwhile.

    Args:
        store: keeps the item.
        read: returns the current item; None where none is visible.
        item_id: its id.
        text: its new text; None keeps the old one.
        changes: what else is changed.
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

    def change(_attempt: int) -> MemoryItem:
        if (item := read()) is None:
            raise ItemNotFoundError(item_id)
        if if_version not in (None, item.version):
            raise VersionConflictError(item.id, expected=if_version, found=item.version)
        return next(iter(_replaced(store, [item], text, changes)), item)

    return repeated(change, lambda _conflict: if_version is None)


def _replaced(
    store: MemoryBase, items: Sequence[MemoryItem], text: str | None, changes: ChangeOptions
) -> list[MemoryItem]:
    """Store items with changes in the place of those that were read; return those that are others now.

    Raises:
        VersionConflictError: somebody else changed one of them meanwhile.
    """
    now = store.setup.clock()
    found = {item.id: item.version for item in items}
    changed = [changed_item(item, text, changes, now) for item in items]
    if isinstance(store, CollectionMemory):
        # With the fields that the store would add, so that their versions are those that are stored.
        changed = store.with_fields(changed)
    changed = [item for item in changed if item.version != found[item.id]]
    if not changed:
        return []
    if isinstance(store, CollectionMemory):
        check_vectors(store, changed)
        given = {item.id: PassageEmbeddings.of(item.embedding) for item in changed if item.embedding is not None}
        # Whoever says how far a text is trusted, and leaves it unchanged, has decided about it.
        decided = changed if changes.get("trust") is not None and text is None else ()
        with admitting(*(item.id for item in decided)):
            outcomes = store.add(changed, expected={item.id: found[item.id] for item in changed}, embeddings=given)
    else:
        # Other stores cannot compare what they replace.
        outcomes = store.add(changed)
    for item, outcome in zip(changed, outcomes, strict=True):
        as_it_was = outcome.status is WriteStatus.DUPLICATE and outcome.item_id == item.id
        if not outcome and not as_it_was:
            reason = outcome.reason or f"a store of type {store.setup.store_type!r} does not change this of an item"
            raise NotStoredError([reason])
    return changed


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
        outcomes = dict(zip(wanted, archive_of(store).restore(wanted), strict=True))
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
    if (item := found) is None:
        raise ItemNotFoundError(item_id)
    if not is_quarantined(item):
        raise ValueError(f"{item_id!r} is not in quarantine")
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
        if isinstance(store, CollectionMemory):
            # A store of files refuses to have items added, but not a decision about its own.
            expected = {approved.id: None if there is None else version_hash(there)}
            outcomes = store.store_items([approved], unique=Unique.ID, expected=expected)
        else:
            outcomes = store.add([approved])
    (kept,) = kept_ids([approved], outcomes)
    if kept != item.id:
        store.delete(ids=[item.id])
    return next(iter(store.get([kept])), approved)
