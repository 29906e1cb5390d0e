"""One pass over the files: changed files are chunked, embedded and stored, then obsolete chunks are deleted.

The index records each file in a row beside its chunks. The process may be killed after any step: a file whose chunks
are about to change is recorded as unread, its new chunks are stored, the file is recorded with them, and chunks of no
file are deleted at the end. So the old chunks are found until the new ones are stored, and the next pass, which
compares the rows with the chunks, continues where this one stopped.
"""

from __future__ import annotations

import hashlib
import json
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Final

from pydantic import JsonValue

from devmem import MemoryContentSnapshot, MemoryItem
from devmem.errors import MissingExtraError, OversizedError, UnreadableError
from devmem.storage import Collection, StateTable, states_of
from devmem.stores import (
    TRUST,
    IndexPlan,
    IndexProgress,
    IndexReport,
    IndexStep,
    PassageEmbeddings,
    Provenance,
    SourceKind,
)
from devmem_stores.file.chunks import VERSION, Chunk, Chunking, ParseLimits
from devmem_stores.file.parser import Parser
from devmem_stores.file.sources import Scan, SourceFile, read

FILE: Final = "file"
"""Kind of the row of a file."""
_RACY_NS: Final = 2_000_000_000
"""A file read within this time of its last write may have changed again at the same recorded time."""
_BATCH_SIZE: Final = 256
"""Number of chunks that are embedded and stored together; small files share a batch."""
_WAY_OUT: Final = "mount or restore it, or drop them with `devmem reindex --drop-missing`"


@dataclass(frozen=True, slots=True, kw_only=True)
class FileRecord:
    """Record of one file in the index."""

    name: str
    size: int
    mtime_ns: int
    checked_ns: int
    """When the content was read: nanoseconds since the epoch."""
    sha256: str = ""
    recipe: str = ""
    """How it was read and chunked; empty when that has to be done again."""
    problem: str = ""
    """Why it could not be indexed; empty when it was."""
    ids: Sequence[str] = ()
    """Its chunks, in order."""


def load_records(rows: Iterable[tuple[str, bytes]]) -> dict[str, FileRecord]:
    """Return the files that rows describe, by name."""
    return {name: FileRecord(**json.loads(value)) for name, value in rows}


