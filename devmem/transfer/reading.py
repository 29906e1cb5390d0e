"""Every item of a store, in an order."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from devmem.collections import Filter, Order
from devmem.model.items import MemoryItem
from devmem.stores import CollectionMemory, MemoryBase

_SPARE: Final = 64


def every_item(store: MemoryBase, where: Filter | None = None, order: Order = Order.STORED) -> Iterator[MemoryItem]:
    """Return a store's items that match, oldest first in their order."""
    if isinstance(store, CollectionMemory):
        yield from store.scan(where, order=order)
        return
    # One that is added meanwhile may push an old one out of the newest `count`.
    yield from reversed(store.recent(store.count_memories(where) + _SPARE, where, order=order))
