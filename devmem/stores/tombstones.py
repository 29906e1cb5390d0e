"""Tombstones of a store: kept for what it erases, and applied to what came back; erasures that were interrupted."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from typing import Final

from devmem.model.items import MemoryItem, version_hash
from devmem.storage.erasure import EraseRequest
from devmem.storage.protocol import Collection
from devmem.storage.versions import VersionedCollection
from devmem.stores.commit_log import erase_records, erasures_file
from devmem.stores.memory import MemoryBase

_LOG: Final = logging.getLogger(__name__)


def bury(
    collection: Collection, request: EraseRequest, selected: Iterable[MemoryItem], derived: Sequence[MemoryItem]
) -> int:
    """Keep tombstones of items that are about to be erased, in every version; return the number of texts.

    Of an item that stays, as only earlier versions were selected, these alone are kept out. The sentences of what was
    derived from others may be those of items that stay: it is kept out as a whole only.

    Args:
        collection: holds the items; nothing is done where it keeps no tombstones.
        request: what is erased.
        selected: items that were selected.
        derived: items that go with them.
    """
    if not isinstance(collection, VersionedCollection):
        return 0
    erased = [*selected, *derived]
    named = {item.id for item in erased}
    wholes = {item.id for item in derived} | {i.id for i in erased if not named.isdisjoint(i.provenance.parents)}
    versions = [version for item in erased for version in _versions_of(collection, request, item)]
    erasure = collection.keep_tombstones(versions, wholes=wholes) if versions else ""
    return sum(each.texts for each in collection.tombstones() if each.id == erasure)


def _versions_of(collection: Collection, request: EraseRequest, item: MemoryItem) -> list[MemoryItem]:
    """Return the versions of an item that are erased, given one of them."""
    earlier = collection.history(item.id) if isinstance(collection, VersionedCollection) else []
    versions = [item, *(version.item for version in earlier if version.item.scope.user == item.scope.user)]
    current = collection.get([item.id])
    if not current or version_hash(current[0]) == version_hash(item):
        return versions
    stays = current[0].content_hash
    return [version for version in versions if version.content_hash != stays and request.admits(version)]


def without_erased(collection: Collection, text: str, user: str | None) -> str:
    """Return a text, such as a summary, without the sentences that a tombstone of a user keeps out.

    None stands for unscoped items.
    """
    return collection.without_erased(text, user) if isinstance(collection, VersionedCollection) else text


def finish_erasures(store: MemoryBase, collection: Collection) -> None:
    """Finish a store's erasures that were interrupted, and erase again what came back with another file in its place.

    `collection` is the store's.

    Raises:
        CollectionError, OSError: the collection or a file cannot be written.
    """
    if isinstance(collection, VersionedCollection):
        left = [plan for plan in collection.planned_erasures() if not plan.is_executed]
        for plan in left:
            store.erase(ids=plan.ids)
            store.rewrite_files()
            collection.finish_erasure(plan, vacuum=True)
    for record in erase_records(erasures_file(store.setup.base_dir), store.setup):
        store.erase_selected(EraseRequest(ids=record.names, tombstone=record.tombstone), vacuum=True)
        record.done()
    items = collection.apply_tombstones().items if isinstance(collection, VersionedCollection) else 0
    if items:
        store.rewrite_files()
        _LOG.warning(
            "memory store %r: %d item(s) that had been erased came back with another file, and were erased again.",
            store.name, items,
        )  # fmt: skip
