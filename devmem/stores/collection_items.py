"""The items of a store that live in a collection: listing, counting and deleting them is the collection's work."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from devmem.collections import (
    Collection,
    CollectionInfo,
    ErasableCollection,
    Erasing,
    Erasure,
    Filter,
    Order,
    Scalar,
    Unreached,
    VersionedCollection,
    descendants,
    file_of,
)
from devmem.collections.erasure import search_files
from devmem.model.items import MemoryItem, dump_item_json
from devmem.stores.erasure_decisions import parts_of_store
from devmem.stores.memory import MemoryBase


class CollectionItems(MemoryBase):
    """A store whose items live in a collection, without what it writes and how it answers."""

    @property
    @abstractmethod
    def collection(self) -> Collection:
        """The place where the items are."""

    def get(self, ids: Sequence[str]) -> list[MemoryItem]:
        """Return the items that are there, in the order of `ids`."""
        return self.collection.get(ids)

    def recent(
        self, limit: int, where: Filter | None = None, *, order: Order = Order.STORED, offset: int = 0
    ) -> list[MemoryItem]:
        """Return the last items of an order, the last one first."""
        return self.collection.recent(limit, where, order=order, offset=offset)

    def scan(
        self, where: Filter | None = None, *, order: Order = Order.STORED, offset: int = 0
    ) -> Iterator[MemoryItem]:
        """Return every item that matches, in an order, a few at a time."""
        return self.collection.scan(where, order=order, offset=offset)

    def values(
        self, key: str, where: Filter | None = None, *, prefix: str = "", limit: int | None = None, offset: int = 0
    ) -> list[Scalar]:
        """Return the distinct values that items have of a key such as `user` or `metadata.room`, in order."""
        return self.collection.values(key, where, prefix=prefix, limit=limit, offset=offset)

    def pop(self, count: int = 1, where: Filter | None = None) -> list[MemoryItem]:
        """Delete the items stored last and return them, newest first: at most `count`, each to one caller only."""
        return self.collection.pop(count, where)

    def _delete(self, ids: Sequence[str] | None, where: Filter | None) -> int:
        return self.collection.delete(ids=ids, where=where)

    def erase(self, *, ids: Sequence[str] | None = None, where: Filter | None = None) -> int:
        """Delete the named or the matching items for good, their versions included; return how many there were."""
        deleted = super().erase(ids=ids, where=where)
        if isinstance(self.collection, VersionedCollection):
            self.collection.erase(ids=ids, where=where)
        return deleted

    def erasing_filter(self, where: Filter) -> Filter:
        """Return the filter by which items are erased; a store type whose deletions reach further overrides it."""
        return where

    def select_erasable(self, erasing: Erasing) -> list[MemoryItem]:
        """Return the items that are selected to be erased, and one version of those that are no longer there."""
        widened = replace(erasing, where=self.erasing_filter(erasing.where))
        if isinstance(self.collection, ErasableCollection):
            return self.collection.select_erasable(widened)
        return [item for item in self.collection.scan() if widened.admits(item)]

    def derived_from(self, ids: Sequence[str]) -> list[MemoryItem]:
        """Return the items that were derived from some items, or from such items, as their provenance says."""
        if isinstance(self.collection, ErasableCollection):
            return self.collection.derived_from(ids)
        return descendants(list(self.collection.scan()), ids)

    def begin_purge(self, erasing: Erasing) -> int:
        """Record in a database, but not in a file, what is about to be purged; see `MemoryBase.begin_purge`."""
        collection = self.collection
        if not isinstance(collection, ErasableCollection) or file_of(collection.info().location) is not None:
            return 0
        planned = collection.begin_erasure(replace(erasing, where=self.erasing_filter(erasing.where)))
        return len(collection.get(planned))

    def purge(
        self, erasing: Erasing, derived: Sequence[str] = (), *, words: Sequence[str] = (), vacuum: bool = False
    ) -> Erasure:
        """Erase items down to the bytes, where the collection does; see `MemoryBase.purge`."""
        ids = [item.id for item in self.select_erasable(erasing)]
        if not isinstance(self.collection, ErasableCollection):
            items = self.clear() if erasing.is_everything else self.erase(ids=[*ids, *derived])
            left, done = self.scrub(), self._searched(items, words)
            return replace(done, unreached=(*left, *done.unreached))
        widened = replace(erasing, where=self.erasing_filter(erasing.where))
        planned = self.collection.begin_erasure(widened, derived)
        items = self.clear() if erasing.is_everything else self.erase(ids=planned)
        left = self.scrub()
        done = self.collection.finish_erasure(words, vacuum=vacuum)
        return replace(done, items=items + done.items, unreached=(*left, *done.unreached))

    def scrub(self) -> Sequence[Unreached]:
        """Remove the bytes of what was erased from the files beside the collection; return what could not be reached.

        A store type that keeps such files overrides it.
        """
        return ()

    def finish_erasure(self) -> None:
        """Finish erasures that were interrupted, as by the death of a process."""
        if isinstance(self.collection, ErasableCollection):
            planned = self.collection.planned_erasure()
            if planned is not None:
                self.erase(ids=planned)
                self.scrub()
                self.collection.finish_erasure(vacuum=True)
        for part in parts_of_store(self.setup):
            self.purge(Erasing(ids=part.names), vacuum=True)
            part.done()

    def _searched(self, items: int, words: Sequence[str]) -> Erasure:
        """Return the result of an erasure from a collection that only deletes: its file is searched, if it has one."""
        place = self.collection.info().location
        if "://" in place:
            reason = "what the service keeps in logs, replicas and backups is out of reach"
            return Erasure(items=items, unreached=(Unreached(place=place, reason=reason),))
        kept = [dump_item_json(item).decode(errors="replace") for item in self.collection.scan()] if words else []
        reached, left = search_files([Path(place)], words, lambda word: any(word in text for text in kept))
        return Erasure(items=items, reached=tuple(reached) if words else (), unreached=tuple(left))

    def clear(self) -> int:
        """Delete everything; return how many items there were."""
        return self.collection.clear()

    def trim(self, *, keep: int | None = None, stored_before: float | None = None) -> int:
        """Delete all but the newest items, and those that are too old; return how many there were."""
        return self.collection.trim(keep=keep, stored_before=stored_before)

    def count_memories(self, where: Filter | None = None) -> int:
        """Return the number of items that a search could find."""
        return self.collection.count(where)

    def info(self) -> CollectionInfo:
        """Report where the items are and how many there are."""
        return self.collection.info()
