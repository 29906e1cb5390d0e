"""The JSON collection: DevAll's (ChatDev 2) memory file, a JSON list of items, read and written as it is there.

The whole file is written on every change, by atomic replacement under a lock file, so it suits small memories and
exchange with DevAll; larger ones belong into SQLite. Searching works on a copy in memory that follows the file.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Final, TypeVar

from filelock import FileLock, Timeout

from devmem.collections.json_file.items import dump_json_item, read_json_items
from devmem.collections.protocol import Collection, CollectionInfo, Unique
from devmem.collections.sqlite.collection import SqliteCollection
from devmem.config import IndexConfig
from devmem.embedding import ModelIdentity, PassageEmbeddings
from devmem.errors import (
    CollectionBusyError,
    CollectionClosedError,
    CollectionUnwritableError,
)
from devmem.model.items import MemoryItem
from devmem.model.results import Hit, HitGroup, SearchReport, WriteOutcome
from devmem.search.query import Filter, SearchQuery
from devmem.text.atomic_write import replace_file

T = TypeVar("T")
Stamp = tuple[int, int, int]
_UNKNOWN: Final[Stamp] = (-1, -1, -1)
"""No file has it."""


class JsonCollection:
    """Items in one JSON file; see `Collection` for what the methods promise."""

    def __init__(
        self,
        location: str | Path,
        *,
        model: ModelIdentity | None = None,
        index: IndexConfig | None = None,
        busy_timeout: float = 30.0,
        clock: Callable[[], float] = time.time,
    ) -> None:
        """Open the file; it is made when the first item is stored.

        Args:
            location: path of the file.
            model: what makes the embeddings; None searches by text alone.
            index: how vectors are searched; None takes the defaults.
            busy_timeout: seconds to wait for another process's write.
            clock: gives the time in seconds since the epoch, for expiry.

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
        self._file_lock = FileLock(f"{self.location}.lock", timeout=busy_timeout)
        self._stamp: Stamp | None = None
        self._closed = False
        self._memory: Collection = self._empty()
        self._refresh()

    def _empty(self) -> Collection:
        return SqliteCollection(model=self._model, index=self._index, clock=self._clock)

    @contextmanager
    def _reading(self) -> Iterator[Collection]:
        with self._lock:
            self._check_open()
            self._refresh()
            yield self._memory

    def _change(self, operation: Callable[[Collection], T]) -> T:
        """Apply an operation to what is in the file now, and write the file."""
        with self._lock:
            self._check_open()
            try:
                self._path.parent.mkdir(parents=True, exist_ok=True)
                with self._file_lock:
                    self._refresh()
                    with self._going_back():
                        result = operation(self._memory)
                        self._write()
            except Timeout as error:
                raise CollectionBusyError(
                    self.location, "another process held the lock file for too long; nothing was written."
                ) from error
            except OSError as error:
                raise CollectionUnwritableError(self.location, f"cannot be written: {error}") from error
            return result

    @contextmanager
    def _going_back(self) -> Iterator[None]:
        """Go back to what is in the file when what is in memory does not get there."""
        model = self._model
        try:
            yield
        except BaseException:
            self._model, self._stamp = model, _UNKNOWN
            raise

    def _check_open(self) -> None:
        if self._closed:
            raise CollectionClosedError(self.location, "the collection was closed.")

    def _refresh(self) -> None:
        """Read the file if it is not the one that was read or written last."""
        try:
            found = self._path.stat()
        except FileNotFoundError:
            if self._stamp is not None:
                self._memory, self._stamp = self._empty(), None
            return
        except OSError as error:
            raise CollectionUnwritableError(self.location, f"cannot be read: {error}") from error
        stamp = (found.st_mtime_ns, found.st_size, found.st_ino)
        if stamp == self._stamp:
            return
        memory = self._empty()
        memory.add(read_json_items(self._path, self._model))
        self._memory, self._stamp = memory, stamp

    def _write(self) -> None:
        items = [dump_json_item(item, self._model) for item in self._memory.scan()]
        content = json.dumps(items, indent=2, ensure_ascii=False)
        # Half a surrogate pair, which UTF-8 cannot hold, becomes a backslash escape, which is JSON.
        replace_file(self._path, [content.encode("utf-8", "backslashreplace")])
        found = self._path.stat()
        self._stamp = (found.st_mtime_ns, found.st_size, found.st_ino)

    def add(
        self,
        items: Sequence[MemoryItem],
        *,
        unique: Unique = Unique.ID,
        embeddings: Mapping[str, PassageEmbeddings] | None = None,
    ) -> list[WriteOutcome]:
        """Store the items, all or none of them."""
        return self._change(lambda memory: memory.add(items, unique=unique, embeddings=embeddings)) if items else []

    def find(self, query: SearchQuery) -> SearchReport:
        """Return the best items, best first, and how they were found."""
        with self._reading() as memory:
            return memory.find(query)

    def search(self, query: SearchQuery) -> list[Hit]:
        """Return the hits of `find` alone."""
        return list(self.find(query).hits)

    def conversations(self, query: SearchQuery, *, hits_each: int = 3) -> list[HitGroup]:
        """Give the conversations that the query is about, best first, each with its best items."""
        with self._reading() as memory:
            return memory.conversations(query, hits_each=hits_each)

    def get(self, ids: Sequence[str]) -> list[MemoryItem]:
        """Give the items that are there, in the order of `ids`."""
        with self._reading() as memory:
            return memory.get(ids)

    def recent(self, limit: int, where: Filter | None = None) -> list[MemoryItem]:
        """Give the items stored last, newest first."""
        with self._reading() as memory:
            return memory.recent(limit, where)

    def scan(self, where: Filter | None = None) -> Iterator[MemoryItem]:
        """Give every item in the order in which they were stored."""
        with self._reading() as memory:
            return memory.scan(where)

    def delete(self, *, ids: Sequence[str] | None = None, where: Filter | None = None) -> int:
        """Delete the named or the matching items."""
        if ids is None and where is None:
            return 0
        return self._change(lambda memory: memory.delete(ids=ids, where=where))

    def clear(self) -> int:
        """Delete everything."""
        return self._change(lambda memory: memory.clear())

    def trim(self, *, keep: int | None = None, stored_before: float | None = None) -> int:
        """Delete all but the newest, and those that are too old."""
        return self._change(lambda memory: memory.trim(keep=keep, stored_before=stored_before))

    def count(self, where: Filter | None = None) -> int:
        """Count the items that a search could find."""
        with self._reading() as memory:
            return memory.count(where)

    def waiting(self, limit: int) -> list[MemoryItem]:
        """Give items whose embedding is still to be made, oldest first."""
        with self._reading() as memory:
            return memory.waiting(limit)

    def embeddings(self, ids: Sequence[str]) -> dict[str, PassageEmbeddings]:
        """Give what a model made of those of the items that are embedded, by id."""
        with self._reading() as memory:
            return memory.embeddings(ids)

    def set_embeddings(self, embeddings: Mapping[str, PassageEmbeddings]) -> int:
        """Give waiting items their embeddings; the file keeps one of each item, that of its start."""
        return self._change(lambda memory: memory.set_embeddings(embeddings))

    def replace_model(self, model: str, dimension: int | None) -> int:
        """Forget every embedding and name the model of the new ones."""

        def replaced(memory: Collection) -> int:
            self._model = ModelIdentity(name=model, dimension=dimension)
            return memory.replace_model(model, dimension)

        return self._change(replaced)

    def info(self) -> CollectionInfo:
        """Say what the collection is and how much it holds."""
        with self._reading() as memory:
            size = self._path.stat().st_size if self._path.exists() else 0
            return replace(memory.info(), location=self.location, size_bytes=size)

    def close(self) -> None:
        """Release the memory; every change is in the file already."""
        with self._lock:
            self._closed = True
            self._memory.close()
