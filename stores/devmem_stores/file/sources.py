"""Listing and reading the files of the sources: each once, nothing outside a source, unreadable folders by name."""

from __future__ import annotations

import errno
import glob
import hashlib
import os
import re
import stat
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import BinaryIO, Final, TypeAlias

from pathspec import GitIgnoreSpec

from devmem.errors import OversizedError, UnreadableError
from devmem.text.files import expanded
from devmem_stores.file.chunks import ParseLimits
from devmem_stores.file.config import FileSource

_Layer: TypeAlias = tuple[Path, GitIgnoreSpec]
"""Patterns, and the folder that they are relative to."""


def _is_ignored(path: Path, layers: Sequence[_Layer], *, is_folder: bool) -> bool:
    """Whether the first patterns that match a path leave it out."""
    for folder, spec in layers:
        verdict = spec.check_file(path.relative_to(folder).as_posix() + "/" * is_folder).include
        if verdict is not None:
            return verdict
    return False


def _ignored_in(folder: Path) -> list[_Layer]:
    """Return the patterns of a folder's `.gitignore`, if it has one; raises `OSError` when it cannot be read."""
    file = folder / ".gitignore"
    if not file.is_file():
        return []
    return [(folder, GitIgnoreSpec.from_lines(file.read_text("utf-8", errors="replace").splitlines()))]


def _ignored_above(root: Path, scan: Scan) -> list[_Layer] | None:
    """Return the patterns above a source, up to the repository that it is in, innermost first; None on a failure."""
    folders = [root, *root.parents]
    repository = next((at for at, folder in enumerate(folders) if (folder / ".git").exists()), 0)
    try:
        return [layer for folder in folders[1 : repository + 1] for layer in _ignored_in(folder)]
    except OSError as error:
        scan.problems[str(root)] = f"a .gitignore cannot be read: {error}"
        return None


DEFAULT_TYPES: Final = frozenset(
    """.md .markdown .mdx .txt .text .rst .adoc .org .tex .log .html .htm .xhtml .pdf .docx .csv .tsv .jsonl .ndjson
    .json .yaml .yml .toml .ini .cfg .conf .xml .py .pyi .js .jsx .mjs .cjs .ts .tsx .java .kt .kts .scala .go .rs .c .h
    .cc .cpp .cxx .hpp .hh .cs .rb .php .swift .m .lua .pl .r .jl .ex .exs .erl .hs .ml .clj .dart .sh .bash .zsh .ps1
    .sql .proto .graphql .vue .svelte .css .scss""".split()
)
"""Suffixes that are indexed when a source names none."""
_WILDCARD: Final = re.compile(r"\*\*/?|\*|\?|\[!?[^\]]+\]")
_EXCLUDED: Final = frozenset(
    """.git .hg .svn .devmem __pycache__ node_modules .venv .tox .mypy_cache .ruff_cache .pytest_cache .hypothesis
    .idea""".split()
)
"""Folders that hold no documents; a source may still name one itself."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceFile:
    """A file of a source."""

    name: str
    """The path as the source writes it: the file's name in the index and in citations."""
    path: Path
    real: str
    """The path without links, when the file was listed."""
    size: int
    mtime_ns: int
    encoding: str | None


@dataclass(slots=True)
class Scan:
    """Result of listing all sources."""

    files: dict[str, SourceFile] = field(default_factory=dict)
    """By name."""
    problems: dict[str, str] = field(default_factory=dict)
    """Files and folders that could not be examined, by name, and why."""
    unseen: list[str] = field(default_factory=list)
    """Names of folders that could not be listed: their files stay in the index."""
    empty: dict[str, str] = field(default_factory=dict)
    """Sources without any file, such as a disk that is not mounted, each with the name that its files begin with."""

    def hides(self, name: str) -> bool:
        """Whether a file of this name may exist, though it was not seen."""
        return any(is_below(name, folder) for folder in self.unseen)

    def empty_source(self, name: str) -> str | None:
        """Return the source without any file that a file of this name belongs to."""
        return next((source for source, top in self.empty.items() if name == top or is_below(name, top)), None)


