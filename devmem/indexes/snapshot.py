"""The snapshot of the indexes beside the database file: opening a large collection reads neither vectors nor terms.

One file: a magic line, a line with a checksum and JSON, and the arrays that the JSON names, each with its own checksum.
It is only ever replaced whole, so a large one is mapped, not read: processes share it, and what is never searched takes
no memory. Whatever is wrong with it, it is as if it were not there: the database has everything.
"""

from __future__ import annotations

import json
import logging
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from devmem.config import IndexConfig
from devmem.indexes.doc_values import DocValues
from devmem.indexes.passage_map import PassageMap
from devmem.indexes.postings import PostingsIndex
from devmem.indexes.vectors import VectorIndex
from devmem.text.atomic_write import replace_file

_MAGIC: Final = b"devmem index 3\n"
_LOG: Final = logging.getLogger(__name__)
_ALIGNED: Final = 64
_LONGEST_HEAD: Final = 1 << 16
_MAP_FROM: Final = 1 << 26
"""Smaller files are read at once, which leaves nothing open."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotState:
    """The moment of the database that a snapshot shows."""

    token: str
    """Recorded in the database too when the snapshot was written: a snapshot of another database has another one."""
    generation: int
    last_row: int
    last_passage: int
    last_change: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Indexes:
    """What a snapshot holds."""

    doc_values: DocValues
    passage_map: PassageMap
    postings: PostingsIndex
    vectors: VectorIndex | None


def save_snapshot(path: Path, indexes: Indexes, state: SnapshotState) -> bool:
    """Write the snapshot; a snapshot that cannot be written is logged and does without (False)."""
    try:
        replace_file(path, _written(_parts(indexes), state))
    except OSError as error:
        _LOG.warning("%s: the index snapshot was not written (%s); the next start takes longer.", path, error)
        return False
    return True


def load_snapshot(path: Path, config: IndexConfig) -> tuple[Indexes, SnapshotState] | None:
    """Read the snapshot; None when there is none or it is damaged, which is logged."""
    try:
        content = _content(path)
    except FileNotFoundError:
        return None
    except OSError as error:
        _LOG.warning("%s: the index snapshot cannot be read (%s); the index is built anew.", path, error)
        return None
    try:
        parts, state = _parse(content)
        return _indexes(parts, config), state
    except (ValueError, KeyError, TypeError, IndexError, RuntimeError) as error:
        # RuntimeError is what FAISS raises for bytes that are not an index.
        _LOG.warning("%s: the index snapshot is damaged (%s); the index is built anew.", path, error)
        return None


def _parts(indexes: Indexes) -> dict[str, NDArray[Any]]:
    parts = {f"ledger/{name}": part for name, part in indexes.doc_values.parts().items()}
    parts |= {f"directory/{name}": part for name, part in indexes.passage_map.parts().items()}
    parts |= {f"postings/{name}": part for name, part in indexes.postings.parts().items()}
    if indexes.vectors is not None:
        parts |= {f"vectors/{name}": part for name, part in indexes.vectors.parts().items()}
    return {name: np.ascontiguousarray(part) for name, part in parts.items()}


def _indexes(parts: Mapping[str, NDArray[Any]], config: IndexConfig) -> Indexes:
    vectors = _below("vectors/", parts)
    return Indexes(
        doc_values=DocValues.restore(_below("ledger/", parts)),
        passage_map=PassageMap.restore(_below("directory/", parts)),
        postings=PostingsIndex.restore(_below("postings/", parts)),
        vectors=VectorIndex.restore(vectors, config) if vectors else None,
    )


def _below(prefix: str, parts: Mapping[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
    return {name.removeprefix(prefix): part for name, part in parts.items() if name.startswith(prefix)}


def _written(parts: Mapping[str, NDArray[Any]], state: SnapshotState) -> Iterator[bytes | memoryview]:
    """Give the file's content piece by piece, without a copy of the arrays."""
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


def _parse(content: NDArray[np.uint8]) -> tuple[dict[str, NDArray[Any]], SnapshotState]:
    whole = content.data
    start = bytes(whole[:_LONGEST_HEAD])
    if not start.startswith(_MAGIC):
        raise ValueError("it does not start like one")
    end = start.index(b"\n", len(_MAGIC))
    line = start[len(_MAGIC) : end]
    if zlib.crc32(line[9:]) != int(line[:8], 16):
        raise ValueError("the checksum of its head is wrong")
    head = json.loads(line[9:])
    parts: dict[str, NDArray[Any]] = {}
    at = end + 1 + -(end + 1) % _ALIGNED
    for array in head["arrays"]:
        kind = np.dtype(array["type"])
        size = kind.itemsize * int(np.prod(array["shape"], dtype=np.int64))
        if zlib.crc32(whole[at : at + size]) != array["crc"]:
            raise ValueError(f"the checksum of {array['name']} is wrong")
        parts[array["name"]] = content[at : at + size].view(kind).reshape(array["shape"])
        at += size + -size % _ALIGNED
    return parts, SnapshotState(**{key: head[key] for key in SnapshotState.__slots__})
