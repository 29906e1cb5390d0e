"""The `file` store: files and folders as memory, found by meaning and by words, kept up to date with the files."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Final

from devmem import Hit, MemoryItem, MemoryWritePayload, WriteOutcome
from devmem.errors import CollectionUnwritableError, EmbeddingError, EmbeddingMismatchError, Finding
from devmem.model.results import Fact
from devmem.storage import EraseRequest, EraseResult, Residue, StateKey, Unique, file_of, states_of
from devmem.stores import (
    CollectionMemory,
    ConfigModel,
    IndexPlan,
    IndexProgress,
    IndexReport,
    MemoryQuery,
    PassageEmbeddings,
    Progress,
    SearchReport,
    StoreSetup,
    skipped,
    unfinished,
)
from devmem_stores.file.chunks import Chunking, ParseLimits
from devmem_stores.file.config import FileConfig
from devmem_stores.file.indexer import FILE, FileRecord, Indexer, IndexRecipe, load_records, plan_index
from devmem_stores.file.sources import Sources

if TYPE_CHECKING:
    from devmem_stores.file.watcher import Watcher


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
        self._recipe = IndexRecipe(
            chunking=Chunking(
                size=self.config.chunk_size, overlap=self.config.chunk_overlap, unit=self.config.chunk_unit
            ),
            limits=ParseLimits(**self.config.limits.model_dump()),
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

    def examine_states(self, states: Mapping[StateKey, bytes]) -> tuple[Mapping[str, Fact], Sequence[Finding]]:
        """Return counts of files and chunks, and the files that could not be indexed."""
        records = load_records((name, value) for (kind, name), value in states.items() if kind == FILE)
        if not records:
            return {}, ()
        problems = {name: record.problem for name, record in records.items() if record.problem}
        facts = {"files": len(records), "chunks": sum(len(record.ids) for record in records.values())}
        return facts, [unfinished(f"{name} could not be indexed: {problem}") for name, problem in problems.items()]

    @contextmanager
    def _alone(self) -> Iterator[None]:
        """Exclude other threads and processes from indexing at the same time; it may be nested."""
        with self._indexing:
            if self._is_alone or self._location is None:
                yield
                return
            missing = self._sources.missing_above(Path(self._file).parent) if self._file else None
            if missing is not None:
                # A folder that the index made would look as if the source existed and were empty.
                raise CollectionUnwritableError(
                    self._location,
                    f"is in {str(missing)!r}, a source that does not exist: create it, or correct its `path`",
                )
            # Whatever model made its embeddings.
            with closing(self.open_collection(claim=False)) as index, states_of(index).exclusive("indexing"):
                self._is_alone = True
                try:
                    yield
                finally:
                    self._is_alone = False

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
            try:
                _ = self.collection
            except EmbeddingMismatchError as error:
                if self._file is None:
                    # Other machines may use the database with the other model.
                    raise
                self._embed_again(error)
            self.finish_erasure()
            indexer = Indexer(
                self.collection,
                self._embed_and_store,
                self._recipe,
                embeds=self.embedder is not None,
                clock=self.setup.clock,
            )
            self.report = indexer.run(self._sources.scan(), progress, rebuild=rebuild, drop_missing=drop_missing)
            self.save()
        self._log_problems(self.report)
        return self.report

    def _embed_again(self, error: EmbeddingMismatchError) -> None:
        _LOG.warning(
            "memory store %r: the embedding model changed from %s to %s, so every chunk is embedded again",
            self.name, error.recorded, error.wanted,
        )  # fmt: skip
        try:
            super().reindex()
        except EmbeddingError as failure:
            self.search_by_words()
            _LOG.warning(
                "memory store %r: this could not be done (%s); until the next load it is searched by words alone",
                self.name, failure,
            )  # fmt: skip

    def plan(self, *, rebuild: bool = False, drop_missing: bool = False) -> IndexPlan:
        """Report what `index` would do; no file is written."""
        with self._indexing:
            return plan_index(
                self._sources.scan(), self._known(), self._recipe, rebuild=rebuild, drop_missing=drop_missing
            )

    def _known(self) -> dict[str, FileRecord]:
        """Return the indexed files, whatever model made their embeddings; no file is made."""
        if self.is_open:
            return load_records(states_of(self.collection).scan(FILE))
        if self._location is None or (self._file is not None and not Path(self._file).exists()):
            return {}
        with closing(self.open_collection(claim=False)) as index:
            return load_records(states_of(index).scan(FILE))

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
