"""Collections that record which fields of their items are searched."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Protocol, TypeAlias, runtime_checkable

from devmem.model.items import MemoryItem

Fields: TypeAlias = tuple[str, ...]
"""Paths of the items' metadata; see `MemoryItem.indexed_fields`."""


@runtime_checkable
class FieldedCollection(Protocol):
    """A collection that records the fields of all items that were written without a choice of their own."""

    def indexed_fields(self) -> Fields:
        """Return the fields that are recorded; none in a new collection."""
        ...

    def index_fields(self, fields: Sequence[str]) -> int:
        """Search the items by other fields of theirs, and record these; return the number of items that now wait.

        Items and versions keep what they were written with, unless that was left to the store: no fields of their own,
        or those recorded so far. Only items whose passages change lose their embeddings.
        """
        ...


def with_fields(item: MemoryItem, fields: Fields, before: Fields) -> MemoryItem:
    """Return an item that was searched by the recorded fields `before` with others; any other item as it is."""
    left_to_store = item.indexed_fields is None or (bool(before) and item.indexed_fields == before)
    wanted = fields or None
    return replace(item, indexed_fields=wanted) if left_to_store and item.indexed_fields != wanted else item
