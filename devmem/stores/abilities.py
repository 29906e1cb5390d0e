"""Stores on the versions of their items: their history, and what they were at an earlier time."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache
from typing import Final

from devmem.errors import CollectionError, DevmemError, NoTombstonesError, NoVersionsError
from devmem.model.conditions import Order
from devmem.model.filters import Filter
from devmem.model.items import MemoryItem
from devmem.storage.protocol import Collection, ExportRecord
from devmem.storage.sqlite.collection import SqliteCollection
from devmem.storage.versions import VersionedCollection
from devmem.stores.collection_memory import CollectionMemory
from devmem.stores.memory import MemoryBase


def versions_of(store: MemoryBase, lacking: Callable[[str, str], DevmemError] = NoVersionsError) -> VersionedCollection:
    """Return the collection that keeps the versions of a store's items, with its archive and its tombstones.

    Raises:
        NoVersionsError: there is none; or the error that `lacking` makes of the store's name and the reason.
    """
    if not isinstance(store, CollectionMemory):
        raise lacking(store.name, f"stores of the type {store.setup.store_type!r} have none")
    if not isinstance(store.collection, VersionedCollection):
        raise lacking(store.name, f"its items are in {store.collection.info().location}, which has none")
    return store.collection


def keeps_versions(store: MemoryBase) -> bool:
    """Whether a store keeps the versions of its items, and has an archive."""
    return isinstance(store, CollectionMemory) and isinstance(store.collection, VersionedCollection)


def tombstones_of(store: MemoryBase) -> VersionedCollection:
    """Return the collection that keeps tombstones of what is erased from a store; raises `NoTombstonesError`."""
    return versions_of(store, NoTombstonesError)


def without_erased(collection: Collection, text: str, user: str | None) -> str:
    """Return a text, such as a summary, without the sentences that a tombstone of a user keeps out.

    None stands for unscoped items.
    """
    return collection.without_erased(text, user) if isinstance(collection, VersionedCollection) else text


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
    other.show(view, store)
    return other


def as_of(store: MemoryBase, time: float) -> MemoryBase:
    """Return a store as it was at a time (seconds since the epoch), read only; the caller closes it.

    Raises:
        NoVersionsError: the store keeps no versions.
    """
    return viewed(store, versions_of(store).as_of(time))


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
    if not isinstance(collection, SqliteCollection):
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
    if not isinstance(collection, SqliteCollection):
        return []
    held = list(items)

    @cache
    def earlier() -> list[MemoryItem]:
        """Return the versions, which are read only where the items themselves do not tell."""
        return [version.item for item in held for version in collection.history(item.id)]

    def may_hold_some(export: ExportRecord) -> bool:
        return any(map(export.may_hold, held)) or any(map(export.may_hold, earlier()))

    return [export for export in collection.exports() if may_hold_some(export)]


_SPARE: Final = 64


def every_item(store: MemoryBase, where: Filter | None = None, order: Order = Order.STORED) -> Iterator[MemoryItem]:
    """Return a store's items that match, oldest first in their order."""
    if isinstance(store, CollectionMemory):
        yield from store.scan(where, order=order)
        return
    # One that is added meanwhile may push an old one out of the newest `count`.
    yield from reversed(store.recent(store.count(where) + _SPARE, where, order=order))
