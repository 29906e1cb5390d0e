"""The fields by which a store is searched, as they travel with its items."""

from __future__ import annotations

from devmem.collections import FieldedCollection
from devmem.stores import CollectionConfig, CollectionMemory, MemoryBase
from devmem.stores.item_fields import recorded_fields


def fields_of(store: MemoryBase) -> tuple[str, ...]:
    """Return the fields that a store records; none for one that records nothing."""
    return recorded_fields(store.collection) if isinstance(store, CollectionMemory) else ()


def take_fields(target: MemoryBase, fields: tuple[str, ...]) -> None:
    """Record the fields of the store that items come from, before these are added.

    An empty target is searched by them from now on, unless its configuration names some. Any other keeps its own, and
    knows that the items which have these left them to their store, as a reindex has to.
    """
    if not fields or not isinstance(target, CollectionMemory):
        return
    config, into = target.setup.config, target.collection
    if not isinstance(into, FieldedCollection) or into.indexed_fields() == fields:
        return
    is_configured = isinstance(config, CollectionConfig) and config.index.fields is not None
    if is_configured or into.indexed_fields() or into.count():
        into.record_fields(fields)
    else:
        into.index_fields(fields)
