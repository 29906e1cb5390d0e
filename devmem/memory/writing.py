"""Writing items through a store, with every refusal raised."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Final

from devmem.errors import NotStoredError, ScopeError, VersionConflictError
from devmem.memory.boundary import checked_name
from devmem.model.items import MemoryItem, Scope
from devmem.model.results import WriteStatus
from devmem.model.version_hash import version_hash
from devmem.stores import CollectionMemory, MemoryBase

_ATTEMPTS: Final = 50
"""Number of times that a change is made again because somebody else was faster."""


def update_item(
    store: MemoryBase,
    read: Callable[[], MemoryItem],
    changed: Callable[[MemoryItem], MemoryItem],
    expected: str | None,
) -> MemoryItem:
    """Change an item and return it; where somebody else changes it meanwhile, the change is made to what is there then.

    Args:
        store: keeps the item.
        read: returns the item as it is now.
        changed: returns the item with the change.
        expected: `version_hash` of the only version that may be changed; None for any.

    Raises:
        VersionConflictError: another version than the expected one is stored.
        NotStoredError: the store keeps the item as it was.
        CollectionError: it cannot be written.
    """
    left = _ATTEMPTS
    while True:
        item = read()
        found = version_hash(item)
        if expected not in (None, found):
            raise VersionConflictError(item.id, expected=expected, found=found)
        # The vector that an item is read with is that of its first passage; the store takes over all that still fit.
        new = _as_stored(store, replace(changed(item), embedding=None))
        left -= 1
        try:
            _replace_item(store, new, found)
        except VersionConflictError:
            if expected is not None or not left:
                raise
        else:
            return new


def _as_stored(store: MemoryBase, item: MemoryItem) -> MemoryItem:
    """Return an item with the fields that a store would add to it, so that its version is the one that is stored."""
    return store.with_fields([item])[0] if isinstance(store, CollectionMemory) else item


def _replace_item(store: MemoryBase, item: MemoryItem, expected: str) -> None:
    # Other stores cannot compare what they replace.
    if isinstance(store, CollectionMemory):
        (outcome,) = store.add([item], expected={item.id: expected})
    else:
        (outcome,) = store.add([item])
    as_it_was = outcome.status is WriteStatus.DUPLICATE and outcome.item_id == item.id
    if not outcome and not as_it_was:
        reason = outcome.reason or f"a store of type {store.setup.store_type!r} does not change this of an item"
        raise NotStoredError([reason])


def check_id(store: MemoryBase, item_id: str, scope: Scope) -> None:
    """Make sure that an id of the caller's replaces nothing but what is in the same scope.

    Raises:
        ScopeError: the item of this id is in another scope.
        ValueError: it is empty, or cannot be kept.
    """
    checked_name("id", item_id)
    if any(item.scope != scope for item in store.get([item_id])):
        raise ScopeError(f"the id {item_id!r} is taken in another scope")
