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
        or some that are or were recorded. Only items whose passages change lose their embeddings.
        """
        ...

    def record_fields(self, fields: Sequence[str]) -> None:
        """Record that items are written with other fields, too, which `index_fields` then takes for the store's."""
        ...


def recorded_first(fields: Fields, recorded: Sequence[Fields]) -> list[Fields]:
    """Return what is recorded when items are searched by some fields: these, then all earlier ones."""
    return [fields, *(earlier for earlier in recorded if earlier != fields)]


def recorded_too(fields: Fields, recorded: Sequence[Fields]) -> list[Fields]:
    """Return what is recorded when items are also written with some fields: the current ones stay the first."""
    return list(recorded) if fields in recorded else [*(recorded or [()]), fields]


def with_fields(item: MemoryItem, fields: Fields, recorded: Sequence[Fields]) -> MemoryItem:
    """Return an item that is searched by fields of the store, of now or earlier, with others; any other as it is."""
    left_to_store = item.indexed_fields is None or (bool(item.indexed_fields) and item.indexed_fields in recorded)
    wanted = fields or None
    return replace(item, indexed_fields=wanted) if left_to_store and item.indexed_fields != wanted else item
