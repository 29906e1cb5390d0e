"""The `file` store: files and folders as memory, found by meaning and by words, kept up to date with the files."""

from __future__ import annotations

import json
import logging
import sqlite3
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property
from hashlib import sha256
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Final

import numpy as np
from filelock import FileLock
from pydantic import ValidationError

from devmem import EmbeddingError, Hit, MemoryItem, MemoryWritePayload, WriteOutcome
from devmem.encryption import connect
from devmem.errors import (
    CollectionBusyError,
    CollectionUnwritableError,
    DataFileError,
    EmbeddingMismatchError,
    Finding,
)
from devmem.model.results import Fact
from devmem.storage import (
    Collection,
    EraseRequest,
    EraseResult,
    Residue,
    SqliteCollection,
    StateKey,
    Unique,
    file_of,
    states_of,
)
from devmem.storage.sqlite.examination import read_ids
from devmem.stores import (
    CollectionMemory,
    ConfigModel,
    Embedder,
    IndexPlan,
    IndexProgress,
    IndexReport,
    MemoryQuery,
    PassageEmbeddings,
    Progress,
    SearchReport,
    StoreSetup,
    Vector,
    embed_items,
    load_item,
    skipped,
)
from devmem.stores.embedding_queue import made_by
from devmem.text.files import OWNER_ONLY
from devmem_stores.file.chunks import Chunking, Limits
from devmem_stores.file.config import FileConfig
from devmem_stores.file.indexer import Indexer, Recipe, plan_index
from devmem_stores.file.manifest import Entry, Manifest, examine_manifest
from devmem_stores.file.sources import Sources

if TYPE_CHECKING:
    from devmem_stores.file.watcher import Watcher


_KEYS: Final = ("file_metadata", "contents", "config")


@dataclass(frozen=True, slots=True, kw_only=True)
class OldIndex:
    """Content of a DevAll index."""

    items: tuple[MemoryItem, ...]
    files: tuple[str, ...]
    """Paths as DevAll wrote them."""
    chunking: dict[str, Any] = field(default_factory=dict)
    """Its `config`: chunk_size and chunk_overlap."""


def read_old_index(path: Path) -> OldIndex:
    """Read the file.

    Raises:
        DataFileError: it is no such index.
        OSError: it cannot be read.
    """
    try:
        raw = json.loads(path.read_text("utf-8-sig"))
    except ValueError as error:
        raise DataFileError(path, f"is no JSON: {error}") from error
    if not isinstance(raw, dict) or not all(key in raw for key in _KEYS[:2]):
        raise DataFileError(path, "is no index of DevAll: expected a mapping with `file_metadata` and `contents`.")
    try:
        items = tuple(load_item(each) for each in raw["contents"])
    except (ValidationError, TypeError) as error:
        raise DataFileError(path, f"one of its `contents` is not an item: {error}") from error
    return OldIndex(items=items, files=tuple(raw["file_metadata"]), chunking=dict(raw.get("config") or {}))


def usable_vectors(old: OldIndex, embedder: Embedder) -> dict[str, Vector]:
    """Return the embeddings by the hash of a chunk's text; none when another model made them.

    DevAll keeps the line breaks around a chunk that is a whole file.

    Raises:
        EmbeddingError: the model does not answer.
    """
    embedded = [item for item in old.items if item.embedding is not None and item.content_summary.strip()]
    if not made_by(embedder, embedded):
        return {}
    vectors = {}
    for item in embedded:
        unit = _unit(item.embedding)
        if unit is not None:
            text = item.content_summary.strip("\n").rstrip()
            vectors[sha256(text.encode()).hexdigest()] = unit
    return vectors


def _unit(vector: Vector | None) -> Vector | None:
    """Return the vector at unit length; None for the zeros that DevAll stored when its provider failed."""
    length = 0.0 if vector is None else float(np.linalg.norm(vector))
    return None if vector is None or length == 0.0 else (vector / length).astype(np.float32)


_BATCH_SIZE: Final = 256
_BESIDE: Final = ("", "-wal", "-shm", ".faiss")


