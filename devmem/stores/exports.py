"""Exports of stores, recorded where their items are."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cache
from typing import Final

from devmem.collections import Filter, VersionedCollection
from devmem.collections.exports import ExportLog, ExportRecord
from devmem.errors import CollectionError
from devmem.model.items import MemoryItem
from devmem.stores.collection_memory import CollectionMemory
from devmem.stores.memory import MemoryBase

_ALL: Final = Filter()


def record_export(
    store: MemoryBase, place: str, *, items: int, where: Filter = _ALL, ids: Sequence[str] = ()
) -> str | None:
    """Record an export where the store's items are; return the reason where that is impossible.

    Args:
        store: the store.
        place: path of the file; empty where it was printed.
        items: number of items.
        where: filter that selected them.
        ids: ids that selected them; empty where none did.
    """
    collection = store.collection if isinstance(store, CollectionMemory) else None
    if not isinstance(collection, ExportLog):
        return "a forgetting will not name this export: its place is not recorded by stores of this kind"
    record = ExportRecord.of_selection(place, made_at=store.setup.clock(), items=items, where=where, ids=ids)
    try:
        collection.record_export(record)
    except CollectionError as error:
        return f"a forgetting will not name this export: {error}"
    return None


def exports_of(store: MemoryBase, items: Iterable[MemoryItem]) -> list[ExportRecord]:
    """Return the exports of a store that may hold some of the items, or a version of them that it still has.

    There are none where it remembers none.
    """
    collection = store.collection if isinstance(store, CollectionMemory) else None
    if not isinstance(collection, ExportLog):
        return []
    held = list(items)

    @cache
    def earlier() -> list[MemoryItem]:
        """Return the versions, which are read only where the items themselves do not tell."""
        if not isinstance(collection, VersionedCollection):
            return []
        return [version.item for item in held for version in collection.history(item.id)]

    def may_hold_some(export: ExportRecord) -> bool:
        return any(map(export.may_hold, held)) or any(map(export.may_hold, earlier()))

    return [export for export in collection.exports() if may_hold_some(export)]