def _write_records(table: StateTable, records: Mapping[str, FileRecord | None]) -> None:
    table.write(
        {
            (FILE, name): None if record is None else json.dumps(asdict(record)).encode()
            for name, record in records.items()
        }
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexRecipe:
    """All that a file's chunks depend on besides its content."""

    chunking: Chunking
    limits: ParseLimits

    def chunks(self, encoding: str | None) -> str:
        """Return the recipe of a file that was split into chunks, as text."""
        chunking = self.chunking
        return f"{VERSION}:{chunking.size}:{chunking.overlap}:{chunking.unit}:{encoding or 'auto'}"

    def failure(self, encoding: str | None) -> str:
        """Return the recipe of a file that could not be split: with other limits it is tried again."""
        return f"{self.chunks(encoding)}:{self.limits}"

    def made(self, record: FileRecord, encoding: str | None) -> bool:
        """Whether a file was recorded by this recipe."""
        return record.recipe == (self.failure(encoding) if record.problem else self.chunks(encoding))


@dataclass(slots=True, kw_only=True)
class _Comparison:
    """Difference between the index and the files, before any file is read."""

    doubtful: list[SourceFile] = field(default_factory=list)
    """Files to read: new, perhaps changed, or to be chunked again."""
    gone: set[str]
    """Names in the index that no source has any more."""
    unchanged: int = 0
    reasons: list[str] = field(default_factory=list)
    """Why unchanged files are indexed again."""
    problems: dict[str, str]
    """Files, folders and sources that could not be examined, and why."""


def _compare(
    scan: Scan, known: Mapping[str, FileRecord], recipe: IndexRecipe, *, rebuild: bool, drop_missing: bool
) -> _Comparison:
    """Compare by name, size and time."""
    missing = [name for name in known if name not in scan.files and not scan.hides(name)]
    kept = {} if drop_missing else {name: source for name in missing if (source := scan.empty_source(name)) is not None}
    made = _Comparison(gone={name for name in missing if name not in kept}, problems=dict(scan.problems))
    for source, count in Counter(kept.values()).items():
        problem = scan.problems.get(source, "no file is left in this folder")
        made.problems[source] = f"{problem}; its {count:,} indexed file(s) are kept: {_WAY_OUT}"
    other = 0
    for name, found in scan.files.items():
        record = known.get(name)
        is_current = record is not None and recipe.made(record, found.encoding)
        if record is not None and record.recipe and not record.problem and not is_current:
            other += 1
        is_same = record is not None and (found.size, found.mtime_ns) == (record.size, record.mtime_ns)
        is_racy = record is not None and found.mtime_ns > record.checked_ns - _RACY_NS
        if rebuild or not is_current or not is_same or is_racy:
            made.doubtful.append(found)
        else:
            made.unchanged += 1
    if other:
        made.reasons.append(f"{other:,} file(s) are chunked again: chunk size, overlap, unit or encoding changed")
    if rebuild:
        made.reasons.append("every file is read again, as asked for")
    return made


def plan_index(
    scan: Scan,
    known: Mapping[str, FileRecord],
    recipe: IndexRecipe,
    *,
    rebuild: bool = False,
    drop_missing: bool = False,
) -> IndexPlan:
    """Report what an indexing would do: files that may differ are read, nothing is written."""
    made = _compare(scan, known, recipe, rebuild=rebuild, drop_missing=drop_missing)
    gone = {known[name].sha256: name for name in made.gone}
    new, changed, renamed, unchanged = [], [], [], made.unchanged
    for found in made.doubtful:
        try:
            content = read(found, recipe.limits)
        except (OSError, UnreadableError) as error:
            made.problems[found.name] = str(error)
            continue
        record = known.get(found.name)
        if record is None and content.sha256 in gone:
            renamed.append((gone.pop(content.sha256), found.name))
        elif record is None:
            new.append(found.name)
        elif rebuild or record.sha256 != content.sha256 or not recipe.made(record, found.encoding):
            changed.append(found.name)
        else:
            unchanged += 1
    return IndexPlan(
        new=tuple(new),
        changed=tuple(changed),
        renamed=tuple(renamed),
        deleted=tuple(sorted(made.gone - {name for name, _ in renamed})),
        unchanged=unchanged,
        reasons=tuple(made.reasons),
        problems=made.problems,
    )


Store = Callable[[Sequence[MemoryItem], Mapping[str, PassageEmbeddings]], set[str]]
"""Stores items, and embeds those whose embeddings, by id, are not given; returns the ids that tombstones keep out."""


@dataclass(slots=True, kw_only=True)
class _Counts:
    new: list[str] = field(default_factory=list)
    changed: list[str] = field(default_factory=list)
    renamed: list[tuple[str, str]] = field(default_factory=list)
    unchanged: int = 0
    files_read: int = 0
    stored: int = 0
    removed: int = 0
    embedded: int = 0
    kept_out: int = 0
    done: int = 0


class Indexer:
    """Brings one index up to date; its owner holds the lock against other indexers."""

    def __init__(
        self,
        collection: Collection,
        store: Store,
        recipe: IndexRecipe,
        *,
        embeds: bool,
        clock: Callable[[], float],
    ) -> None:
        """Prepare a pass.

        Args:
            collection: the place of the chunks.
            store: embeds and stores chunks.
            recipe: chunking and limits.
            embeds: whether a model makes embeddings; for the counts only.
            clock: the time in seconds since the epoch.
        """
        self._collection, self._table, self._store = collection, states_of(collection), store
        self._recipe, self._embeds, self._clock = recipe, embeds, clock
        self._records = load_records(self._table.scan(FILE))
        self._by_content = {record.sha256: record for record in self._records.values() if record.ids}
        self._seen: dict[str, FileRecord] = {}
        """Files that are unchanged, as they are now."""
        self._pending: list[tuple[FileRecord, list[MemoryItem]]] = []
        """Files that were read and chunked, and those of their chunks that are to be stored."""
        self._embeddings: dict[str, PassageEmbeddings] = {}
        self._obsolete: set[str] = set()
        self._counts = _Counts()
        self._guessed: dict[str, str] = {}

    def run(
        self, scan: Scan, progress: IndexProgress | None = None, *, rebuild: bool = False, drop_missing: bool = False
    ) -> IndexReport:
        """Do one pass.

        Args:
            scan: the files of the sources.
            progress: called after each file.
            rebuild: read every file again.
            drop_missing: also drop the files of a source of which no file is left.

        Raises:
            CollectionError: the index cannot be written; files indexed before it are kept.
        """
        started, counts = time.perf_counter(), self._counts
        if self._collection.info().items != sum(len(record.ids) for record in self._records.values()):
            # An interrupted pass, or someone else, may have changed the chunks.
            self._obsolete = there = {item.id for item in self._collection.scan()}
            for name, record in self._records.items():
                if not there.issuperset(record.ids):
                    self._records[name] = replace(record, recipe="")
        found = _compare(scan, self._records, self._recipe, rebuild=rebuild, drop_missing=drop_missing)
        counts.unchanged = found.unchanged

        def tell() -> None:
            if progress is not None:
                total = len(found.doubtful)
                progress(IndexStep(files=counts.done, total=total, chunks=counts.stored, embedded=counts.embedded))

        with Parser(self._recipe.chunking, self._recipe.limits) as parser:
            for file in found.doubtful:
                self._take(file, parser, found, rebuild=rebuild)
                counts.done += 1
                if max(sum(len(items) for _, items in self._pending), len(self._pending)) >= _BATCH_SIZE:
                    self._flush(tell)
        self._flush(tell)
        for name in found.gone:
            self._obsolete.update(self._records.pop(name).ids)
        _write_records(self._table, dict.fromkeys(found.gone))
        if loose := self._obsolete.difference(*(record.ids for record in self._records.values())):
            counts.removed = self._collection.delete(ids=sorted(loose))
        return IndexReport(
            new=tuple(counts.new),
            changed=tuple(counts.changed),
            renamed=tuple(counts.renamed),
            deleted=tuple(sorted(found.gone - {name for name, _ in counts.renamed})),
            unchanged=counts.unchanged,
            reasons=tuple(found.reasons),
            problems={name: each.problem for name, each in self._records.items() if each.problem} | found.problems,
            files=len(self._records),
            chunks=sum(len(record.ids) for record in self._records.values()),
            files_read=counts.files_read,
            stored=counts.stored,
            removed=counts.removed,
            embedded=counts.embedded,
            kept_out=counts.kept_out,
            seconds=time.perf_counter() - started,
            guessed=self._guessed,
        )

    def _take(self, found: SourceFile, parser: Parser, comparison: _Comparison, *, rebuild: bool) -> None:
        """Read and chunk a file; a failure is reported under its name, and its indexed chunks stay."""
        known, chunks = self._records.get(found.name), list[Chunk]()
        record = FileRecord(name=found.name, size=found.size, mtime_ns=found.mtime_ns, checked_ns=time.time_ns())
        try:
            content = read(found, self._recipe.limits)
            self._counts.files_read += 1
            record = FileRecord(
                name=found.name,
                size=content.found.size,
                mtime_ns=content.found.mtime_ns,
                checked_ns=content.checked_ns,
                sha256=content.sha256,
                recipe=self._recipe.chunks(found.encoding),
            )
            is_same = known is not None and known.sha256 == record.sha256
            if known is not None and is_same and self._recipe.made(known, found.encoding) and not rebuild:
                self._counts.unchanged += 1
                self._seen[known.name] = replace(record, recipe=known.recipe, problem=known.problem, ids=known.ids)
                return
            parsed = parser.parse(found.name, content.data, found.encoding)
            chunks = parsed.chunks
            if parsed.guess:
                self._guessed[found.name] = parsed.guess
        except FileNotFoundError:
            if known is not None:
                comparison.gone.add(found.name)
            return
        except (MissingExtraError, OSError) as error:
            reason = f"cannot be read: {error.strerror or error}" if isinstance(error, OSError) else str(error)
            comparison.problems[found.name] = reason
            return
        except UnreadableError as error:
            if not record.sha256 and not isinstance(error, OversizedError):
                comparison.problems[found.name] = f"cannot be read: {error}"
                return
            # Recorded, so that it is not read again until it or the limits change.
            record = replace(record, recipe=self._recipe.failure(found.encoding), problem=str(error))
        twin = self._by_content.get(record.sha256)
        if found.name in self._records:
            self._counts.changed.append(found.name)
        elif twin is not None and twin.name in comparison.gone:
            self._counts.renamed.append((twin.name, found.name))
        else:
            self._counts.new.append(found.name)
        items = list(self._items(found.name, chunks, [*(known.ids if known else ()), *(twin.ids if twin else ())]))
        self._pending.append((replace(record, ids=[each.id for each in chunks]), items))

    def _items(self, name: str, chunks: Sequence[Chunk], had: Sequence[str]) -> Iterator[MemoryItem]:
        """Return the items that are not stored yet; the embeddings of those whose text is stored are kept."""
        there = {item.id: item.content_hash for item in self._collection.get([each.id for each in chunks])}
        items = [(each.hash, _item_of(name, each, self._clock())) for each in chunks]
        stale = [(digest, item) for digest, item in items if there.get(item.id) != item.content_hash]
        made = self._collection.embeddings([*there, *had]) if stale else {}
        known = {str(item.metadata.get("chunk_hash")): made[item.id] for item in self._collection.get([*made])}
        for digest, item in stale:
            if (embedding := known.get(digest)) is not None:
                self._embeddings[item.id] = replace(embedding, content_hash=item.content_hash)
            yield item

    def _flush(self, tell: Callable[[], None]) -> None:
        """Store the chunks of the pending files, and record the files."""
        unread = {
            record.name: replace(self._records[record.name], recipe="")
            for record, items in self._pending
            if items and record.name in self._records
        }
        # Without this, a file that changes back would pass for unchanged while its chunks are not.
        _write_records(self._table, unread)
        items = [item for _, items in self._pending for item in items]
        kept_out: set[str] = set()
        for start in range(0, len(items), _BATCH_SIZE):
            part = items[start : start + _BATCH_SIZE]
            refused = self._store(part, self._embeddings)
            kept_out |= refused
            self._counts.kept_out += len(refused)
            self._counts.stored += len(part) - len(refused)
            self._counts.embedded += sum(item.id not in self._embeddings for item in part) if self._embeds else 0
            tell()
        for record, _ in self._pending:
            if record.name in self._records:
                self._obsolete.update(self._records[record.name].ids)
            self._seen[record.name] = replace(record, ids=[each for each in record.ids if each not in kept_out])
        _write_records(self._table, self._seen)
        self._records.update(self._seen)
        self._seen.clear()
        self._pending.clear()
        self._embeddings.clear()
        tell()


def _item_of(name: str, chunk: Chunk, now: float) -> MemoryItem:
    """Return the item of a chunk; `now` is in seconds since the epoch.

    The file's name is found by its words, and is no part of the embedded text: a rename needs no new embedding.
    """
    lines = f"{chunk.first}" if chunk.first == chunk.last else f"{chunk.first}-{chunk.last}"
    cited = f"{name}:{lines}" if chunk.page is None else f"{name}:page {chunk.page}"
    metadata: dict[str, JsonValue] = {
        "source_type": "file",
        "path": name,
        "citation": cited,
        "line_start": chunk.first,
        "line_end": chunk.last,
        "chunk_hash": chunk.hash,
    }
    if chunk.heading:
        metadata["heading"] = list(chunk.heading)
    if chunk.symbol:
        metadata["symbol"] = chunk.symbol
    if chunk.page is not None:
        metadata["page"] = chunk.page
    # Not of the content alone: a chunk that moved must replace the older item.
    said = "\0".join([cited, chunk.hash, *chunk.heading, chunk.symbol or ""])
    return MemoryItem(
        id=chunk.id,
        content_summary=chunk.summary,
        content_hash=hashlib.sha256(said.encode()).hexdigest(),
        metadata=metadata,
        created_at=now,
        input_snapshot=MemoryContentSnapshot(text=name),
        provenance=Provenance(kind=SourceKind.FILE, name=name),
        trust=TRUST[SourceKind.FILE],
    )
