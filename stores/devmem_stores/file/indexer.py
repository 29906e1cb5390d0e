"""One pass over the files: changed files are chunked, embedded and stored, then obsolete chunks are deleted.

The process may be killed after any step. New chunks are entered in the manifest as loose (of no file), stored, and
only then recorded with their file, which makes the old ones loose; loose chunks are deleted at the end. So the old
chunks are found until the new ones are stored, and the next pass continues where this one stopped.
"""

from __future__ import annotations

import errno
import hashlib
import math
import os
import stat
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import BinaryIO, Final

from pydantic import JsonValue

from devmem import Filter, MemoryContentSnapshot, MemoryItem, MissingExtraError
from devmem.storage import Collection
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
from devmem.text import UnreadableError
from devmem_stores.file.chunks import VERSION, Chunk, Chunking, Limits
from devmem_stores.file.manifest import Entry, Manifest
from devmem_stores.file.parser import Parser
from devmem_stores.file.sources import Found, Scan

_RACY_NS: Final = 2_000_000_000
"""A file read within this time of its last write may have changed again at the same recorded time."""
_TRIES: Final = 3
_OPEN_FLAGS: Final = (
    os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
)
"""Without waiting: a pipe may have taken the file's place."""
_REPLACED: Final = "was replaced by a link or by something that is not a file after it was listed"


class OversizedError(UnreadableError):
    """A file that is larger than the limits allow."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Recipe:
    """All that a file's chunks depend on besides its content."""

    chunking: Chunking
    limits: Limits

    def chunks(self, encoding: str | None) -> str:
        """Return the recipe of a file that was split into chunks, as text."""
        chunking = self.chunking
        return f"{VERSION}:{chunking.size}:{chunking.overlap}:{chunking.unit}:{encoding or 'auto'}"

    def failure(self, encoding: str | None) -> str:
        """Return the recipe of a file that could not be split: with other limits it is tried again."""
        return f"{self.chunks(encoding)}:{self.limits}"

    def made(self, entry: Entry, encoding: str | None) -> bool:
        """Whether a file was recorded by this recipe."""
        return entry.recipe == (self.failure(encoding) if entry.problem else self.chunks(encoding))


@dataclass(frozen=True, slots=True, kw_only=True)
class Read:
    """A file's content, and the file as it was when it was read."""

    found: Found
    data: bytes
    sha256: str
    checked_ns: int


_WAY_OUT: Final = "mount or restore it, or drop them with `devmem index --drop-missing`"


@dataclass(slots=True, kw_only=True)
class Comparison:
    """Difference between the index and the files, before any file is read."""

    doubtful: list[Found] = field(default_factory=list)
    """Files to read: new, perhaps changed, or to be chunked again."""
    gone: list[str] = field(default_factory=list)
    """Names in the index that no source has any more."""
    unchanged: int = 0
    reasons: list[str] = field(default_factory=list)
    """Why unchanged files are indexed again."""
    problems: dict[str, str] = field(default_factory=dict)
    """Files, folders and sources that could not be examined, and why."""


def compare(scan: Scan, known: Mapping[str, Entry], recipe: Recipe, *, rebuild: bool, drop_missing: bool) -> Comparison:
    """Compare by name, size and time."""
    made = Comparison(problems=dict(scan.problems))
    missing = [name for name in known if name not in scan.files and not scan.hides(name)]
    kept = {} if drop_missing else {name: source for name in missing if (source := scan.empty_source(name)) is not None}
    made.gone = [name for name in missing if name not in kept]
    for source, count in Counter(kept.values()).items():
        problem = scan.problems.get(source, "no file is left in this folder")
        made.problems[source] = f"{problem}; its {count:,} indexed file(s) are kept: {_WAY_OUT}"
    other = 0
    for name, found in scan.files.items():
        entry = known.get(name)
        is_current = entry is not None and recipe.made(entry, found.encoding)
        if entry is not None and entry.recipe and not entry.problem and not is_current:
            other += 1
        if rebuild or entry is None or not is_current or _may_differ(found, entry):
            made.doubtful.append(found)
        else:
            made.unchanged += 1
    if other:
        made.reasons.append(f"{other:,} file(s) are chunked again: chunk size, overlap, unit or encoding changed")
    if rebuild:
        made.reasons.append("every file is read again, as asked for")
    return made


def _may_differ(found: Found, entry: Entry) -> bool:
    same = found.size == entry.size and found.mtime_ns == entry.mtime_ns
    return not same or found.mtime_ns > entry.checked_ns - _RACY_NS