class Sources:
    """The sources of one store."""

    def __init__(self, sources: Sequence[FileSource], base_dir: Path, own: Sequence[str]) -> None:
        """Prepare to list the sources.

        Args:
            sources: from the configuration.
            base_dir: where relative paths start.
            own: prefixes of the absolute paths of the index's own files, which are never indexed.
        """
        self._sources, self._base = sources, base_dir.absolute()
        self._own = tuple(os.path.realpath(path) for path in own)

    def scan(self) -> Scan:
        """List all sources; no file is read."""
        scan, seen = Scan(), set[str]()
        for source in self._sources:
            is_empty = True
            for found in self._files(source, scan):
                is_empty = False
                if found.real in seen or self._is_own(found.real):
                    continue
                seen.add(found.real)
                if scan.files.setdefault(found.name, found) is not found:
                    scan.problems[found.name] = "another file has the same name in the index; rename one of them"
            if is_empty:
                scan.empty[source.path] = _readable(Path(os.path.normpath(_fixed_part(source.path))).as_posix())
        return scan

    def roots(self) -> list[tuple[Path, bool]]:
        """Return the folders to watch, each with whether its subfolders are watched too."""
        roots: dict[Path, bool] = {}
        for source in self._sources:
            path = self._absolute(_fixed_part(source.path))
            folder = path if path.is_dir() else path.parent
            if folder.is_dir():
                deep = path.is_dir() and (source.recursive or glob.has_magic(source.path))
                roots[folder] = roots.get(folder, False) or deep
        return list(roots.items())

    def missing_above(self, folder: Path) -> Path | None:
        """Return the source that does not exist and is a folder or above it; None where there is none."""
        paths = (self._absolute(source.path) for source in self._sources)
        return next((path for path in paths if not path.exists() and path in (folder, *folder.parents)), None)

    def has_file(self, name: str) -> bool:
        """Whether a file of the index is there."""
        return bool(name) and self._absolute(name).is_file()

    def _is_own(self, real: str) -> bool:
        return any(real == own or (real.startswith(own) and real[len(own)] in "-./") for own in self._own)

    def _absolute(self, path: str) -> Path:
        return self._base / expanded(path)

    def _files(self, source: FileSource, scan: Scan) -> Iterator[SourceFile]:
        if glob.has_magic(source.path) and not self._absolute(source.path).exists():
            yield from self._matching(source, scan)
            return
        path = self._absolute(source.path)
        if path.is_dir():
            yield from self._below(path, os.path.normpath(source.path), source, scan)
        elif path.is_file():
            # Whoever names a file means it, whatever its ending is.
            if source.file_types is None or _has_type(path, source):
                yield from self._found(path, os.path.normpath(source.path), source, scan)
        else:
            scan.problems[source.path] = "there is no such file or folder"

    def _matching(self, source: FileSource, scan: Scan) -> Iterator[SourceFile]:
        """Walk the folder before the first wildcard; the pattern is never expanded, links would make it endless."""
        fixed = _fixed_part(source.path)
        matches = _pattern(Path(source.path).relative_to(fixed).as_posix(), deep=source.recursive)
        walked = source.model_copy(update={"recursive": True})
        none = True
        if self._absolute(fixed).is_dir():
            for found in self._below(self._absolute(fixed), os.path.normpath(fixed), walked, scan):
                if matches.fullmatch(found.path.relative_to(self._absolute(fixed)).as_posix()):
                    none = False
                    yield found
        if none:
            scan.problems[source.path] = "no file matches this pattern"

    def _below(self, root: Path, name: str, source: FileSource, scan: Scan) -> Iterator[SourceFile]:
        """Walk a folder, entries in order; a link that leads out of the source is not followed."""
        exclude: list[_Layer] = [(root, GitIgnoreSpec.from_lines(source.exclude))]
        above = _ignored_above(root, scan) if source.gitignore else None
        real_root = os.path.realpath(root)
        waiting = [(root, name, above)]
        walked = {real_root}
        while waiting:
            folder, folder_name, layers = waiting.pop()
            try:
                # A deeper `.gitignore` takes precedence, as in git.
                layers = None if layers is None else [*_ignored_in(folder), *layers]
                entries = sorted(os.scandir(folder), key=lambda entry: entry.name)
            except OSError as error:
                scan.problems[_readable(folder_name)] = f"the folder cannot be listed: {error.strerror or error}"
                scan.unseen.append(_readable(folder_name))
                continue
            deeper = []
            for entry in entries:
                path, entry_name = Path(entry.path), os.path.normpath(f"{folder_name}/{entry.name}")
                if entry.is_symlink() and not Path(os.path.realpath(path)).is_relative_to(real_root):
                    continue
                is_folder = _is_folder(entry, entry_name, scan)
                if is_folder is None or any(
                    _is_ignored(path, each, is_folder=is_folder) for each in (exclude, layers or ())
                ):
                    continue
                if not is_folder:
                    if _has_type(path, source):
                        yield from self._found(path, entry_name, source, scan)
                elif source.recursive and entry.name not in _EXCLUDED:
                    real = os.path.realpath(path)
                    if real not in walked:
                        walked.add(real)
                        deeper.append((path, entry_name, layers))
            waiting += reversed(deeper)

    def _found(self, path: Path, name: str, source: FileSource, scan: Scan) -> Iterator[SourceFile]:
        name = _readable(Path(name).as_posix())
        try:
            status = path.stat()
        except FileNotFoundError:
            return  # deleted since its folder was listed, or a link to nothing
        except OSError as error:
            scan.problems[name] = f"cannot be examined: {error.strerror or error}"
            scan.unseen.append(name)
            return
        if stat.S_ISREG(status.st_mode):
            yield SourceFile(
                name=name,
                path=path,
                real=os.path.realpath(path),
                size=status.st_size,
                mtime_ns=status.st_mtime_ns,
                encoding=source.encoding,
            )


