"""The items of a store that live in a collection: listing, counting and deleting them is the collection's work."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Sequence

from devmem.collections import Collection, CollectionInfo, Filter, Order, Scalar, VersionedCollection
from devmem.model.items import MemoryItem
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
