"""A collection that is opened on first use."""

from __future__ import annotations

from collections.abc import Callable
from threading import Lock

from devmem.collections import Collection
from devmem.errors import CollectionClosedError


class LazyCollection:
    """Opens a store's collection once and closes it for good; safe to use from several threads."""

    def __init__(self, store: str) -> None:
        """Prepare for the store of this name; nothing is opened yet."""
        self._store = store
        self._opened: Collection | None = None
        self._closed = False
        self._lock = Lock()

    @property
    def is_open(self) -> bool:
        """Whether the collection was opened and not closed since."""
        return self._opened is not None

    def get(self, open_collection: Callable[[], Collection]) -> Collection:
        """Return the collection; `open_collection` is called where it is not open yet.

        Raises:
            CollectionClosedError: the store was closed.
            CollectionError: the collection cannot be opened.
        """
        with self._lock:
            if self._opened is None:
                if self._closed:
                    raise CollectionClosedError(self._store, "the store was closed.")
                self._opened = open_collection()
            return self._opened

    def close(self) -> None:
        """Close the collection, also one that another thread is opening; it is not opened again."""
        with self._lock:
            self._closed = True
            if self._opened is not None:
                self._opened.close()
                self._opened = None
