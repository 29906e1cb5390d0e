"""Writing to a collection: each method is one write transaction, the same in every database."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Protocol, TypeVar

from devmem.collections.deletion import check_deletion
from devmem.collections.prepared import PreparedItem
from devmem.collections.protocol import Unique
from devmem.model.items import MemoryItem
from devmem.model.results import WriteOutcome
from devmem.search.filters import Filter

T = TypeVar("T")


class ItemChanges(Protocol):
    """Changes the items within one write transaction: the current ones, or those that a pending run sees."""

    def add(
        self,
        batch: Sequence[PreparedItem],
        unique: Unique,
        expected: Mapping[str, str | None],
        absent: Filter | None,
    ) -> list[WriteOutcome]:
        """Store the items that are not stored already; see `Collection.add`."""
        ...

    def pop(self, count: int, where: Filter) -> list[MemoryItem]:
        """Delete the items that match and were stored last; return them with attachments, newest first."""
        ...

    def delete(self, ids: Sequence[str] | None, where: Filter | None) -> int:
        """Delete the items with these ids that match the filter; None for either does not restrict."""
        ...

    def trim(self, keep: int | None, stored_before: float | None) -> int:
        """Delete all but the newest items, and those stored before a time, for good.

        What has expired and is still there takes no item's place.
        """
        ...


class WritingCollection(ABC):
    """The writing methods of `Collection`, on the transactions of a subclass."""

    @abstractmethod
    def _adding(self, operation: Callable[[ItemChanges], T]) -> T:
        """Run an operation that adds in a write transaction."""

    def _deleting(self, operation: Callable[[ItemChanges], T]) -> T:
        """Run an operation that deletes in a write transaction."""
        return self._adding(operation)

    def _note(self, *, written: int = 0, deleted: int = 0) -> None:  # noqa: B027 - most have nothing to do
        """Note how many items a committed transaction wrote and deleted."""

    def add(
        self,
        items: Sequence[MemoryItem | PreparedItem],
        *,
        unique: Unique = Unique.ID,
        expected: Mapping[str, str | None] | None = None,
        absent: Filter | None = None,
    ) -> list[WriteOutcome]:
        """Store the items, all or none of them."""
        if not items:
            return []
        # Analysed before the transaction begins, as that takes longer than to insert them.
        prepared = [PreparedItem.of(item) for item in items]
        outcomes = self._adding(lambda changes: changes.add(prepared, unique, expected or {}, absent))
        self._note(written=len(prepared))
        return outcomes

    def pop(self, count: int = 1, where: Filter | None = None) -> list[MemoryItem]:
        """Delete the items stored last, and return them."""
        return self._deleting(lambda changes: changes.pop(count, where or Filter()))

    def delete(self, *, ids: Sequence[str] | None = None, where: Filter | None = None) -> int:
        """Delete the named or the matching items."""
        check_deletion(ids, where)
        return self._deleting(lambda changes: changes.delete(ids, where))

    def clear(self) -> int:
        """Delete everything."""
        return self._deleting(lambda changes: changes.delete(None, None))

    def trim(self, *, keep: int | None = None, stored_before: float | None = None) -> int:
        """Delete all but the newest items, and those stored before a time."""
        return self._deleting(lambda changes: changes.trim(keep, stored_before))
