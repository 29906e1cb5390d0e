"""The protocol of a collection that keeps the versions of its items."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, runtime_checkable

from devmem.collections.protocol import Collection
from devmem.model.versions import ItemVersion
from devmem.search.filters import Filter


@runtime_checkable
class VersionedCollection(Collection, Protocol):
    """A collection that keeps what an item was when it is replaced or deleted.

    `add` begins versions, `delete` and `clear` end them. What `trim` and expiry remove is gone at once, versions
    included: retention is there to free space.
    """

    def history(self, item_id: str) -> list[ItemVersion]:
        """Return the committed versions of an item, oldest first; empty when none is kept.

        The current version is the last one, without `ended`; a deleted item has none.
        """
        ...

    def as_of(self, time: float) -> Collection:
        """Return the collection as it was at a time (seconds since the epoch), as far as its versions are kept.

        What had expired by then is left out. It is read only: its writing methods raise `CollectionReadOnlyError`. The
        caller closes it; the collection stays open.
        """
        ...

    def erase(self, *, ids: Sequence[str] | None = None, where: Filter | None = None) -> int:
        """Delete the named or the matching items for good, with every version that they ever had.

        A version that matches is removed too where the item has changed since and does not match any more. A filter
        that admits everything erases everything. Return the number of deleted items.

        Raises:
            FilterError: there are neither ids nor a filter.
        """
        ...
