"""Stores on the versions of their items: their history, and what they were at an earlier time."""

from __future__ import annotations

from devmem.collections import Collection, VersionedCollection
from devmem.errors import NoVersionsError
from devmem.stores.collection_memory import CollectionMemory
from devmem.stores.memory import MemoryBase


def versions_of(store: MemoryBase) -> VersionedCollection:
    """Return the collection that keeps the versions of a store's items.

    Raises:
        NoVersionsError: there is none.
    """
    if not isinstance(store, CollectionMemory):
        raise NoVersionsError(store.name, f"stores of the type {store.setup.store_type!r} have none")
    if not isinstance(store.collection, VersionedCollection):
        raise NoVersionsError(store.name, f"they are in {store.collection.info().location}, which keeps none")
    return store.collection


def keeps_versions(store: MemoryBase) -> bool:
    """Whether a store keeps the versions of its items."""
    return isinstance(store, CollectionMemory) and isinstance(store.collection, VersionedCollection)


def viewed(store: MemoryBase, view: Collection) -> MemoryBase:
    """Return a store on a view of its collection; closing it closes the view.

    Raises:
        NoVersionsError: what the store knows is not in its collection alone.
    """
    if not isinstance(store, CollectionMemory):
        raise NoVersionsError(store.name, f"stores of the type {store.setup.store_type!r} have none")
    # Another instance: nothing that the store remembers, or has handed out, refers to the view.
    other = type(store)(store.setup)
    if store.embedder is None:
        other.search_by_words()
    other.show(view)
    return other


def as_of(store: MemoryBase, time: float) -> MemoryBase:
    """Return a store as it was at a time (seconds since the epoch), read only; the caller closes it.

    Raises:
        NoVersionsError: the store keeps no versions.
    """
    return viewed(store, versions_of(store).as_of(time))
