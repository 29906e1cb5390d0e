"""Text files that a model keeps in a memory, for the hosts whose memory is a folder of files.

They need no framework: an adapter puts a host's tools on top of `FileCommands`, or of `MemoryFiles` itself. A file is
an item, with a version that a change can expect.
"""

from __future__ import annotations

import functools
import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Concatenate, Final, ParamSpec, TypeAlias, TypeVar
from uuid import uuid4

from pydantic import JsonValue

from devmem import Filter, Memory, MemoryContentSnapshot, MemoryItem, Scope
from devmem.adapters.hosts import AGENT_TRUST, SUMMARY_LENGTH, collection_of
from devmem.errors import MemoryFileError, VersionConflictError
from devmem.storage import Unique, starts_with, version_hash
from devmem.stores import PassageEmbeddings, Provenance, SourceKind
from devmem.text import shorten

__all__ = ["ROOT", "Beside", "FileCommands", "FolderLimits", "MemoryFile", "MemoryFiles", "resolved"]

ROOT: Final = "/memories"
"""Directory of all memory files."""
_VERSION: Final = "file_version"
"""Metadata key of a text that every write changes, so that no two versions of a file are the same."""
_PARTS: Final = ("user", "agent", "session", "conversation")
"""Parts of a scope that tell files of the same path apart."""
_MAX_PATH: Final = 1_024
"""Maximum number of characters of a path."""
_ATTEMPTS: Final = 50
"""Number of times that a change is made again because somebody else was faster."""

P = ParamSpec("P")
T = TypeVar("T")


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


Beside: TypeAlias = Callable[[MemoryFile | None], MemoryItem]
"""Returns the item that is stored with a new version of a file; None is its deletion."""


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


def _parents(path: str) -> list[str]:
    """Return the directories above a resolved path, without the root."""
    steps = path.removeprefix(f"{ROOT}/").split("/")
    return ["/".join([ROOT, *steps[:end]]) for end in range(1, len(steps))]


def _file_id(path: str, scope: Scope) -> str:
    """Return the id of the item of a path; in another scope it is another item."""
    named = json.dumps(["file", path, *(getattr(scope, part) for part in _PARTS)])
    return hashlib.sha256(named.encode()).hexdigest()[:32]


def _next_version(item: MemoryItem, now: float, **changes: Any) -> MemoryItem:
    metadata = {**item.metadata, _VERSION: uuid4().hex}
    return replace(item, created_at=now, embedding=None, metadata=metadata, **changes)


