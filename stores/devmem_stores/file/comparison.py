"""Changes since the last indexing: by size and time first, by content where these leave doubt."""

from __future__ import annotations

import errno
import hashlib
import os
import stat
import time
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import BinaryIO, Final

from devmem.stores import IndexPlan, UnreadableError
from devmem_stores.file.chunking import Chunking
from devmem_stores.file.chunks import VERSION
from devmem_stores.file.limits import Limits
from devmem_stores.file.manifest import Entry
from devmem_stores.file.sources import Found, Scan

_RACY_NS: Final = 2_000_000_000
"""A file read within this time of its last write may have changed again at the same recorded time."""
_TRIES: Final = 3
_OPEN_FLAGS: Final = (
    os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
)
"""Without waiting: a pipe may have taken the file's place."""
_REPLACED: Final = "was replaced by a link or by something that is no file after it was listed"


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


def compare(scan: Scan, known: Mapping[str, Entry], recipe: Recipe, *, rebuild: bool) -> Comparison:
    """Compare by name, size and time."""
    made = Comparison(gone=[name for name in known if name not in scan.files and not scan.hides(name)])
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


def plan(scan: Scan, known: Mapping[str, Entry], recipe: Recipe, *, rebuild: bool = False) -> IndexPlan:
    """Report what an indexing would do: files that may differ are read, nothing is written."""
    made = compare(scan, known, recipe, rebuild=rebuild)
    problems = dict(scan.problems)
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
