"""Writing items through a store, with every refusal raised."""

from __future__ import annotations

from devmem.errors import NotStoredError, ScopeError
from devmem.memory.boundary import checked_name
from devmem.model.items import MemoryItem, Scope
from devmem.model.results import WriteStatus
from devmem.stores import MemoryBase


def replace_item(store: MemoryBase, item: MemoryItem) -> None:
    """Store an item in the place of the one that has its id.

    Raises:
        NotStoredError: the store keeps the item as it was.
        CollectionError: it cannot be written.
    """
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