def _retried(
    change: Callable[Concatenate[MemoryFiles, P], T],
) -> Callable[Concatenate[MemoryFiles, P], T]:
    """Return a change that is made again, to what is there then, where somebody else was faster."""

    @functools.wraps(change)
    def changing(files: MemoryFiles, /, *arguments: P.args, **named: P.kwargs) -> T:
        for _ in range(_ATTEMPTS - 1):
            try:
                return change(files, *arguments, **named)
            except VersionConflictError:
                continue
        return change(files, *arguments, **named)

    return changing


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
        found = [item for item in self._store.get([_file_id(path, self.scope)]) if where.admits(item, now)]
        return MemoryFile(found[0]) if found else None

    def within(self, directory: str) -> list[MemoryFile]:
        """Return the files in a directory and below it, ordered by path."""
        found = self._store.scan(self.where(f"{directory}/"))
        return sorted((MemoryFile(item) for item in found), key=lambda file: file.path)

    def paths(self, prefix: str = ROOT, *, limit: int | None = None) -> list[str]:
        """Return the first paths that begin with a prefix, in order."""
        return [str(path) for path in self._store.values("source_name", self.where(prefix), limit=limit)]

    def is_directory(self, path: str) -> bool:
        """Whether there are files below a path; the root is always there."""
        return path == ROOT or bool(self.paths(f"{path}/", limit=1))

    def where(self, prefix: str = ROOT) -> Filter:
        """Return the filter of the files of this scope whose path begins with a prefix."""
        files = Filter(
            source_kind=SourceKind.FILE.value, source_name=starts_with(prefix), metadata={_VERSION: starts_with("")}
        )
        found = self.memory.guard.matching(files)
        unbound = {part for part in _PARTS if getattr(self.scope, part) is None}
        return replace(found, unbound=tuple(sorted({*found.unbound, *unbound})))

    def now(self) -> float:
        """Return the time by the clock of the memory, in seconds since the epoch."""
        return self._store.setup.clock()

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
        old = self._expected(path, expected)
        self._check_limits(path, text, is_new=old is None)
        if old is None:
            self._check_place(path)
        # A model wrote it, as it writes whatever else an agent concludes.
        empty = MemoryItem(
            id=_file_id(path, self.scope),
            content_summary="",
            scope=self.scope,
            provenance=Provenance(kind=SourceKind.FILE, name=path),
            trust=AGENT_TRUST,
        )
        item = _next_version(
            old.item if old else empty,
            self.now(),
            content_summary=shorten(text, SUMMARY_LENGTH) or path,
            input_snapshot=MemoryContentSnapshot(text=text),
            content_hash="",
        )
        values = {**item.metadata, **(metadata or {})}
        kept = {key: value for key, value in values.items() if value is not None}
        made = MemoryFile(replace(item, metadata=kept))
        others = [beside(made)] if beside else []
        versions = {**self._no_files(_parents(path)), item.id: expected, **_none(others)}
        try:
            self._put([made.item, *others], versions, directory=path if old is None else None)
        except VersionConflictError:
            if old is None:
                # A directory, or a file in the place of one, was faster: the error names it.
                self._check_place(path)
            raise
        return made

    @_retried
    def edit(self, path: str, change: Callable[[str], str]) -> MemoryFile:
        """Change the text of a file and return it; if others change it meanwhile, the change is made to what is there.

        Raises:
            MemoryFileError: there is no such file, or `change` refuses its text.
            VersionConflictError: others kept changing it.
        """
        old = self.read(path)
        if old is None and self.is_directory(path):
            raise MemoryFileError(f"The path {path} is not a file.")
        if old is None:
            raise MemoryFileError(f"The path {path} does not exist. Please provide a valid path.")
        return self.write(path, change(old.text), expected=old.version)

    def delete(self, path: str, *, expected: str | None, beside: Beside | None = None) -> None:
        """Delete a file, if it has the expected version still; None where there must be no file.

        `beside` returns, for None, an item to store in the same transaction, if there is none of its id.

        Raises:
            VersionConflictError: the file has another version, or is not there, or is there.
        """
        old = self._expected(path, expected)
        others = [beside(None)] if beside else []
        self._end([old] if old else [], others, _none(others))

    @_retried
    def delete_all(self, path: str) -> int:
        """Delete a file, and all files below its path, in one transaction, and return their number.

        Raises:
            VersionConflictError: others kept changing them.
        """
        files = self._all(path)
        self._end(files)
        return len(files)

    @_retried
    def rename(self, old: str, new: str) -> int:
        """Move a file or a directory in one transaction, and return the number of files; 0 where there are none.

        Raises:
            MemoryFileError: something is in the way.
            VersionConflictError: others kept changing the files.
        """
        files, now = self._all(old), self.now()
        if self.read(new) is not None:
            raise MemoryFileError(f"The destination {new} already exists")
        self._check_place(new)
        known = self._store.collection.embeddings([file.item.id for file in files])
        made, vectors, parents = list[MemoryItem](), dict[str, PassageEmbeddings](), list[str]()
        for file in files:
            path = new + file.path.removeprefix(old)
            source = replace(file.item.provenance, name=path)
            made.append(_next_version(file.item, now, id=_file_id(path, self.scope), provenance=source))
            parents += _parents(path)
            if file.item.id in known:
                vectors[made[-1].id] = known[file.item.id]
        self._end(files, made, {**self._no_files(parents), **_none(made)}, vectors, directory=new)
        return len(files)

    def _all(self, path: str) -> list[MemoryFile]:
        """Return the file of a path and those below it."""
        file = self.read(path)
        return [*([file] if file else []), *self.within(path)]

    def _expected(self, path: str, expected: str | None) -> MemoryFile | None:
        """Return a file that has the expected version; what happens afterwards, the store compares."""
        found = self.read(path)
        version = found.version if found else None
        if version != expected:
            raise VersionConflictError(_file_id(path, self.scope), expected=expected, found=version)
        return found

    def _check_limits(self, path: str, text: str, *, is_new: bool) -> None:
        """Raise `MemoryFileError` for a text that is too long, or for a new file that is one too many."""
        if len(text) > self.limits.max_chars:
            raise MemoryFileError(
                f"{path} would have {len(text):,} characters, and {self.limits.max_chars:,} is the maximum of a memory "
                "file. Shorten it, or split it into several files."
            )
        if is_new and (count := self._store.count(self.where())) >= self.limits.max_files:
            raise MemoryFileError(
                f"{path} is not created: there are {count:,} memory files, and {self.limits.max_files:,} is the "
                "maximum. Delete files that are no longer needed, or add to an existing one."
            )

    def _check_place(self, path: str) -> None:
        """Make sure that there may be a new file or directory; the write compares this again, in its transaction.

        Raises:
            MemoryFileError: a file is where a directory would have to be, or the path is one of a directory.
        """
        for parent in _parents(path):
            if self.read(parent) is not None:
                raise MemoryFileError(f"{parent} is a file, not a directory that {path} could be in")
        if self.is_directory(path):
            raise MemoryFileError(f"The path {path} is a directory")

    def _no_files(self, paths: Sequence[str]) -> dict[str, str | None]:
        """Return, by the items' ids, that there is no file at any of these paths."""
        return {_file_id(path, self.scope): None for path in paths}

    def _end(
        self,
        files: Sequence[MemoryFile],
        others: Sequence[MemoryItem] = (),
        expected: Mapping[str, str | None] | None = None,
        embeddings: Mapping[str, PassageEmbeddings] | None = None,
        *,
        directory: str | None = None,
    ) -> None:
        """End files, and store other items, in one transaction.

        The last version of a file expires now: unlike a deletion, it can be expected to replace another version.
        """
        now = self.now()
        versions = {**(expected or {}), **{file.item.id: file.version for file in files}}
        ended = [replace(file.item, expires_at=now) for file in files]
        self._put([*others, *ended], versions, embeddings, directory=directory)

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
        if items:
            known = {**self._store.stored_embeddings(items), **(embeddings or {})}
            absent = self.where(f"{directory}/") if directory is not None else None
            self._store.store_items(items, unique=Unique.ID, embeddings=known, expected=expected, absent=absent)


