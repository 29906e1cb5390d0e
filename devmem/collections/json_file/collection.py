"""The JSON collection: DevAll's (ChatDev 2) memory file, a JSON list of items, read and written in its form.

The whole file is written on every change, by atomic replacement under a lock file, so it suits small memories and
exchange with DevAll; larger ones belong into SQLite. Searching works on a copy in memory that follows the file.
"""

from __future__ import annotations

import json
import os
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final, TypeVar

from filelock import FileLock, Timeout

from devmem.collections.cleaning import clean_up
from devmem.collections.deletion import check_deletion
from devmem.collections.json_file.file_format import read_entries
from devmem.collections.json_file.stored_vectors import StoredVectors
from devmem.collections.prepared import PreparedItem
from devmem.collections.protocol import Collection, CollectionInfo, Unique
from devmem.collections.sqlite.collection import SqliteCollection
from devmem.collections.sqlite.concurrency import SharedLock
from devmem.config import IndexConfig
from devmem.embedding import ModelIdentity, PassageEmbeddings
from devmem.errors import (
    CollectionBusyError,
    CollectionClosedError,
    CollectionUnwritableError,
)
from devmem.indexes.locking import locked
from devmem.model.items import MemoryItem
from devmem.model.results import Hit, HitGroup, SearchReport, WriteOutcome
from devmem.search.conditions import Scalar
from devmem.search.filters import Filter, Order
from devmem.search.query import SearchQuery
from devmem.text.atomic_write import OWNER_ONLY, replace_file

T = TypeVar("T")
Stamp = tuple[int, int, int]
_UNKNOWN: Final[Stamp] = (-1, -1, -1)
"""No file has it."""


def _stamp_of(found: os.stat_result) -> Stamp:
    """Return what tells a version of the file from another one."""
    return found.st_mtime_ns, found.st_size, found.st_ino


def _fits(items: Collection, keep: int | None, stored_before: float | None) -> bool:
    """Whether there are at most `keep` items, and none that was stored before a time."""
    if keep is not None and items.count() > keep:
        return False
    return stored_before is None or all(item.created_at >= stored_before for item in items.scan())


