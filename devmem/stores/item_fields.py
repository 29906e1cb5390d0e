"""The fields of its items by which a store is searched: those of its configuration, or else those on record."""

from __future__ import annotations

import logging
import math
import threading
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Final

from devmem.collections import Collection, FieldedCollection
from devmem.model.items import MemoryItem

_LOG: Final = logging.getLogger(__name__)
_FRESH_FOR: Final = 5.0
"""Seconds for which recorded fields are taken for current: another process may reindex the store by others."""


class ItemFields:
    """Settles the fields of new items, and reports items that are searched by others."""

    def __init__(self, store: str, configured: tuple[str, ...] | None, *, clock: Callable[[], float]) -> None:
        """Take the store's name, for messages, and the configured fields; None leaves them to the collection.

        `clock` returns seconds, which only grow.
        """
        self._store, self._configured, self._clock = store, configured, clock
        self._lock = threading.Lock()
        self._recorded: tuple[str, ...] = ()
        self._read_at = -math.inf
        self._is_recorded = False
        """Whether the configured fields are known to be on record."""

    def stamped(self, items: Sequence[MemoryItem], collection: Callable[[], Collection]) -> list[MemoryItem]:
        """Return items as they are stored: one that names no fields gets those of the store."""
        if all(item.indexed_fields is not None for item in items):
            return list(items)
        fields = self._of_store(collection)
        return [replace(item, indexed_fields=fields) if item.indexed_fields is None else item for item in items]

    def claimed(self, collection: Collection) -> Collection:
        """Return a collection, with the configured fields on record if it is empty; warn where items have others."""
        if self._is_outdated(collection):
            if not collection.count():
                return self.reindexed(collection)
            _LOG.warning(
                "memory store %r: its items are searched by the fields (%s), the configuration names (%s). New items "
                "follow the configuration; `devmem reindex` brings the others up to date.",
                self._store, ", ".join(recorded_fields(collection)), ", ".join(self._configured or ()),
            )  # fmt: skip
        return collection

    def reindexed(self, collection: Collection) -> Collection:
        """Return a collection, its items searched by the configured fields unless they have fields of their own."""
        if self._configured is not None:
            if isinstance(collection, FieldedCollection):
                collection.index_fields(self._configured)
            else:
                _LOG.warning(
                    "memory store %r: items of this kind of file keep the fields that they were written with; a .db "
                    "file takes others (`devmem copy`).", self._store,
                )  # fmt: skip
        return collection

    def _of_store(self, collection: Callable[[], Collection]) -> tuple[str, ...] | None:
        """Return the fields of an item that names none; None where the store has none either."""
        with self._lock:
            if self._configured is not None:
                self._record(collection)
                return self._configured or None
            if self._clock() - self._read_at >= _FRESH_FOR:
                self._recorded, self._read_at = recorded_fields(collection()), self._clock()
            return self._recorded or None

    def _record(self, collection: Callable[[], Collection]) -> None:
        """Record the configured fields before items are written with them, so that a reindex knows these later."""
        if self._is_recorded:
            return
        opened = collection()
        if self._is_outdated(opened) and isinstance(opened, FieldedCollection):
            opened.record_fields(self._configured or ())
        self._is_recorded = True

    def _is_outdated(self, collection: Collection) -> bool:
        return (
            self._configured is not None
            and isinstance(collection, FieldedCollection)
            and collection.indexed_fields() != self._configured
        )


def recorded_fields(collection: Collection) -> tuple[str, ...]:
    """Return the fields that a collection records; none for one that records nothing."""
    return collection.indexed_fields() if isinstance(collection, FieldedCollection) else ()
