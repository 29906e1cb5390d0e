"""The JSON collection: DevAll's (ChatDev 2) memory file, a JSON list of items, read and written in its form.

The whole file is written on every change, by atomic replacement under a lock file, so it suits small memories and
exchange with DevAll; larger ones belong into SQLite. Searching works on a copy in memory that follows the file.
The format has no place for further values of a store: they are in a SQLite file beside it (`FILE.json.states`).
"""

from __future__ import annotations

import json
import os
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import wraps
from hashlib import sha256
from pathlib import Path
from typing import Concatenate, Final, ParamSpec, TypeVar, Unpack

from filelock import FileLock, Timeout

from devmem.errors import CollectionBusyError, CollectionClosedError, CollectionUnwritableError
from devmem.model.fields import embedded_hash
from devmem.model.filters import Filter
from devmem.model.items import MemoryItem, Vector, is_pinned
from devmem.model.results import WriteOutcome
from devmem.models.embedder import ModelIdentity, PassageEmbeddings
from devmem.search.indexes.columns import locked
from devmem.storage.connections import SharedLock
from devmem.storage.erasure import EraseRequest, Residue, remove_partial_files
from devmem.storage.json_format import JsonEntry, read_entries
from devmem.storage.opening import STATES_SUFFIX, CollectionOptions, path_of
from devmem.storage.protocol import Collection, CollectionInfo
from devmem.storage.sqlite.collection import SqliteCollection
from devmem.storage.versions import StateTable
from devmem.storage.writing import PreparedItem, Unique, unit_vectors
from devmem.text.files import OWNER_ONLY, replace_file


class StoredVectors:
    """Embeddings as they stand in the file, by item; what was settled of one holds for as long as it stays the same."""

    def __init__(self) -> None:
        self._entries: Mapping[str, JsonEntry] = {}
        """Entries with an embedding, by the item's id."""
        self._foreign: Mapping[bytes, MemoryItem] = {}
        """Items whose embedding is not known to be the model's, by the embedding's hash."""
        self._settled: dict[bytes, bool] = {}
        """Whether the collection's model made an embedding, by the embedding's hash."""

    def usable(self, entries: Sequence[JsonEntry], model: ModelIdentity | None) -> list[PreparedItem]:
        """Return the items, only with such embeddings as the model made, at unit length.

        Without a model all of one length are taken: nothing is searched by them.
        """
        own = [
            each if self._is_own(each, model) else replace(each, item=replace(each.item, embedding=None), passages=None)
            for each in entries
        ]
        lengths = Counter(len(each.item.embedding) for each in own if each.item.embedding is not None)
        wanted = model.dimension if model and model.dimension else next(iter(dict(lengths.most_common(1))), None)
        return [_prepared(each, wanted) for each in own]

    def remember(self, entries: Iterable[JsonEntry], model: ModelIdentity | None) -> None:
        """Take over the entries that the file holds now."""
        self._entries = {entry.item.id: entry for entry in entries if entry.item.embedding is not None}
        unlabelled = [entry.item for entry in self._entries.values() if model and entry.model is None]
        foreign = {_key(item): item for item in unlabelled if _unit(item.embedding) is not None}
        self._foreign = {key: item for key, item in foreign.items() if not self._settled.get(key)}

    def entry(self, item: MemoryItem, model: ModelIdentity | None, passages: PassageEmbeddings | None) -> JsonEntry:
        """Return what is written of an item: its embeddings with the model's name, or what the file held of it."""
        kept = self._entries.get(item.id)
        if kept and embedded_hash(kept.item) != embedded_hash(item):
            kept = None
        if kept and (model is None or item.embedding is None):
            return JsonEntry(replace(item, embedding=kept.item.embedding), kept.model, kept.passages)
        return JsonEntry(item, model.name if model else None, passages)

    def unlabelled(self) -> list[MemoryItem]:
        """Return the items whose embedding names no model and is not settled."""
        return [item for key, item in self._foreign.items() if key not in self._settled]

    def settle(self, items: Iterable[MemoryItem], *, same_model: bool) -> None:
        """Record whether the collection's model made the embeddings of these items."""
        self._settled |= {_key(item): same_model for item in items}
        self._foreign = {key: item for key, item in self._foreign.items() if not self._settled.get(key)}

    def kept(self) -> int:
        """Return the number of embeddings that are not known to be the model's."""
        return len(self._foreign)

    def _is_own(self, entry: JsonEntry, model: ModelIdentity | None) -> bool:
        if model is None or entry.item.embedding is None or entry.model is not None:
            return True
        return self._settled.get(_key(entry.item), False)