def is_below(name: str, folder: str) -> bool:
    """Whether a file's name in the index is below a folder's; `.` is the workflow's folder."""
    if folder == ".":
        return not (name.startswith("../") or Path(name).is_absolute())
    return name.startswith(folder if folder.endswith("/") else f"{folder}/")


def _is_folder(entry: os.DirEntry[str], name: str, scan: Scan) -> bool | None:
    """Whether an entry is a folder; None for one that cannot be examined, such as a link to itself."""
    try:
        return entry.is_dir()
    except OSError as error:
        scan.problems[_readable(name)] = f"cannot be examined: {error.strerror or error}"
        return None


def _readable(name: str) -> str:
    """Return a name as text; bytes of it that are no UTF-8 are written as a backslash, x, and two hex digits."""
    return os.fsencode(name).decode("utf-8", "backslashreplace")


def _fixed_part(pattern: str) -> str:
    """Return the part of a pattern before its first wildcard, whole folders only."""
    parts: list[str] = []
    for part in Path(pattern).parts:
        if glob.has_magic(part):
            return str(Path(*parts)) if parts else "."
        parts.append(part)
    return pattern


def _pattern(pattern: str, *, deep: bool) -> re.Pattern[str]:
    """Translate a pattern: `*` and `?` stay within a folder, `**/` is any number of folders."""
    regex, at = "", 0
    for match in _WILDCARD.finditer(pattern):
        regex += re.escape(pattern[at : match.start()])
        wildcard = match[0]
        if wildcard.startswith("**"):
            regex += (r"(?:[^/]+/)*" if wildcard.endswith("/") else r".*") if deep else r"[^/]*" + wildcard[2:]
        elif wildcard.startswith("["):
            regex += wildcard.replace("[!", "[^", 1)
        else:
            regex += r"[^/]*" if wildcard == "*" else r"[^/]"
        at = match.end()
    return re.compile(regex + re.escape(pattern[at:]))


def _has_type(path: Path, source: FileSource) -> bool:
    name = path.name.lower()
    if source.file_types is None:
        return path.suffix.lower() in DEFAULT_TYPES
    return any(name.endswith(suffix) for suffix in source.file_types)


_TRIES: Final = 3
_OPEN_FLAGS: Final = (
    os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
)
"""Without waiting: a pipe may have taken the file's place."""
_REPLACED: Final = "was replaced by a link or by something that is not a file after it was listed"


@dataclass(frozen=True, slots=True, kw_only=True)
class Read:
    """A file's content, and the file as it was when it was read."""

    found: SourceFile
    data: bytes
    sha256: str
    checked_ns: int


def read(found: SourceFile, limits: ParseLimits) -> Read:
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
                raise OversizedError(f"has {before.st_size:,} bytes, more than limits.max_bytes = {limits.max_bytes:,}")
            data = file.read(limits.max_bytes + 1)
            after = os.fstat(file.fileno())
        if (before.st_size, before.st_mtime_ns) == (after.st_size, after.st_mtime_ns) and len(data) == after.st_size:
            now = replace(found, size=after.st_size, mtime_ns=after.st_mtime_ns)
            return Read(found=now, data=data, sha256=hashlib.sha256(data).hexdigest(), checked_ns=checked)
    raise UnreadableError("changes while it is read; it is tried again the next time")


def _open(found: SourceFile) -> BinaryIO:
    """Open the listed file; no link that took its place, or that of a folder above it, leads elsewhere."""
    try:
        descriptor = os.open(found.real, _OPEN_FLAGS)
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise UnreadableError(_REPLACED) from error
        raise
    file = os.fdopen(descriptor, "rb")
    try:
        # A regular file, and the one at the path, which has no links.
        opened, path = os.fstat(descriptor), found.real
        is_there = os.path.realpath(path) == path and os.path.samestat(opened, Path(path).stat())
    except BaseException:
        file.close()
        raise
    if not (is_there and stat.S_ISREG(opened.st_mode)):
        file.close()
        raise UnreadableError(_REPLACED)
    return file
