"""Changes since the last indexing: by size and time first, by content where these leave doubt."""

from __future__ import annotations

import hashlib
import os
import time
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Final

from devmem.stores import IndexPlan
from devmem_stores.file.chunking import Chunking
from devmem_stores.file.chunks import VERSION
from devmem_stores.file.encoding import UnreadableError
from devmem_stores.file.manifest import Entry
from devmem_stores.file.sources import Found, Scan

_RACY_NS: Final = 2_000_000_000
"""A file read within this time of its last write may have changed again at the same recorded time."""
_TRIES: Final = 3


def recipe_of(chunking: Chunking, encoding: str | None) -> str:
    """Return a text of all that a file's chunks depend on besides its content."""
    return f"{VERSION}:{chunking.size}:{chunking.overlap}:{chunking.unit}:{encoding or 'auto'}"


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


def compare(scan: Scan, known: Mapping[str, Entry], chunking: Chunking, *, rebuild: bool) -> Comparison:
    """Compare by name, size and time."""
    made = Comparison(gone=[name for name in known if name not in scan.files and not scan.hides(name)])
    other = 0
    for name, found in scan.files.items():
        entry = known.get(name)
        recipe = recipe_of(chunking, found.encoding)
        if entry is not None and entry.recipe not in ("", recipe):
            other += 1
        if rebuild or entry is None or entry.recipe != recipe or _may_differ(found, entry):
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


def read(found: Found) -> Read:
    """Read a file, again when it changes meanwhile.

    Raises:
        OSError: it cannot be read; FileNotFoundError when it is not there any more.
        UnreadableError: it does not stop changing.
    """
    for _ in range(_TRIES):
        checked = time.time_ns()
        with found.path.open("rb") as file:
            before = os.fstat(file.fileno())
            data = file.read()
            after = os.fstat(file.fileno())
        if (before.st_size, before.st_mtime_ns) == (after.st_size, after.st_mtime_ns) and len(data) == after.st_size:
            now = replace(found, size=after.st_size, mtime_ns=after.st_mtime_ns)
            return Read(found=now, data=data, sha256=hashlib.sha256(data).hexdigest(), checked_ns=checked)
    raise UnreadableError("changes while it is read; it is tried again the next time")


def plan(scan: Scan, known: Mapping[str, Entry], chunking: Chunking, *, rebuild: bool = False) -> IndexPlan:
    """Report what an indexing would do: files that may differ are read, nothing is written."""
    made = compare(scan, known, chunking, rebuild=rebuild)
    problems = dict(scan.problems)
    gone = {known[name].sha256: name for name in made.gone}
    new, changed, renamed, unchanged = [], [], [], made.unchanged
    for found in made.doubtful:
        try:
            content = read(found)
        except (OSError, UnreadableError) as error:
            problems[found.name] = str(error)
            continue
        entry = known.get(found.name)
        if entry is None and content.sha256 in gone:
            renamed.append((gone.pop(content.sha256), found.name))
        elif entry is None:
            new.append(found.name)
        elif rebuild or entry.sha256 != content.sha256 or entry.recipe != recipe_of(chunking, found.encoding):
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