def _prepared(entry: JsonEntry, dimension: int | None) -> PreparedItem:
    """Return the item of an entry with its embeddings; without them, so that it waits, where some are missing."""
    vector = entry.item.embedding
    first = _unit(vector) if vector is not None and len(vector) == dimension else None
    prepared = replace(PreparedItem.of(replace(entry.item, embedding=first)), refusal=entry.refusal)
    # DevAll embeds an item as a whole; what devmem embedded has a vector for each passage.
    if first is None or entry.model is None:
        return prepared
    found = entry.passages or prepared.embeddings
    is_whole = found and len(found.vectors) == len(prepared.passages) and found.is_of(embedded_hash(entry.item))
    return replace(prepared, embeddings=found if is_whole else None)


def _key(item: MemoryItem) -> bytes:
    vector = b"" if item.embedding is None else item.embedding.tobytes()
    return sha256(item.content_hash.encode() + vector).digest()


def _unit(vector: Vector | None) -> Vector | None:
    """Return the vector at unit length; None for zeros, which DevAll stores where its provider fails."""
    found = None if vector is None else unit_vectors(vector[None])
    return None if found is None else found[0]


P = ParamSpec("P")
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
    return stored_before is None or all(item.created_at >= stored_before or is_pinned(item) for item in items.scan())


def _reading(method: Callable[Concatenate[SqliteCollection, P], T]) -> Callable[Concatenate[JsonCollection, P], T]:
    """Return a method that reads the items that are in the file now."""

    @wraps(method)
    def read(self: JsonCollection, /, *args: P.args, **kwargs: P.kwargs) -> T:
        return self._read(lambda memory: method(memory, *args, **kwargs))

    return read


def _writing(method: Callable[Concatenate[SqliteCollection, P], T]) -> Callable[Concatenate[JsonCollection, P], T]:
    """Return a method that changes the items that are in the file now, and writes the file."""

    @wraps(method)
    def write(self: JsonCollection, /, *args: P.args, **kwargs: P.kwargs) -> T:
        return self._write(lambda memory: method(memory, *args, **kwargs))

    return write