def read(found: Found, limits: Limits) -> Read:
    """Read the file that was listed, again when it changes meanwhile.

    Raises:
        OSError: it cannot be read; FileNotFoundError when it is not there any more.
        OversizedError: it is too large.
        UnreadableError: it does not stop changing, or something else took its place.
    """
    for _ in range(_TRIES):
        checked = time.time_ns()
        with _open(found) as file:
            before = os.fstat(file.fileno())
            if before.st_size > limits.max_bytes:
                raise OversizedError(limits.too_large(before.st_size))
            data = file.read(limits.max_bytes + 1)
            after = os.fstat(file.fileno())
        if (before.st_size, before.st_mtime_ns) == (after.st_size, after.st_mtime_ns) and len(data) == after.st_size:
            now = replace(found, size=after.st_size, mtime_ns=after.st_mtime_ns)
            return Read(found=now, data=data, sha256=hashlib.sha256(data).hexdigest(), checked_ns=checked)
    raise UnreadableError("changes while it is read; it is tried again the next time")


def _open(found: Found) -> BinaryIO:
    """Open the listed file; no link that took its place, or that of a folder above it, leads elsewhere."""
    try:
        descriptor = os.open(found.real, _OPEN_FLAGS)
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise UnreadableError(_REPLACED) from error
        raise
    file = os.fdopen(descriptor, "rb")
    try:
        _check_place(descriptor, found.real)
    except BaseException:
        file.close()
        raise
    return file


def _check_place(descriptor: int, path: str) -> None:
    """Raise unless the opened file is a regular one, and the one at a path that has no links."""
    opened = os.fstat(descriptor)
    is_there = os.path.realpath(path) == path and os.path.samestat(opened, Path(path).stat())
    if not (is_there and stat.S_ISREG(opened.st_mode)):
        raise UnreadableError(_REPLACED)


def plan_index(
    scan: Scan, known: Mapping[str, Entry], recipe: Recipe, *, rebuild: bool = False, drop_missing: bool = False
) -> IndexPlan:
    """Report what an indexing would do: files that may differ are read, nothing is written."""
    made = compare(scan, known, recipe, rebuild=rebuild, drop_missing=drop_missing)
    problems = made.problems
    gone = {known[name].sha256: name for name in made.gone}
    new, changed, renamed, unchanged = [], [], [], made.unchanged
    for found in made.doubtful:
        try:
            content = read(found, recipe.limits)
        except (OSError, UnreadableError) as error:
            problems[found.name] = str(error)
            continue
        entry = known.get(found.name)
        if entry is None and content.sha256 in gone:
            renamed.append((gone.pop(content.sha256), found.name))
        elif entry is None:
            new.append(found.name)
        elif rebuild or entry.sha256 != content.sha256 or not recipe.made(entry, found.encoding):
            changed.append(found.name)
        else:
            unchanged += 1
    old = {name for name, _ in renamed}
    return IndexPlan(
        new=tuple(new),
        changed=tuple(changed),
        renamed=tuple(renamed),
        deleted=tuple(name for name in made.gone if name not in old),
        unchanged=unchanged,
        reasons=tuple(made.reasons),
        problems=problems,
    )


_BATCH_SIZE: Final = 256
"""Number of chunks that are embedded and stored together; small files share a batch."""

