"""The record of the indexed files, written after their chunks.

It can be lost: without it every file is read again, and finds its chunks embedded.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol

from devmem.collections import Unreached


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """Record of one file."""

    name: str
    size: int
    mtime_ns: int
    checked_ns: int
    """When the content was read: nanoseconds since the epoch."""
    sha256: str
    recipe: str
    """How it was read and chunked; empty when that has to be done again."""
    problem: str = ""
    """Why it could not be indexed; empty when it was."""
    chunks: int = 0


class Manifest(Protocol):
    """The files of one index. Not thread-safe: its owner holds a lock.

    Every method raises `CollectionError` where the record cannot be read or written.
    """

    def entries(self) -> dict[str, Entry]:
        """Return all files by name."""
        ...

    def ids(self, name: str) -> list[str]:
        """Return the ids of a file's chunks, in order; none when the file is not known."""
        ...

    def intend(self, names: Sequence[str], ids: Iterable[str]) -> None:
        """Record that the files are being indexed and which chunks they will get, before these are stored."""
        ...

    def record(self, entry: Entry, ids: Sequence[str]) -> None:
        """Record that a file is indexed; chunks that it had before and has no more become loose."""
        ...

    def touch(self, entry: Entry) -> None:
        """Record that a file was checked and is unchanged."""
        ...

    def remove(self, names: Sequence[str]) -> None:
        """Forget files; their chunks become loose."""
        ...

    def loose(self) -> list[str]:
        """Return the chunks that no file has."""
        ...

    def forget(self, ids: Sequence[str]) -> None:
        """Record that loose chunks are deleted."""
        ...

    def reconcile(self, there: set[str]) -> None:
        """Compare with the stored chunks: files that lack some are to be read again, chunks of no file become loose."""
        ...

    def scrub(self) -> list[Unreached]:
        """Remove the bytes of forgotten files; return what could not be reached."""
        ...

    def chunks(self) -> int:
        """Return the number of chunks of all files."""
        ...

    def close(self) -> None:
        """Release the resources."""
        ...