class JsonCollection:
    """Items in one JSON file; `Collection` documents the methods."""

    def __init__(self, location: str | Path, **options: Unpack[CollectionOptions]) -> None:
        """Open the file at a path; it is created when the first item is stored.

        Raises:
            CollectionDamagedError: the file is not a list of items; it was left unchanged.
            EmbeddingMismatchError: its embeddings were made by another model.
        """
        self.location = str(location)
        self._path = Path(location)
        self._model, self._index = options.get("model"), options.get("index")
        self._clock, self._busy_timeout = options.get("clock", time.time), options.get("busy_timeout", 30.0)
        self._lock = threading.RLock()
        """Held while the file is read and while it is written."""
        self._access = SharedLock()
        """Held by readers together, and by a writer alone: until the file is written, its copy in memory is ahead."""
        self._file_lock = FileLock(f"{self.location}.lock", timeout=self._busy_timeout, mode=OWNER_ONLY)
        self._stamp: Stamp | None = None
        self._has_file = False
        """Whether the file was read or written since it was opened."""
        self._words_only = False
        """Whether the file records that it has no model on purpose, or does so with its first item."""
        self._closed = False
        self._beside = Path(f"{self.location}{STATES_SUFFIX}")
        self._opened_beside: SqliteCollection | None = None
        self._memory = self._empty()
        self._vectors = StoredVectors()
        remove_partial_files(self._path)
        self._refresh()

    def _empty(self) -> SqliteCollection:
        return SqliteCollection(model=self._model, index=self._index, clock=self._clock)

    def _read(self, operation: Callable[[SqliteCollection], T]) -> T:
        """Run an operation on the items that are in the file now, beside other readers."""
        return self._access.read(lambda: operation(locked(self._lock, self._current)))

    def _current(self) -> SqliteCollection:
        """Return the items that are in the file now."""
        self._check_open()
        self._refresh()
        return self._memory

    def _write(self, operation: Callable[[SqliteCollection], T]) -> T:
        """Run an operation on the items that are in the file now, and write the file."""
        return self._access.write(lambda: locked(self._lock, lambda: self._write_alone(operation)))

    def _write_alone(self, operation: Callable[[SqliteCollection], T]) -> T:
        self._check_open()
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            with self._file_lock:
                self._refresh()
                # Until the file is written the copy in memory is ahead of it: whatever is raised, it is read again.
                model, self._stamp = self._model, _UNKNOWN
                try:
                    result = operation(self._memory)
                    self._stamp = self._save()
                except BaseException:
                    self._model = model
                    raise
                return result
        except Timeout as error:
            raise CollectionBusyError(
                self.location, "another process held the lock file for too long; this write failed as a whole."
            ) from error
        except OSError as error:
            raise CollectionUnwritableError(self.location, f"cannot be written: {error}") from error

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
        self._words_only = self._model is None and (self._words_only or any(entry.words_only for entry in entries))

    def _save(self) -> Stamp:
        """Write the file; return its new stamp."""
        items = list(self._memory.scan())
        embedded = self._memory.embeddings([item.id for item in items]) if self._model else {}
        refused = self._memory.refusals()
        entries = [
            replace(self._vectors.entry(item, self._model, embedded.get(item.id)), refusal=refused.get(item.id))
            for item in items
        ]
        if self._words_only and self._model is None:
            entries = [replace(entry, words_only=True) for entry in entries]
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

    search = _reading(SqliteCollection.search)
    conversations = _reading(SqliteCollection.conversations)
    get = _reading(SqliteCollection.get)
    recent = _reading(SqliteCollection.recent)
    scan = _reading(SqliteCollection.scan)
    values = _reading(SqliteCollection.values)
    value_counts = _reading(SqliteCollection.value_counts)
    count = _reading(SqliteCollection.count)
    waiting = _reading(SqliteCollection.waiting)
    refusals = _reading(SqliteCollection.refusals)
    embeddings = _reading(SqliteCollection.embeddings)
    pop = _writing(SqliteCollection.pop)
    delete = _writing(SqliteCollection.delete)
    clear = _writing(SqliteCollection.clear)
    set_embeddings = _writing(SqliteCollection.set_embeddings)

    def trim(self, *, keep: int | None = None, stored_before: float | None = None) -> int:
        """Delete all but the newest items, and those stored before a time."""
        # Most files are within their limits, and stay as they are.
        if self._read(lambda memory: _fits(memory, keep, stored_before)):
            return 0
        return self._write(lambda memory: memory.trim(keep=keep, stored_before=stored_before))

    def replace_model(self, model: str, dimension: int | None) -> int:
        """Delete every embedding and record the model of the new ones."""

        def replaced(memory: SqliteCollection) -> int:
            self._model = ModelIdentity(name=model, dimension=dimension)
            self._vectors.remember((), self._model)
            return memory.replace_model(model, dimension)

        return self._write(replaced)

    def record_words_only(self) -> None:
        """Record that the file has no model on purpose: in its items, so that one without any records it later."""
        if self._model is not None or self._words_only:
            return
        self._words_only = True
        if self.count():
            self._write(lambda _memory: None)

    def unlabelled(self) -> list[MemoryItem]:
        """Return the items whose embedding names no model and was not settled, with that embedding."""
        return self._read(lambda _memory: self._vectors.unlabelled())

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
        return self._read(lambda _memory: self._vectors.kept())

    def info(self) -> CollectionInfo:
        """Report what the collection is and how much it holds."""

        def read(memory: SqliteCollection) -> CollectionInfo:
            size = self._path.stat().st_size if self._path.exists() else 0
            return replace(memory.info(), location=self.location, size_bytes=size)

        return self._read(read)

    @property
    def states(self) -> StateTable:
        """Further values of the store, in a SQLite file beside the items, which is made here if it is missing."""
        return self._open_beside().states

    def _open_beside(self) -> SqliteCollection:
        with self._lock:
            self._check_open()
            if self._opened_beside is None:
                self._opened_beside = SqliteCollection(
                    self._beside, busy_timeout=self._busy_timeout, clock=self._clock, history_days=0
                )
            return self._opened_beside

    def rewrite_states(self) -> list[Residue]:
        """Remove the bytes of deleted values from the file beside the items; return what could not be reached."""
        if not self._beside.exists():
            return []
        beside = self._open_beside()
        return list(beside.finish_erasure(beside.begin_erasure(EraseRequest(ids=())), vacuum=True).residues)

    def close(self) -> None:
        """Release the memory and the file of the store's values; every change is in the files already."""
        self._access.write(self._close)

    def _close(self) -> None:
        self._closed = True
        self._memory.close()
        if self._opened_beside is not None:
            self._opened_beside.close()


def open_json(location: str, _name: str | None, /, **options: Unpack[CollectionOptions]) -> JsonCollection:
    """Open the JSON file at a path, at `json:///relative.json` or at `json:////absolute.json`.

    Raises:
        CollectionError: it cannot be opened.
    """
    return JsonCollection(path_of(location), **options)