def rebuild(location: str, old: Collection, embedder: Embedder, progress: Progress | None = None) -> int:
    """Embed every item of a collection into a new one that replaces it; `old` is closed then.

    Returns:
        Number of items embedded by this call.

    Raises:
        EmbeddingError: the provider does not answer; the old file is as it was.
        CollectionBusyError: another process uses the old file; the new one is kept for the next time.
        CollectionError: the new file cannot be written.
    """
    beside = f"{location}.rebuild"
    new = _open_new(beside, embedder, old)
    try:
        there = {item.id for item in new.scan()}
        done = 0
        for part in _batches(item for item in old.scan() if item.id not in there):
            bare = [replace(item, embedding=None) for item in part]
            new.add(embed_items(embedder, bare))
            done += len(part)
            if progress:
                progress(done)
        kept = {item.id for item in old.scan()}
        new.delete(ids=sorted(there - kept))
        Manifest(states_of(old)).copy_to(states_of(new))
    finally:
        new.close()
    old.close()
    _put_in_place(beside, location)
    return done


def _open_new(beside: str, embedder: Embedder, old: Collection) -> Collection:
    def opened() -> SqliteCollection:
        return SqliteCollection(beside, model=embedder.identity, store_type="file")

    # The length of the vectors may be known to the provider's first answer only.
    if old.info().items:
        embedder.embed(["probe"])
    try:
        return opened()
    except EmbeddingMismatchError:
        _remove(beside)  # begun for a third model
        return opened()


def _batches(items: Iterator[MemoryItem]) -> Iterator[list[MemoryItem]]:
    while part := list(islice(items, _BATCH_SIZE)):
        yield part


def _put_in_place(beside: str, location: str) -> None:
    """Replace the old file while no process has it open: SQLite would apply its log to the new one."""
    guard = connect(location, timeout=1.0, isolation_level=None)
    try:
        guard.execute("PRAGMA locking_mode = EXCLUSIVE")
        mode = guard.execute("PRAGMA journal_mode = DELETE").fetchone()[0]
        if mode != "delete":
            raise CollectionBusyError(location, "another process uses it")
        guard.execute("BEGIN EXCLUSIVE")
        Path(beside).replace(location)
    except sqlite3.OperationalError as error:
        raise CollectionBusyError(location, "another process uses it") from error
    finally:
        guard.close()
    Path(f"{location}.faiss").unlink(missing_ok=True)
    snapshot = Path(f"{beside}.faiss")
    if snapshot.exists():
        snapshot.replace(f"{location}.faiss")


def _remove(beside: str) -> None:
    for suffix in _BESIDE:
        Path(beside + suffix).unlink(missing_ok=True)


_LOG: Final = logging.getLogger("devmem.stores.file")
_KEPT_BY_FILE: Final = "the file still says it, and the next pass indexes it again: change, remove or exclude it"
_READ_ONLY: Final = "read-only: a file store holds what its files say"