def _none(items: Sequence[MemoryItem]) -> dict[str, str | None]:
    """Return, by the items' ids, that there is none of them."""
    return dict.fromkeys(item.id for item in items)


# The commands with which models edit memory files, worded as models know them.

_MAX_LINES: Final = 999_999
"""Maximum number of lines of a file that is shown."""
_CONTEXT: Final = 2
"""Lines that are shown before and after a change."""
_LEVELS: Final = 2
"""Levels of a directory that are listed."""
_UNITS: Final = "BKMG"


class FileCommands:
    """Views and changes files by paths as a model writes them.

    Every command returns what the model is told. What it got wrong is a `MemoryFileError`, whose text says how it is
    done right; a memory that fails is a `CollectionError`, as everywhere.
    """

    def __init__(self, memory: Memory, *, limits: FolderLimits | None = None) -> None:
        """Take the files of a memory, whose scope no path leaves; the caller closes it.

        Raises:
            TypeError: the memory is of a store type that keeps no collection, such as `mem0`.
        """
        self.files = MemoryFiles(memory, limits=limits)

    def view(self, path: str, view_range: Sequence[int] | None = None) -> str:
        """Return a file with line numbers, or the entries of a directory with their sizes, two levels deep.

        Args:
            path: of a file or a directory.
            view_range: first and last line of a file to return, counted from 1; -1 is its end.
        """
        place = resolved(path)
        if (file := self.files.read(place)) is not None:
            return f"Here's the content of {path} with line numbers:\n{_excerpt(path, file.text, view_range)}"
        files = self.files.within(place)
        if not files and place != ROOT:
            raise MemoryFileError(f"The path {path} does not exist. Please provide a valid path.")
        sizes: dict[str, int] = {place: sum(file.size for file in files)}
        for file in files:
            steps = file.path.removeprefix(f"{place}/").split("/")
            for level, step in enumerate(steps[:_LEVELS], 1):
                if step.startswith("."):
                    break
                entry = f"{place}/" + "/".join(steps[:level]) + ("/" if level < len(steps) else "")
                sizes[entry] = sizes.get(entry, 0) + file.size
        header = f"Here're the files and directories up to {_LEVELS} levels deep in {path}, excluding hidden items:"
        return "\n".join([header, *(f"{_size(size)}\t{entry}" for entry, size in sorted(sizes.items()))])

    def create(self, path: str, file_text: str) -> str:
        """Create a file; one that is there already is not replaced."""
        place = _file_place(path)
        try:
            self.files.write(place, file_text, expected=None)
        except VersionConflictError as error:
            raise MemoryFileError(f"File {path} already exists; change it with `str_replace` or `insert`.") from error
        return f"File created successfully at: {path}"

    def str_replace(self, path: str, old_str: str, new_str: str) -> str:
        """Replace a text that occurs once in a file."""
        if not old_str:
            raise MemoryFileError("No replacement was performed, old_str is empty; use `insert` to add lines.")
        line = 0

        def change(text: str) -> str:
            nonlocal line
            # Overlapping occurrences too.
            lines = [text.count("\n", 0, at) + 1 for at in range(len(text)) if text.startswith(old_str, at)]
            if not lines:
                raise MemoryFileError(
                    f"No replacement was performed, old_str `{old_str}` did not appear verbatim in {path}."
                )
            if len(lines) > 1:
                raise MemoryFileError(
                    f"No replacement was performed. Multiple occurrences of old_str `{old_str}` in lines: "
                    f"{', '.join(map(str, lines))}. Please ensure it is unique"
                )
            line = lines[0]
            return text.replace(old_str, new_str)

        made = self.files.edit(_file_place(path), change)
        first = max(1, line - _CONTEXT)
        snippet = _numbered(made.text.split("\n")[first - 1 : line + _CONTEXT], first)
        return (
            f"The memory file has been edited. Here is the snippet showing the change (with line numbers):\n{snippet}"
        )

    def insert(self, path: str, insert_line: int, insert_text: str) -> str:
        """Insert lines behind the line of a number; 0 is the start of the file."""

        def change(text: str) -> str:
            lines = text.removesuffix("\n").split("\n") if text else []
            if not 0 <= insert_line <= len(lines):
                raise MemoryFileError(
                    f"Invalid `insert_line` parameter: {insert_line}. It should be within the range [0, {len(lines)}]."
                )
            lines[insert_line:insert_line] = insert_text.removesuffix("\n").split("\n")
            return "\n".join(lines) + "\n"

        self.files.edit(_file_place(path), change)
        return f"The file {path} has been edited."

    def delete(self, path: str) -> str:
        """Delete a file, or a directory with everything in it."""
        place = resolved(path)
        if place == ROOT:
            raise MemoryFileError(f"Cannot delete the {ROOT} directory itself")
        if not self.files.delete_all(place):
            raise MemoryFileError(f"The path {path} does not exist")
        return f"Successfully deleted {path}"

    def rename(self, old_path: str, new_path: str) -> str:
        """Move a file or a directory to a path where nothing is."""
        old, new = resolved(old_path), resolved(new_path)
        if ROOT in (old, new):
            raise MemoryFileError(f"Cannot rename the {ROOT} directory itself, or put something in its place")
        if new.startswith(f"{old}/"):
            raise MemoryFileError(f"Cannot move {old_path} into itself")
        if self.files.is_directory(new):
            raise MemoryFileError(f"The destination {new_path} already exists")
        if not self.files.rename(old, new):
            raise MemoryFileError(f"The path {old_path} does not exist")
        return f"Successfully renamed {old_path} to {new_path}"

    def clear(self) -> str:
        """Delete all files."""
        self.files.delete_all(ROOT)
        return "All memory cleared"