Store = Callable[[Sequence[MemoryItem], Mapping[str, PassageEmbeddings]], set[str]]
"""Stores items, and embeds those whose embeddings, by id, are not given; returns the ids that tombstones keep out."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Work:
    """A file that was read and chunked, and those of its chunks that are to be stored."""

    entry: Entry
    ids: list[str]
    had: list[str]
    items: list[MemoryItem]


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
        manifest: Manifest,
        store: Store,
        recipe: Recipe,
        *,
        embeds: bool,
        clock: Callable[[], float],
        known_embeddings: Mapping[str, PassageEmbeddings] | None = None,
    ) -> None:
        """Prepare a pass.

        Args:
            collection: the place of the chunks.
            manifest: the record of the indexed files.
            store: embeds and stores chunks.
            recipe: chunking and limits.
            embeds: whether a model makes embeddings; for the counts only.
            clock: the time in seconds since the epoch.
            known_embeddings: embeddings that are known from elsewhere, by the hash of the text.
        """
        self._collection, self._manifest, self._store = collection, manifest, store
        self._recipe, self._embeds, self._clock = recipe, embeds, clock
        self._parser = Parser(recipe.chunking, recipe.limits)
        self._known_embeddings = dict(known_embeddings or {})
        self._embeddings: dict[str, PassageEmbeddings] = {}
        self._counts = _Counts()
        self._problems: dict[str, str] = {}
        self._guessed: dict[str, str] = {}
        self._waiting: list[_Work] = []
        self._known: dict[str, Entry] = {}
        self._by_content: dict[str, str] = {}
        self._gone: set[str] = set()
        self._progress: IndexProgress | None = None
        self._total = 0

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
        started = time.perf_counter()
        self._recover()
        self._lower_trust()
        self._known = self._manifest.entries()
        self._by_content = {entry.sha256: name for name, entry in self._known.items() if entry.chunks}
        found = compare(scan, self._known, self._recipe, rebuild=rebuild, drop_missing=drop_missing)
        self._problems = found.problems
        self._gone = set(found.gone)
        self._counts.unchanged = found.unchanged
        self._progress, self._total = progress, len(found.doubtful)
        with self._parser:
            for file in found.doubtful:
                self._take(file, rebuild=rebuild)
                self._counts.done += 1
                if sum(len(work.items) for work in self._waiting) >= _BATCH_SIZE or len(self._waiting) >= _BATCH_SIZE:
                    self._flush()
        self._flush()
        self._tidy()
        return self._report(found, time.perf_counter() - started)

    def _recover(self) -> None:
        """Compare the manifest with the collection, which an interrupted pass or someone else may have changed."""
        if self._collection.info().items != self._manifest.chunks():
            self._manifest.reconcile({item.id for item in self._collection.scan()})

    def _lower_trust(self) -> None:
        """Lower to that of files the trust of chunks which devmem 0.1 indexed with full trust; nothing is embedded."""
        above = Filter(min_trust=math.nextafter(TRUST[SourceKind.FILE], 1))
        while found := self._collection.recent(_BATCH_SIZE, above):
            items = [replace(item, trust=TRUST[SourceKind.FILE]) for item in found[::-1]]
            self._store(items, self._collection.embeddings([item.id for item in items]))

    def _take(self, found: Found, *, rebuild: bool) -> None:
        """Read and chunk a file; a failure is reported under its name, and its indexed chunks stay."""
        entry = self._known.get(found.name)
        try:
            content = read(found, self._recipe.limits)
        except FileNotFoundError:
            if entry is not None:
                self._gone.add(found.name)
            return
        except OversizedError as error:
            self._refuse(found, str(error))
            return
        except (OSError, UnreadableError) as error:
            self._problems[found.name] = f"cannot be read: {getattr(error, 'strerror', None) or error}"
            return
        self._counts.files_read += 1
        now = _entry(content, self._recipe.chunks(found.encoding))
        same = entry is not None and entry.sha256 == now.sha256 and self._recipe.made(entry, found.encoding)
        if same and not rebuild:
            self._manifest.touch(now)
            self._counts.unchanged += 1
            return
        self._prepare(content, now)

    def _prepare(self, content: Read, entry: Entry) -> None:
        name = entry.name
        encoding = content.found.encoding
        try:
            parsed = self._parser.parse(name, content.data, encoding)
            made = parsed.chunks
            if parsed.guess:
                self._guessed[name] = parsed.guess
        except (MissingExtraError, OSError) as error:
            self._problems[name] = str(error)
            return
        except UnreadableError as error:
            # Recorded, so that it is not read again until it or the limits change.
            entry, made = replace(entry, recipe=self._recipe.failure(encoding), problem=str(error)), []
        had = self._manifest.ids(name)
        self._note_kind(entry)
        items = list(self._items(name, made, had, entry.sha256))
        self._waiting.append(_Work(entry=entry, ids=[each.id for each in made], had=had, items=items))

    def _refuse(self, found: Found, problem: str) -> None:
        """Record a file that is not even read, and that it has no chunks."""
        entry = Entry(
            name=found.name,
            size=found.size,
            mtime_ns=found.mtime_ns,
            checked_ns=time.time_ns(),
            sha256="",
            recipe=self._recipe.failure(found.encoding),
            problem=problem,
        )
        self._note_kind(entry)
        self._waiting.append(_Work(entry=entry, ids=[], had=self._manifest.ids(found.name), items=[]))

    def _note_kind(self, entry: Entry) -> None:
        twin = self._by_content.get(entry.sha256)
        if entry.name in self._known:
            self._counts.changed.append(entry.name)
        elif twin is not None and twin in self._gone:
            self._counts.renamed.append((twin, entry.name))
        else:
            self._counts.new.append(entry.name)

    def _items(self, name: str, made: Sequence[Chunk], had: Sequence[str], sha256: str) -> Iterator[MemoryItem]:
        """Return the items that are not stored yet, with the embeddings that are known already."""
        there = {item.id: item.content_hash for item in self._collection.get([each.id for each in made])}
        items = [(each.hash, _item_of(name, each, self._clock())) for each in made]
        stale = [(digest, item) for digest, item in items if there.get(item.id) != item.content_hash]
        if not stale:
            return
        twin = self._by_content.get(sha256)
        known = self._embeddings_of([*there, *had, *(self._manifest.ids(twin) if twin and twin != name else ())])
        for digest, item in stale:
            if (embedding := known.get(digest) or self._known_embeddings.get(digest)) is not None:
                self._embeddings[item.id] = replace(embedding, content_hash=item.content_hash)
            yield item

    def _embeddings_of(self, ids: Sequence[str]) -> dict[str, PassageEmbeddings]:
        """Return the embeddings of chunks by the hash of their text."""
        made = self._collection.embeddings(ids)
        return {str(item.metadata.get("chunk_hash")): made[item.id] for item in self._collection.get([*made])}

    def _flush(self) -> None:
        """Store the chunks of the pending files, and record the files."""
        if not self._waiting:
            return
        fresh = [each for work in self._waiting for each in work.ids if each not in set(work.had)]
        self._manifest.intend([work.entry.name for work in self._waiting], fresh)
        items = [item for work in self._waiting for item in work.items]
        kept_out: set[str] = set()
        for start in range(0, len(items), _BATCH_SIZE):
            part = items[start : start + _BATCH_SIZE]
            refused = self._store(part, self._embeddings)
            kept_out |= refused
            self._counts.kept_out += len(refused)
            self._counts.stored += len(part) - len(refused)
            self._counts.embedded += sum(item.id not in self._embeddings for item in part) if self._embeds else 0
            self._tell()
        for work in self._waiting:
            self._manifest.record(work.entry, [each for each in work.ids if each not in kept_out])
        self._waiting.clear()
        self._embeddings.clear()
        self._tell()

    def _tell(self) -> None:
        if self._progress is not None:
            counts = self._counts
            self._progress(
                IndexStep(files=counts.done, total=self._total, chunks=counts.stored, embedded=counts.embedded)
            )

    def _tidy(self) -> None:
        """Delete the chunks that belong to no file any more."""
        if self._gone:
            self._manifest.remove(sorted(self._gone))
        loose = self._manifest.loose()
        if loose:
            self._counts.removed = self._collection.delete(ids=loose)
            self._manifest.forget(loose)

    def _report(self, found: Comparison, seconds: float) -> IndexReport:
        counts, entries = self._counts, self._manifest.entries()
        problems = {entry.name: entry.problem for entry in entries.values() if entry.problem} | self._problems
        old = {name for name, _ in counts.renamed}
        return IndexReport(
            new=tuple(counts.new),
            changed=tuple(counts.changed),
            renamed=tuple(counts.renamed),
            deleted=tuple(sorted(self._gone - old)),
            unchanged=counts.unchanged,
            reasons=tuple(found.reasons),
            problems=problems,
            files=len(entries),
            chunks=self._manifest.chunks(),
            files_read=counts.files_read,
            stored=counts.stored,
            removed=counts.removed,
            embedded=counts.embedded,
            kept_out=counts.kept_out,
            seconds=seconds,
            guessed=self._guessed,
        )


def _entry(content: Read, recipe: str) -> Entry:
    found = content.found
    return Entry(
        name=found.name,
        size=found.size,
        mtime_ns=found.mtime_ns,
        checked_ns=content.checked_ns,
        sha256=content.sha256,
        recipe=recipe,
    )


def _item_of(name: str, chunk: Chunk, now: float) -> MemoryItem:
    """Return the item of a chunk; `now` is in seconds since the epoch.

    The file's name is found by its words, and is no part of the embedded text: a rename needs no new embedding.
    """
    cited = _citation(name, chunk)
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


def _citation(name: str, chunk: Chunk) -> str:
    """Return the place of a chunk: `docs/guide.md:40-62`, or `paper.pdf:page 3` where there are pages."""
    if chunk.page is not None:
        return f"{name}:page {chunk.page}"
    return f"{name}:{chunk.first}" if chunk.first == chunk.last else f"{name}:{chunk.first}-{chunk.last}"
