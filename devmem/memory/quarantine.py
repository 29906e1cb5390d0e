"""Decisions about items in quarantine: approving one, with its place and its trust, or rejecting it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime

from pydantic import JsonValue

from devmem.errors import ItemNotFoundError
from devmem.model.filters import same_owner
from devmem.model.items import QUARANTINE, TRUST, MemoryItem, is_quarantined, version_hash
from devmem.model.results import WriteOutcome
from devmem.storage.writing import Unique
from devmem.stores.collection_memory import CollectionMemory
from devmem.stores.guarding import admitting
from devmem.stores.items import kept_ids
from devmem.stores.memory import MemoryBase


def approve(store: MemoryBase, found: MemoryItem | None, item_id: str, reason: str) -> MemoryItem:
    """Take an item out of quarantine and return it, under the id that it was to have, with its trust and expiry.

    What stands under this id meanwhile in the same scope becomes its earlier version; where it is of another scope, the
    item keeps the id that it has.

    Raises:
        ItemNotFoundError: there is no such item, `found` is None.
        ValueError: it is not in quarantine.
        VersionConflictError: what stands under the id changed meanwhile.
        NotStoredError, CollectionError: it cannot be stored.
    """
    item = _checked(found, item_id)
    mark = item.metadata.get(QUARANTINE)
    known = mark if isinstance(mark, Mapping) else {}
    trust, until, named = known.get("trust"), known.get("expires_at"), known.get("id")
    # Anybody can store a mark that names an id.
    wanted = named if isinstance(named, str) else item.id
    there = next(iter(store.get([wanted])), None)
    if there is not None and not same_owner(there.scope, item.scope):
        wanted, there = item.id, item
    at = datetime.fromtimestamp(store.setup.clock(), UTC).isoformat(timespec="seconds")
    approval: dict[str, JsonValue] = {"at": at, "reason": reason, "caught": str(known.get("reason", ""))}
    approved = replace(
        item,
        id=wanted,
        metadata={key: value for key, value in item.metadata.items() if key != QUARANTINE} | {"approved": approval},
        trust=float(trust) if isinstance(trust, int | float) and trust > 0 else TRUST[item.provenance.kind],
        expires_at=float(until) if isinstance(until, int | float) else item.expires_at if not known else None,
        embedding=None,
    )
    with admitting(approved.id):
        (kept,) = kept_ids([approved], _stored(store, approved, there))
    if kept != item.id:
        store.delete(ids=[item.id])
    return next(iter(store.get([kept])), approved)


def reject(store: MemoryBase, found: MemoryItem | None, item_id: str, reason: str) -> None:
    """Delete an item in quarantine; the reason stands in the last version that the history keeps of it."""
    item = _checked(found, item_id)
    mark = item.metadata.get(QUARANTINE)
    noted = {**(mark if isinstance(mark, Mapping) else {}), "rejected": reason}
    with admitting(item.id):
        _stored(store, replace(item, metadata={**item.metadata, QUARANTINE: noted}), item)
    store.delete(ids=[item.id])


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