class FileMemory(CollectionMemory):
    """Chunks of files as items; the files are the source of truth, and agents write nothing."""

    config_model: ClassVar[type[ConfigModel]] = FileConfig
    summary: ClassVar[str] = "Documents: indexes files and folders, read-only, keeps up with their changes"

    def __init__(self, setup: StoreSetup) -> None:
        super().__init__(setup)
        self.config = setup.config_as(FileConfig)
        self._recipe = Recipe(
            chunking=Chunking(
                size=self.config.chunk_size, overlap=self.config.chunk_overlap, unit=self.config.chunk_unit
            ),
            limits=Limits(**self.config.limits.model_dump()),
        )
        self.report: IndexReport | None = None
        """Report of the last pass over the files."""
        self._location = setup.location(self.config.memory_path)
        self._indexing = threading.RLock()
        self._is_alone = False
        self._watcher: Watcher | None = None
        self._logged: dict[str, str] = {}

    @cached_property
    def _sources(self) -> Sources:
        own = [place for place in (self._location, self.setup.location(self.config.index_path)) if place]
        files = [path for place in own if (path := file_of(place)) is not None]
        return Sources(self.config.file_sources, self.setup.base_dir, files)

    @cached_property
    def _file(self) -> str | None:
        """Path of the index's file; None when the index is in memory or in a database."""
        return None if self._location is None else file_of(self._location)

    @property
    def _in_database(self) -> bool:
        return self._location is not None and self._file is None

    @property
    def _manifest(self) -> Manifest:
        return Manifest(states_of(self.collection))

    def examine_states(self, states: Mapping[StateKey, bytes]) -> tuple[Mapping[str, Fact], Sequence[Finding]]:
        """Return counts of files, and what could not be indexed, or is not in the index."""
        if not states or self._file is None:
            return {}, ()
        return examine_manifest(states, read_ids(Path(self._file)))

    @contextmanager
    def _alone(self) -> Iterator[None]:
        """Exclude other threads and processes from indexing at the same time; it may be nested."""
        with self._indexing:
            if self._is_alone:
                yield
                return
            with self._excluding_processes():
                self._is_alone = True
                try:
                    yield
                finally:
                    self._is_alone = False

    @contextmanager
    def _excluding_processes(self) -> Iterator[None]:
        if self._in_database:
            # Whatever model made its embeddings.
            with closing(self.open_collection(claim=False)) as index, states_of(index).exclusive("indexing"):
                yield
            return
        if self._file is None:
            yield
            return
        path = f"{self._file}.lock"
        if (missing := self._sources.missing_above(Path(path).parent)) is not None:
            # A folder that the index made would look as if the source existed and were empty.
            raise CollectionUnwritableError(
                self._file, f"is in {str(missing)!r}, a source that does not exist: create it, or correct its `path`"
            )
        lock = FileLock(path, mode=OWNER_ONLY)
        try:
            Path(path).parent.mkdir(parents=True, exist_ok=True)
            lock.acquire()
        except OSError as error:
            raise CollectionUnwritableError(path, f"cannot be written: {error.strerror or error}") from error
        try:
            yield
        finally:
            lock.release()

    def load(self) -> None:
        """Open the index and bring it up to date; with `watch: true`, keep it so until the store is closed."""
        self.index()
        if self.config.watch:
            self.watch()

    def look(self) -> None:
        """Open the items as they are; nothing is indexed."""
        self.open_as_it_is()

    def index(
        self, progress: IndexProgress | None = None, *, rebuild: bool = False, drop_missing: bool = False
    ) -> IndexReport:
        """Bring the index up to date; the files of a source without any file stay unless `drop_missing`."""
        with self._alone():
            self._open_index()
            self.finish_erasure()
            indexer = Indexer(
                self.collection,
                self._manifest,
                self._embed_and_store,
                self._recipe,
                embeds=self.embedder is not None,
                clock=self.setup.clock,
                known_embeddings={text: PassageEmbeddings.of(vector) for text, vector in self._old_vectors().items()},
            )
            self.report = indexer.run(self._sources.scan(), progress, rebuild=rebuild, drop_missing=drop_missing)
            self.save()
        self._log_problems(self.report)
        return self.report

    def plan(self, *, rebuild: bool = False, drop_missing: bool = False) -> IndexPlan:
        """Report what `index` would do; no file is written."""
        with self._indexing:
            return plan_index(
                self._sources.scan(), self._known(), self._recipe, rebuild=rebuild, drop_missing=drop_missing
            )

    def _known(self) -> dict[str, Entry]:
        """Return the indexed files, whatever model made their embeddings; no file is made."""
        if self.is_open:
            return self._manifest.entries()
        if self._location is None or (self._file is not None and not Path(self._file).exists()):
            return {}
        with closing(self.open_collection(claim=False)) as index:
            return Manifest(states_of(index)).entries()

    def watch(self, changed: Callable[[IndexReport], None] | None = None) -> None:
        """Follow changes until the store is closed."""
        from devmem_stores.file.watcher import Watcher

        def take_in() -> None:
            report = self.index()
            if changed is not None and not report.is_empty():
                changed(report)

        with self._indexing:
            if self._watcher is None:
                self._watcher = Watcher(self._sources.roots(), take_in, self.name)

    def _open_index(self) -> None:
        try:
            _ = self.collection
        except EmbeddingMismatchError as error:
            self._change_model(error)

    def _change_model(self, error: EmbeddingMismatchError) -> None:
        """Embed every chunk with the model that is configured now; where that fails, the old index serves words."""
        if self.embedder is None or self._file is None:
            raise error
        _LOG.warning(
            "memory store %r: the embedding model changed from %s to %s, so every chunk is embedded again; "
            "the old index stays unchanged until that is done",
            self.name, error.recorded, error.wanted,
        )  # fmt: skip
        old = self.open_collection(claim=False)
        try:
            rebuild(self._file, old, self.embedder)
        except (EmbeddingError, CollectionBusyError) as failure:
            self.search_by_words()
            _LOG.warning(
                "memory store %r: this could not be finished (%s); until the next load it is searched by words alone",
                self.name, failure,
            )  # fmt: skip
        finally:
            old.close()

    def _old_vectors(self) -> dict[str, Vector]:
        """Return the embeddings of DevAll's index, when this one is new."""
        path = Path(self.setup.location(self.config.index_path) or "")
        if path.suffix != ".json" or not path.is_file() or self._manifest.entries():
            return {}
        try:
            old = read_old_index(path)
            vectors = usable_vectors(old, self.embedder) if self.embedder else {}
        except (DataFileError, OSError, EmbeddingError) as error:
            _LOG.warning("memory store %r: nothing is taken over from DevAll's index: %s", self.name, error)
            return {}
        _LOG.info(
            "memory store %r: DevAll's index of %d file(s) is read; %d embedding(s) can be kept",
            self.name, len(old.files), len(vectors),
        )  # fmt: skip
        return vectors

    def _embed_and_store(self, items: Sequence[MemoryItem], known: Mapping[str, PassageEmbeddings]) -> set[str]:
        """Store chunks; return the ids of those that tombstones keep out."""
        outcomes = self.store_items(items, unique=Unique.ID, embeddings=known)
        return {item.id for item, outcome in zip(items, outcomes, strict=True) if outcome.erased_before}

    def _log_problems(self, report: IndexReport) -> None:
        """Log each problem once, why unchanged files are indexed again, and encodings that were guessed now."""
        for reason in report.reasons:
            _LOG.warning("memory store %r: %s", self.name, reason)
        for name, problem in report.problems.items():
            if self._logged.get(name) != problem:
                _LOG.warning("memory store %r: %s: %s", self.name, name, problem)
        for name, guess in report.guessed.items():
            _LOG.warning(
                "memory store %r: %s %s: where that is wrong, name the `encoding` of its source", self.name, name, guess
            )
        self._logged = dict(report.problems)

    def rank(self, query: MemoryQuery) -> SearchReport:
        """Search the index, which is brought up to date first where the store was not loaded; hits show their place."""
        if not self.is_open:
            self.load()
        report = self.search_collection(query)
        return replace(report, hits=tuple(replace(hit, item=_shown(hit)) for hit in report.hits))

    def compose(self, payload: MemoryWritePayload) -> WriteOutcome:  # noqa: ARG002 - whatever it says
        """Keep nothing: the index holds what the files say."""
        return skipped(_READ_ONLY)

    def add(
        self,
        items: Sequence[MemoryItem],
        progress: Progress | None = None,
        *,
        embeddings: Mapping[str, PassageEmbeddings] | None = None,  # noqa: ARG002 - nothing is stored
        expected: Mapping[str, str | None] | None = None,  # noqa: ARG002
    ) -> list[WriteOutcome]:
        """Store nothing: the index holds what the files say."""
        if progress:
            progress(len(items))
        return [skipped(_READ_ONLY) for _ in items]

    def erase_selected(
        self, request: EraseRequest, derived: Sequence[str] = (), *, words: Sequence[str] = (), vacuum: bool = False
    ) -> EraseResult:
        """Erase chunks from the index; a file that still has them is named as not reached."""
        with self._alone():
            items = [*self.select_erasable(request), *self.get(derived)]
            done = super().erase_selected(request, derived, words=words, vacuum=vacuum)
        names = sorted({item.provenance.name for item in items})
        kept = [Residue(place=name, reason=_KEPT_BY_FILE) for name in names if self._sources.has_file(name)]
        return replace(done, residues=(*done.residues, *kept))

    def reindex(self, progress: Progress | None = None, *, force: bool = False) -> int:
        """Embed every chunk with the configured model, in place."""
        with self._alone():
            return super().reindex(progress, force=force)

    def restart_in_child(self) -> None:
        """Leave the pass of another thread to the parent."""
        self._is_alone = False

    def close(self) -> None:
        """Stop watching and release the files."""
        if self._watcher is not None:
            self._watcher.close()
        with self._indexing:
            super().close()


def _shown(hit: Hit) -> MemoryItem:
    """Return a hit's item with its citation before the text, as an agent sees it."""
    cited = hit.item.metadata.get("citation")
    return replace(hit.item, content_summary=f"[{cited}] {hit.item.content_summary}") if cited else hit.item
