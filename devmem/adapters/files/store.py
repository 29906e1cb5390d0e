"""Files in a memory: each an item, with a version that a change can expect."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, TypeAlias
from uuid import uuid4

from pydantic import JsonValue

from devmem import Filter, Memory, MemoryContentSnapshot, MemoryItem, Scope
from devmem.adapters.hosts import collection_of
from devmem.errors import MemoryFileError, VersionConflictError
from devmem.storage import Unique, starts_with, version_hash
from devmem.stores import TRUST, PassageEmbeddings, Provenance, SourceKind
from devmem.text import shorten

VERSION: Final = "file_version"
"""Metadata key of a text that every write changes, so that no two versions of a file are the same."""
PARTS: Final = ("user", "agent", "session", "conversation")
"""Parts of a scope that tell files of the same path apart."""
_SUMMARY: Final = 1_000
"""Characters of a text that is shown whole in lists."""


@dataclass(frozen=True, slots=True)
class MemoryFile:
    """A file that a model keeps in a memory."""

    item: MemoryItem

    @property
    def path(self) -> str:
        """Path of the file, which begins with `ROOT`."""
        return self.item.provenance.name

    @property
    def text(self) -> str:
        """The whole text."""
        kept = self.item.input_snapshot
        return self.item.content_summary if kept is None else kept.text

    @property
    def version(self) -> str:
        """Version that a change can expect; no two writes make the same one."""
        return version_hash(self.item)

    @property
    def size(self) -> int:
        """Number of bytes in UTF-8."""
        return len(self.text.encode())


def file_id(path: str, scope: Scope) -> str:
    """Return the id of the item of a path; in another scope it is another item."""
    named = json.dumps(["file", path, *(getattr(scope, part) for part in PARTS)])
    return hashlib.sha256(named.encode()).hexdigest()[:32]


def new_file(path: str, text: str, scope: Scope, now: float) -> MemoryItem:
    """Return the item of a new file; `now` is in seconds since the epoch."""
    empty = MemoryItem(
        id=file_id(path, scope),
        content_summary="",
        created_at=now,
        scope=scope,
        provenance=Provenance(kind=SourceKind.FILE, name=path),
        # A model wrote it, as it writes whatever else an agent concludes.
        trust=TRUST[SourceKind.NODE],
    )
    return with_text(empty, text, now)


def with_text(item: MemoryItem, text: str, now: float) -> MemoryItem:
    """Return the next version of a file, with another text."""
    summary = shorten(text, _SUMMARY) or item.provenance.name
    snapshot = MemoryContentSnapshot(text=text)
    return _rewritten(replace(item, content_summary=summary, input_snapshot=snapshot, content_hash=""), now)


def with_metadata(item: MemoryItem, values: Mapping[str, JsonValue]) -> MemoryItem:
    """Return an item with some values set; None takes a key out."""
    merged = {**item.metadata, **values}
    return replace(item, metadata={key: value for key, value in merged.items() if value is not None})


def moved(item: MemoryItem, path: str, scope: Scope, now: float) -> MemoryItem:
    """Return the item of a file under another path."""
    provenance = replace(item.provenance, name=path)
    return _rewritten(replace(item, id=file_id(path, scope), provenance=provenance), now)


def ended(item: MemoryItem, now: float) -> MemoryItem:
    """Return the last version of a file, which is not there from `now` on.

    It can be expected to replace another version, in one transaction with other writes, as a deletion cannot.
    """
    return replace(item, expires_at=now)


def _rewritten(item: MemoryItem, now: float) -> MemoryItem:
    return replace(item, created_at=now, embedding=None, metadata={**item.metadata, VERSION: uuid4().hex})


@dataclass(frozen=True, slots=True, kw_only=True)
class FolderLimits:
    """Limits of the files of one scope; a write beyond them is refused and changes nothing."""

    max_chars: int = 100_000
    """Maximum number of characters of one file."""
    max_files: int = 1_000
    """Maximum number of files."""

    def __post_init__(self) -> None:
        if self.max_chars < 1 or self.max_files < 1:
            raise ValueError("the limits of memory files are at least 1")

    def check_text(self, path: str, text: str) -> None:
        """Raise `MemoryFileError` for a text that is too long."""
        if len(text) > self.max_chars:
            raise MemoryFileError(
                f"{path} would have {len(text):,} characters, and {self.max_chars:,} is the maximum of a memory file. "
                "Shorten it, or split it into several files."
            )

    def check_count(self, path: str, count: int) -> None:
        """Raise `MemoryFileError` where a file would be one too many beside `count` others."""
        if count >= self.max_files:
            raise MemoryFileError(
                f"{path} is not created: there are {count:,} memory files, and {self.max_files:,} is the maximum. "
                "Delete files that are no longer needed, or add to an existing one."
            )


ROOT: Final = "/memories"
"""Directory of all memory files."""
_MAX_PATH: Final = 1_024
"""Maximum number of characters of a path."""


def resolved(path: str) -> str:
    """Return a path without empty, `.` and `..` segments, and without a slash at its end.

    Raises:
        MemoryFileError: it is not in `ROOT`, leads out of it, is too long, or has characters that cannot be shown.
    """
    if len(path) > _MAX_PATH:
        raise MemoryFileError(f"A path has at most {_MAX_PATH:,} characters, not {len(path):,}")
    if not path.isprintable():
        raise MemoryFileError(f"Path {path!r} has characters that cannot be shown; use letters, digits, `-`, `_`, `.`")
    if path != ROOT and not path.startswith(f"{ROOT}/"):
        raise MemoryFileError(f"Path must start with {ROOT}, got: {path}")
    kept: list[str] = []
    for segment in path.removeprefix(ROOT).split("/"):
        if segment == "..":
            if not kept:
                raise MemoryFileError(f"Path {path} would escape {ROOT} directory")
            kept.pop()
        elif segment not in ("", "."):
            kept.append(segment)
    return "/".join([ROOT, *kept])


def parents(path: str) -> list[str]:
    """Return the directories above a resolved path, without the root."""
    steps = path.removeprefix(f"{ROOT}/").split("/")
    return ["/".join([ROOT, *steps[:end]]) for end in range(1, len(steps))]


def below(directory: str) -> str:
    """Return what the path of everything in a directory begins with."""
    return f"{directory}/"


Beside: TypeAlias = Callable[[MemoryFile | None], MemoryItem]
"""Returns the item that is stored with a new version of a file; None is its deletion."""

_ATTEMPTS: Final = 50
"""Number of times that a change is made again because somebody else was faster."""


class MemoryFiles:
    """The files of one scope of a memory.

    A file's path is the name of its source, so that searches of the memory find files by name and text. Writes of
    several processes do not overwrite one another: each replaces the version that it was made from. What is deleted or
    replaced stays in the history of the memory, as long as its store keeps versions.

    Paths are resolved ones; see `resolved`.
    """

    def __init__(self, memory: Memory, *, limits: FolderLimits | None = None) -> None:
        """Take the files of a memory, whose scope they never leave; the caller closes it.

        Raises:
            TypeError: the memory is of a store type that keeps no collection, such as `mem0`.
        """
        self.memory = memory.scoped()
        self.limits = limits or FolderLimits()
        self._store = collection_of(memory, "a folder of files")
        self.scope = self.memory.guard.new_scope()
        """Whom the files belong to."""

    def read(self, path: str) -> MemoryFile | None:
        """Return a file; None where there is none."""
        where, now = self.where(), self.now()
        found = [item for item in self._store.get([file_id(path, self.scope)]) if where.admits(item, now)]
        return MemoryFile(found[0]) if found else None

    def within(self, directory: str) -> list[MemoryFile]:
        """Return the files in a directory and below it, ordered by path."""
        found = self._store.scan(self.where(below(directory)))
        return sorted((MemoryFile(item) for item in found), key=lambda file: file.path)

    def paths(self, prefix: str = ROOT, *, limit: int | None = None) -> list[str]:
        """Return the first paths that begin with a prefix, in order."""
        return [str(path) for path in self._store.values("source_name", self.where(prefix), limit=limit)]

    def is_directory(self, path: str) -> bool:
        """Whether there are files below a path; the root is always there."""
        return path == ROOT or bool(self.paths(below(path), limit=1))

    def where(self, prefix: str = ROOT) -> Filter:
        """Return the filter of the files of this scope whose path begins with a prefix."""
        return replace(self._sources(prefix), metadata={VERSION: starts_with("")})

    def _sources(self, prefix: str) -> Filter:
        """Return the filter of what has such a path as its source; what others imported may be among it."""
        unbound = [part for part in PARTS if getattr(self.scope, part) is None]
        found = self.memory.guard.matching(Filter(source_kind=SourceKind.FILE.value, source_name=starts_with(prefix)))
        return replace(found, unbound=tuple(sorted({*found.unbound, *unbound})))

    def write(
        self,
        path: str,
        text: str,
        *,
        expected: str | None,
        metadata: Mapping[str, JsonValue] | None = None,
        beside: Beside | None = None,
    ) -> MemoryFile:
        """Create or replace a file, if it has the expected version still, and return it.

        Args:
            path: of the file.
            text: its whole text.
            expected: version that is replaced; None where there must be no file.
            metadata: values to set on the file's item; None takes a key out.
            beside: returns, for the new version, an item to store in the same transaction, if there is none of its id.

        Raises:
            VersionConflictError: the file has another version, or is not there, or is there already.
            MemoryFileError: the text is too long, there are too many files, or a directory or a file is in the way.
        """
        self.limits.check_text(path, text)
        old = self.read(path)
        self._check(path, old, expected)
        if old is None:
            self._check_place(path)
            self._check_count(path)
            new = new_file(path, text, self.scope, self.now())
        else:
            new = with_text(old.item, text, self.now())
        made = MemoryFile(with_metadata(new, metadata or {}))
        others = [beside(made)] if beside else []
        versions = {**self._no_file(parents(path)), new.id: expected, **_none(others)}
        try:
            self._put([made.item, *others], versions, directory=path if old is None else None)
        except VersionConflictError:
            if old is None:
                # A directory, or a file in the place of one, was faster: the error names it.
                self._check_place(path)
            raise
        return made

    def edit(self, path: str, change: Callable[[str], str]) -> MemoryFile:
        """Change the text of a file and return it; if others change it meanwhile, the change is made to what is there.

        Raises:
            MemoryFileError: there is no such file, or `change` refuses its text.
            VersionConflictError: others kept changing it.
        """
        left = _ATTEMPTS
        while True:
            old = self.existing(path)
            left -= 1
            try:
                return self.write(path, change(old.text), expected=old.version)
            except VersionConflictError:
                if not left:
                    raise

    def existing(self, path: str) -> MemoryFile:
        """Return a file; raise `MemoryFileError` where there is none, or a directory."""
        if (found := self.read(path)) is not None:
            return found
        if self.is_directory(path):
            raise MemoryFileError(f"The path {path} is not a file.")
        raise MemoryFileError(f"The path {path} does not exist. Please provide a valid path.")

    def delete(self, path: str, *, expected: str | None, beside: Beside | None = None) -> None:
        """Delete a file, if it has the expected version still; None where there must be no file.

        `beside` returns, for None, an item to store in the same transaction, if there is none of its id.

        Raises:
            VersionConflictError: the file has another version, or is not there, or is there.
        """
        old = self.read(path)
        self._check(path, old, expected)
        files = [old] if old else []
        others = [beside(None)] if beside else []
        self._put([*self._ended(files), *others], {**_versions(files), **_none(others)})

    def delete_all(self, path: str) -> int:
        """Delete a file, and all files below its path, in one transaction, and return their number.

        Raises:
            VersionConflictError: others kept changing them.
        """
        return self._retried(lambda files: self._put(self._ended(files), _versions(files)), path)

    def rename(self, old: str, new: str) -> int:
        """Move a file or a directory in one transaction, and return the number of files; 0 where there are none.

        Raises:
            MemoryFileError: something is in the way.
            VersionConflictError: others kept changing the files.
        """

        def move(files: Sequence[MemoryFile]) -> None:
            if self.read(new) is not None:
                raise MemoryFileError(f"The destination {new} already exists")
            self._check_place(new)
            targets = [new + file.path.removeprefix(old) for file in files]
            made = [moved(file.item, to, self.scope, self.now()) for file, to in zip(files, targets, strict=True)]
            known = self._store.collection.embeddings([file.item.id for file in files])
            vectors = {
                item.id: known[file.item.id] for item, file in zip(made, files, strict=True) if file.item.id in known
            }
            above = self._no_file([parent for target in targets for parent in parents(target)])
            versions = {**above, **_none(made), **_versions(files)}
            self._put([*made, *self._ended(files)], versions, vectors, directory=new)

        return self._retried(move, old)

    def _retried(self, change: Callable[[Sequence[MemoryFile]], None], path: str) -> int:
        """Change the file of a path and those below it; return their number."""
        left = _ATTEMPTS
        while True:
            file = self.read(path)
            files = [*([file] if file else []), *self.within(path)]
            left -= 1
            try:
                change(files)
            except VersionConflictError:
                if not left:
                    raise
            else:
                return len(files)

    def _check(self, path: str, found: MemoryFile | None, expected: str | None) -> None:
        """Compare a file with the version that is expected; what happens afterwards, the store compares."""
        version = found.version if found else None
        if version != expected:
            raise VersionConflictError(file_id(path, self.scope), expected=expected, found=version)

    def _check_place(self, path: str) -> None:
        """Make sure that there may be a new file or directory; the write compares this again, in its transaction.

        Raises:
            MemoryFileError: a file is where a directory would have to be, or the path is one of a directory.
        """
        for parent in parents(path):
            if self.read(parent) is not None:
                raise MemoryFileError(f"{parent} is a file, not a directory that {path} could be in")
        if self.is_directory(path):
            raise MemoryFileError(f"The path {path} is a directory")

    def _check_count(self, path: str) -> None:
        """Make sure that there may be one file more; most often the count that reads no metadata shows it."""
        if self._store.count(self._sources(ROOT)) >= self.limits.max_files:
            self.limits.check_count(path, self._store.count(self.where()))

    def _no_file(self, paths: Sequence[str]) -> dict[str, str | None]:
        """Return, by the items' ids, that there is no file at any of these paths."""
        return {file_id(path, self.scope): None for path in paths}

    def _ended(self, files: Sequence[MemoryFile]) -> list[MemoryItem]:
        return [ended(file.item, self.now()) for file in files]

    def _put(
        self,
        items: Sequence[MemoryItem],
        expected: Mapping[str, str | None],
        embeddings: Mapping[str, PassageEmbeddings] | None = None,
        *,
        directory: str | None = None,
    ) -> None:
        """Store items in one transaction, if the expected versions are those stored.

        Nothing may be below the path `directory`: whoever makes a file there expects that there is no file of this
        path, so that of both only one succeeds.
        """
        if not items:
            return
        known = {**self._store.stored_embeddings(items), **(embeddings or {})}
        absent = self.where(below(directory)) if directory is not None else None
        self._store.store_items(items, unique=Unique.ID, embeddings=known, expected=expected, absent=absent)

    def now(self) -> float:
        """Return the time by the clock of the memory, in seconds since the epoch."""
        return self._store.setup.clock()


def _versions(files: Sequence[MemoryFile]) -> dict[str, str | None]:
    """Return the versions that are replaced, by the items' ids."""
    return {file.item.id: file.version for file in files}


def _none(items: Sequence[MemoryItem]) -> dict[str, str | None]:
    """Return, by the items' ids, that there is none of them."""
    return dict.fromkeys(item.id for item in items)