def _file_place(path: str) -> str:
    """Return the resolved path of a file."""
    place = resolved(path)
    if place == ROOT or path.endswith("/"):
        raise MemoryFileError(f"{path} is a directory; name a file in it, such as {place}/notes.md")
    return place


def _excerpt(path: str, text: str, view_range: Sequence[int] | None) -> str:
    """Return a text with line numbers, or its lines from the first to the last of a range; -1 is the end.

    Raises:
        MemoryFileError: the text has too many lines, or the range is none of this text.
    """
    lines = text.split("\n")
    if len(lines) > _MAX_LINES:
        raise MemoryFileError(f"File {path} exceeds maximum line limit of {_MAX_LINES:,} lines.")
    if not view_range:
        return _numbered(lines)
    first, last = view_range if len(view_range) == 2 else (0, 0)
    last = len(lines) if last == -1 else last
    if not 1 <= first <= min(last, len(lines)):
        raise MemoryFileError(
            f"Invalid `view_range` parameter: {list(view_range)}. It should be [first, last] with "
            f"1 <= first <= last, or -1 for the end; the file has {len(lines)} lines."
        )
    return _numbered(lines[first - 1 : last], first)


def _numbered(lines: Sequence[str], first: int = 1) -> str:
    return "\n".join(f"{number:>{len(str(_MAX_LINES))}}\t{line}" for number, line in enumerate(lines, first))


def _size(count: int) -> str:
    """Return a number of bytes as `12B` or `1.5K`."""
    unit, value = 0, float(count)
    while value >= 1024 and unit < len(_UNITS) - 1:
        unit, value = unit + 1, value / 1024
    return f"{value:.1f}".removesuffix(".0") + _UNITS[unit]
