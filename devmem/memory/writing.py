"""Writing items through a store, with every refusal raised."""

from __future__ import annotations

from collections.abc import Sequence

from devmem.errors import NotStoredError, ScopeError
from devmem.memory.boundary import checked_name
from devmem.model.items import MemoryItem, Scope
from devmem.model.results import WriteStatus
from devmem.stores import MemoryBase


def store_items(store: MemoryBase, items: Sequence[MemoryItem]) -> list[str]:
    """Store items and return the ids under which they are kept.

    Raises:
        NotStoredError: the store does not take some of them.
        CollectionError: they cannot be written.
    """
    outcomes = store.add(items) if items else []
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


def replace_item(store: MemoryBase, item: MemoryItem) -> None:
    """Store an item in the place of the one that has its id.

    Raises:
        NotStoredError: the store keeps the item as it was.
        CollectionError: it cannot be written.
    """
    (outcome,) = store.add([item])
    if outcome.status in (WriteStatus.SKIPPED, WriteStatus.DUPLICATE):
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