class JsonCollection:
    """Items in one JSON file; `Collection` documents the methods."""

    def __init__(
        self,
        location: str | Path,
        *,
        model: ModelIdentity | None = None,
        index: IndexConfig | None = None,
        busy_timeout: float = 30.0,
        clock: Callable[[], float] = time.time,
    ) -> None:
        """Open the file; it is created when the first item is stored.

        Args:
            location: path of the file.
            model: embedding model; without one the search is by text alone.
            index: how vectors are searched; None takes the defaults.
            busy_timeout: seconds to wait for another process's write.
            clock: current time in seconds since the epoch, for expiry.

        Raises:
            CollectionDamagedError: the file is no list of items; it was left as it is.
            EmbeddingMismatchError: its embeddings were made by another model.
        """
        self.location = str(location)
        self._path = Path(location)
        self._model = model
        self._index = index
        self._clock = clock
        self._lock = threading.RLock()
        """Held while the file is read and while it is written."""
        self._access = SharedLock()
        """Held by readers together, and by a writer alone: until the file is written, its copy in memory is ahead."""
        self._file_lock = FileLock(f"{self.location}.lock", timeout=busy_timeout, mode=OWNER_ONLY)
        self._stamp: Stamp | None = None
        self._has_file = False
        """Whether the file was read or written since it was opened."""
        self._closed = False
        self._memory: Collection = self._empty()
        self._vectors = StoredVectors()
        clean_up(self._path)
        self._refresh()

    def _empty(self) -> Collection:
        return SqliteCollection(model=self._model, index=self._index, clock=self._clock)

    def _read(self, operation: Callable[[Collection], T]) -> T:
        """Run an operation on the items that are in the file now, beside other readers."""
        return self._access.read(lambda: operation(locked(self._lock, self._current)))

    def _read_vectors(self, operation: Callable[[StoredVectors], T]) -> T:
        """Run an operation on the embeddings that are in the file now."""

        def read() -> T:
            self._current()
            return operation(self._vectors)

        return self._access.read(lambda: locked(self._lock, read))

    def _current(self) -> Collection:
        """Return the items that are in the file now."""
        self._check_open()
        self._refresh()
        return self._memory

    def _write(self, operation: Callable[[Collection], T]) -> T:
        """Run an operation on the items that are in the file now, and write the file."""
        return self._access.write(lambda: locked(self._lock, lambda: self._write_alone(operation)))

    def _write_alone(self, operation: Callable[[Collection], T]) -> T:
        self._check_open()
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            with self._file_lock:
                self._refresh()
                return self._apply(operation)
        except Timeout as error:
            raise CollectionBusyError(
                self.location, "another process held the lock file for too long; nothing was written."
            ) from error
        except OSError as error:
            raise CollectionUnwritableError(self.location, f"cannot be written: {error}") from error

    def _apply(self, operation: Callable[[Collection], T]) -> T:
        model = self._model
        try:
            # Until the file is written the copy in memory is ahead of it: whatever is raised, it is read again.
            self._stamp = _UNKNOWN
            result = operation(self._memory)
            self._stamp = self._save()
        except BaseException:
            self._model = model
            raise
        return result

    def _check_open(self) -> None:
        if self._closed:
            raise CollectionClosedError(self.location, "the collection was closed.")

    def _refresh(self) -> None:
        """Read the file if it is not the version that was read or written last."""
        try:
            found = self._path.stat()
        except FileNotFoundError:
            if self._has_file:
                raise CollectionUnwritableError(
                    self.location,
                    "the file was deleted or moved while it was open; nothing was written: put it back, restore a "
                    "backup, or open the store again to start with an empty one.",
                ) from None
            if self._stamp is not None:
                self._memory, self._stamp = self._empty(), None
                self._vectors.remember((), self._model)
            return
        except OSError as error:
            raise CollectionUnwritableError(self.location, f"cannot be read: {error}") from error
        stamp = _stamp_of(found)
        if stamp == self._stamp:
            return
        entries = read_entries(self._path, self._model)
        memory = self._empty()
        memory.add(self._vectors.usable(entries, self._model))
        self._vectors.remember(entries, self._model)
        self._memory, self._stamp, self._has_file = memory, stamp, True

    def _save(self) -> Stamp:
        """Write the file; return its new stamp."""
        items = list(self._memory.scan())
        embedded = self._memory.embeddings([item.id for item in items]) if self._model else {}
        entries = [self._vectors.entry(item, self._model, embedded.get(item.id)) for item in items]
        content = json.dumps([entry.dump() for entry in entries], indent=2, ensure_ascii=False)
        # A lone surrogate, which has no UTF-8 form, becomes a backslash escape, which is JSON.
        replace_file(self._path, [content.encode("utf-8", "backslashreplace")])
        self._has_file = True
        self._vectors.remember(entries, self._model)
        return _stamp_of(self._path.stat())

    def add(
        self,
        items: Sequence[MemoryItem | PreparedItem],
        *,
        unique: Unique = Unique.ID,
        expected: Mapping[str, str | None] | None = None,
        absent: Filter | None = None,
    ) -> list[WriteOutcome]:
        """Store the items, all or none of them."""
        prepared = [PreparedItem.of(item) for item in items]
        if not items:
            return []
        return self._write(lambda memory: memory.add(prepared, unique=unique, expected=expected, absent=absent))

    def find(self, query: SearchQuery) -> SearchReport:
        """Return the best items, best first, and how they were found."""
        return self._read(lambda memory: memory.find(query))

    def search(self, query: SearchQuery) -> list[Hit]:
        """Return the hits of `find` alone."""
        return list(self.find(query).hits)

    def conversations(self, query: SearchQuery, *, hits_each: int = 3) -> list[HitGroup]:
        """Return the conversations that the query is about, best first, each with its best items."""
        return self._read(lambda memory: memory.conversations(query, hits_each=hits_each))

    def get(self, ids: Sequence[str]) -> list[MemoryItem]:
        """Return the items that are there, in the order of `ids`."""
        return self._read(lambda memory: memory.get(ids))

    def recent(
        self, limit: int, where: Filter | None = None, *, order: Order = Order.STORED, offset: int = 0
    ) -> list[MemoryItem]:
        """Return the last items of an order, the last one first."""
        return self._read(lambda memory: memory.recent(limit, where, order=order, offset=offset))

    def scan(
        self, where: Filter | None = None, *, order: Order = Order.STORED, offset: int = 0
    ) -> Iterator[MemoryItem]:
        """Return every item in an order."""
        return self._read(lambda memory: memory.scan(where, order=order, offset=offset))

    def values(
        self, key: str, where: Filter | None = None, *, prefix: str = "", limit: int | None = None, offset: int = 0
    ) -> list[Scalar]:
        """Return the distinct values that items have."""
        return self._read(lambda memory: memory.values(key, where, prefix=prefix, limit=limit, offset=offset))

    def pop(self, count: int = 1, where: Filter | None = None) -> list[MemoryItem]:
        """Delete the items stored last, and return them."""
        return self._write(lambda memory: memory.pop(count, where))

    def delete(self, *, ids: Sequence[str] | None = None, where: Filter | None = None) -> int:
        """Delete the named or the matching items."""
        check_deletion(ids, where)
        return self._write(lambda memory: memory.delete(ids=ids, where=where))

    def clear(self) -> int:
        """Delete everything."""
        return self._write(lambda memory: memory.clear())

    def trim(self, *, keep: int | None = None, stored_before: float | None = None) -> int:
        """Delete all but the newest items, and those stored before a time."""
        # Most files are within their limits, and stay as they are.
        if self._read(lambda memory: _fits(memory, keep, stored_before)):
            return 0
        return self._write(lambda memory: memory.trim(keep=keep, stored_before=stored_before))

    def count(self, where: Filter | None = None) -> int:
        """Return the number of items that a search could find."""
        return self._read(lambda memory: memory.count(where))

    def waiting(self, limit: int) -> list[MemoryItem]:
        """Return items whose embedding is still to be made, oldest first."""
        return self._read(lambda memory: memory.waiting(limit))

    def embeddings(self, ids: Sequence[str]) -> dict[str, PassageEmbeddings]:
        """Return the embeddings of those of the items that have them, by id."""
        return self._read(lambda memory: memory.embeddings(ids))

    def set_embeddings(self, embeddings: Mapping[str, PassageEmbeddings]) -> int:
        """Store the embeddings of waiting items."""
        return self._write(lambda memory: memory.set_embeddings(embeddings))

    def replace_model(self, model: str, dimension: int | None) -> int:
        """Delete every embedding and record the model of the new ones."""

        def replaced(memory: Collection) -> int:
            self._model = ModelIdentity(name=model, dimension=dimension)
            self._vectors.remember((), self._model)
            return memory.replace_model(model, dimension)

        return self._write(replaced)

    def unlabelled(self) -> list[MemoryItem]:
        """Return the items whose embedding names no model and was not settled, with that embedding."""
        return self._read_vectors(StoredVectors.unlabelled)

    def settle_unlabelled(self, items: Sequence[MemoryItem], *, same_model: bool) -> None:
        """Search by the embeddings of `unlabelled` items from now on, or keep them in the file alone."""
        self._access.write(lambda: self._settle(items, same_model=same_model))

    def _settle(self, items: Sequence[MemoryItem], *, same_model: bool) -> None:
        self._check_open()
        self._vectors.settle(items, same_model=same_model)
        if same_model:
            self._stamp = _UNKNOWN

    def kept_vectors(self) -> int:
        """Return the number of embeddings that stand in the file, but are not known to be of the collection's model."""
        return self._read_vectors(StoredVectors.kept)

    def info(self) -> CollectionInfo:
        """Report what the collection is and how much it holds."""

        def read(memory: Collection) -> CollectionInfo:
            size = self._path.stat().st_size if self._path.exists() else 0
            return replace(memory.info(), location=self.location, size_bytes=size)

        return self._read(read)

    def close(self) -> None:
        """Release the memory; every change is in the file already."""
        self._access.write(self._close)

    def _close(self) -> None:
        self._closed = True
        self._memory.close()
