"""The snapshot file of the indexes: opening a large collection reads neither vectors nor terms from the database.

One file: a magic line, a line with a checksum and JSON, and the arrays that the JSON names, each with its own checksum.
It is only ever replaced as a whole, so a large one is mapped, not read: processes share it, and what is never searched
takes no memory. A snapshot that is missing, damaged or of another version is ignored: the database has everything.
"""

from __future__ import annotations

import json
import logging
import re
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from devmem.text.atomic_write import replace_file

Parts = dict[str, NDArray[Any]]
"""Arrays by name."""

_VERSION: Final = 4
_MAGIC: Final = b"devmem index %d\n" % _VERSION
_ANY_MAGIC: Final = re.compile(rb"devmem index \d+\n")
_LOG: Final = logging.getLogger(__name__)
_ALIGNED: Final = 64
_LONGEST_HEAD: Final = 1 << 16
_MAP_FROM: Final = 1 << 26
"""Smaller files are read at once, which leaves nothing open."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotState:
    """The moment of the database that a snapshot shows."""

    token: str
    """Recorded in the database too when the snapshot was written: that of another database differs."""
    watermarks: dict[str, int]
    """How far the follower of the database had come, in terms of its own."""
    expired_until: float
    """Items that expired until then are missing; seconds since the epoch."""


def save_snapshot(path: Path, parts: Parts, state: SnapshotState) -> bool:
    """Write the snapshot and report whether that succeeded; a failure is logged."""
    try:
        replace_file(path, _written({name: np.ascontiguousarray(part) for name, part in parts.items()}, state))
    except OSError as error:
        _LOG.warning("%s: the index snapshot was not written (%s); the next start takes longer.", path, error)
        return False
    return True


def load_snapshot(path: Path) -> tuple[Parts, SnapshotState] | None:
    """Read the snapshot; None when there is none, it is of another version, or it is damaged, which is logged."""
    try:
        content = _content(path)
    except FileNotFoundError:
        return None
    except OSError as error:
        _LOG.warning("%s: the index snapshot cannot be read (%s); the index is rebuilt.", path, error)
        return None
    try:
        return _parse(content)
    except (ValueError, KeyError, TypeError, IndexError) as error:
        report_damage(path, error)
        return None


def report_damage(path: Path, error: Exception) -> None:
    """Log why a snapshot is not used."""
    _LOG.warning("%s: the index snapshot is damaged (%s); the index is rebuilt.", path, error)


def _written(parts: Mapping[str, NDArray[Any]], state: SnapshotState) -> Iterator[bytes | memoryview]:
    """Yield the file's content piece by piece, without copying the arrays."""
    raw = {name: part.reshape(-1).view(np.uint8).data for name, part in parts.items()}
    arrays = [
        {"name": name, "type": part.dtype.str, "shape": part.shape, "crc": zlib.crc32(raw[name])}
        for name, part in parts.items()
    ]
    head = json.dumps({**asdict(state), "arrays": arrays}).encode()
    start = b"%s%08x %s\n" % (_MAGIC, zlib.crc32(head), head)
    yield start + bytes(-len(start) % _ALIGNED)
    for piece in raw.values():
        yield piece
        yield bytes(-len(piece) % _ALIGNED)


def _content(path: Path) -> NDArray[np.uint8]:
    if path.stat().st_size < _MAP_FROM:
        return np.frombuffer(path.read_bytes(), dtype=np.uint8)
    return np.memmap(path, dtype=np.uint8, mode="r")


def _parse(content: NDArray[np.uint8]) -> tuple[Parts, SnapshotState] | None:
    whole = content.data
    start = bytes(whole[:_LONGEST_HEAD])
    if not start.startswith(_MAGIC):
        if _ANY_MAGIC.match(start):
            return None
        raise ValueError("it does not start like one")
    end = start.index(b"\n", len(_MAGIC))
    line = start[len(_MAGIC) : end]
    if zlib.crc32(line[9:]) != int(line[:8], 16):
        raise ValueError("the checksum of its head is wrong")
    head = json.loads(line[9:])
    parts: Parts = {}
    at = end + 1 + -(end + 1) % _ALIGNED
    for array in head["arrays"]:
        kind = np.dtype(array["type"])
        size = kind.itemsize * int(np.prod(array["shape"], dtype=np.int64))
        if zlib.crc32(whole[at : at + size]) != array["crc"]:
            raise ValueError(f"the checksum of {array['name']} is wrong")
        parts[array["name"]] = content[at : at + size].view(kind).reshape(array["shape"])
        at += size + -size % _ALIGNED
    return parts, SnapshotState(**{key: head[key] for key in SnapshotState.__slots__})
