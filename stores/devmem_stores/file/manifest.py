"""The record of the indexed files, written after their chunks: values that the collection of the index keeps.

It can be lost: without it every file is read again, and finds its chunks embedded.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Final

from devmem.errors import Finding
from devmem.model.results import Fact
from devmem.storage import StateKey, StateTable
from devmem.stores import damage, unfinished


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


_LOG: Final = logging.getLogger("devmem.stores.file")
_FILE: Final = "file"
_CHUNKS: Final = "chunks of a file"
_LOOSE: Final = "chunk of no file"
_KINDS: Final = (_FILE, _CHUNKS, _LOOSE)


class Manifest:
    """The files of one index. Not thread-safe: its owner holds a lock.

    Every method raises `CollectionError` where the record cannot be read or written.
    """

    def __init__(self, table: StateTable) -> None:
        self._table = table

    def entries(self) -> dict[str, Entry]:
        """Return all files by name."""
        read = ((name, _entry(name, value)) for name, value in self._table.scan(_FILE))
        return {name: entry for name, entry in read if entry is not None}

    def ids(self, name: str) -> list[str]:
        """Return the ids of a file's chunks, in order; none when the file is not known."""
        return self._ids([name])[name]

    def _ids(self, names: Iterable[str]) -> dict[str, list[str]]:
        keys = [(_CHUNKS, name) for name in names]
        found = self._table.get(keys)
        return {key[1]: _list(key[1], found.get(key)) for key in keys}

    def intend(self, names: Sequence[str], ids: Iterable[str]) -> None:
        """Record that the files are being indexed and which chunks they will get, before these are stored."""
        self._table.write({**self._unread(names), **_loose(ids)})

    def _unread(self, names: Sequence[str]) -> dict[StateKey, bytes]:
        """Return the records of files that have to be read again."""
        found = self._table.get([(_FILE, name) for name in names])
        entries = (_entry(name, value) for (_, name), value in found.items())
        # Without this, a file that changes back would pass for unchanged while its chunks are not.
        return {(_FILE, entry.name): _value(replace(entry, recipe="")) for entry in entries if entry is not None}

    def record(self, entry: Entry, ids: Sequence[str]) -> None:
        """Record that a file is indexed; chunks that it had before and has no more become loose."""
        had = set(self.ids(entry.name))
        values: dict[StateKey, bytes | None] = {
            (_FILE, entry.name): _value(replace(entry, chunks=len(ids))),
            (_CHUNKS, entry.name): json.dumps(list(ids)).encode(),
        }
        self._table.write({**values, **_loose(had.difference(ids)), **_no_longer_loose(ids)})

    def touch(self, entry: Entry) -> None:
        """Record that a file was checked and is unchanged."""
        key = (_FILE, entry.name)
        known = _entry(entry.name, self._table.get([key]).get(key))
        if known is not None:
            seen = replace(known, size=entry.size, mtime_ns=entry.mtime_ns, checked_ns=entry.checked_ns)
            self._table.write({key: _value(seen)})

    def remove(self, names: Sequence[str]) -> None:
        """Forget files; their chunks become loose."""
        gone: dict[StateKey, bytes | None] = {(kind, name): None for name in names for kind in (_FILE, _CHUNKS)}
        self._table.write({**gone, **_loose(each for ids in self._ids(names).values() for each in ids)})

    def loose(self) -> list[str]:
        """Return the chunks that no file has."""
        return self._table.names(_LOOSE)

    def forget(self, ids: Sequence[str]) -> None:
        """Record that loose chunks are deleted."""
        self._table.write(_no_longer_loose(ids))

    def reconcile(self, there: set[str]) -> None:
        """Compare with the stored chunks: files that lack some are to be read again, chunks of no file become loose."""
        had = {name: _list(name, value) for name, value in self._table.scan(_CHUNKS)}
        lacking = [name for name, ids in had.items() if not there.issuperset(ids)]
        known = {each for ids in had.values() for each in ids}
        self._table.write({**self._unread(lacking), **_loose(there - known)})

    def chunks(self) -> int:
        """Return the number of chunks of all files."""
        return sum(entry.chunks for entry in self.entries().values())

    def copy_to(self, table: StateTable) -> None:
        """Write the records into another collection's values."""
        table.write({(kind, name): value for kind in _KINDS for name, value in self._table.scan(kind)})


def _value(entry: Entry) -> bytes:
    return json.dumps(asdict(entry)).encode()


def _entry(name: str, value: bytes | None) -> Entry | None:
    """Return the record of a file; None, after a warning, where it cannot be read: the file is indexed again then."""
    if value is None:
        return None
    try:
        return Entry(**json.loads(value))
    except (ValueError, TypeError) as error:
        _LOG.warning("the record of %s cannot be read (%s); the file is indexed again.", name, error)
        return None


def _list(name: str, value: bytes | None) -> list[str]:
    """Return the ids in a value; none, after a warning, where they cannot be read."""
    try:
        found = json.loads(value) if value is not None else []
    except ValueError as error:
        _LOG.warning("the chunks of %s cannot be read (%s); the file is indexed again.", name, error)
        found = []
    return [str(each) for each in found]


def _loose(ids: Iterable[str]) -> dict[StateKey, bytes | None]:
    return dict.fromkeys(((_LOOSE, each) for each in ids), b"")


def _no_longer_loose(ids: Iterable[str]) -> dict[StateKey, bytes | None]:
    return dict.fromkeys((_LOOSE, each) for each in ids)


def examine_manifest(states: Mapping[StateKey, bytes], stored: frozenset[str]) -> tuple[dict[str, Fact], list[Finding]]:
    """Return counts and findings of the manifest among a store's values; `stored` are the ids of the index."""
    entries = {name: _entry(name, value) for (kind, name), value in states.items() if kind == _FILE}
    chunks = {name: _list(name, value) for (kind, name), value in states.items() if kind == _CHUNKS}
    loose = sum(kind == _LOOSE for kind, _ in states)
    findings = []
    for name, entry in entries.items():
        missing = len(set(chunks.get(name, ())) - stored)
        if entry is None or entry.chunks != len(chunks.get(name, ())):
            findings.append(damage(f"the record of {name} cannot be read; the next pass indexes it again"))
        elif missing:
            findings.append(damage(f"{name}: {missing:,} of {entry.chunks:,} chunks are not in the index"))
        elif entry.problem:
            findings.append(unfinished(f"{name} could not be indexed: {entry.problem}"))
    if loose:
        findings.append(unfinished(f"{loose:,} chunks are assigned to no file; the next pass settles them"))
    return {"files": len(entries), "chunks": sum(map(len, chunks.values())), "loose": loose}, findings
