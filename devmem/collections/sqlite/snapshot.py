"""The snapshot of the vector index beside the database file: opening a large collection reads no vectors from it.

One file: a magic line, a line of JSON, the row numbers, FAISS's own bytes. It is only ever replaced whole. Whatever is
wrong with it, it is as if it were not there: the database has everything.
"""

from __future__ import annotations

import json
import logging
import zlib
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

import numpy as np

from devmem.collections.replacing import replace_file
from devmem.collections.vectors import VectorIndex

_MAGIC: Final = b"devmem vector index 1\n"
_LOG: Final = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotState:
    """The moment of the database that a snapshot shows."""

    token: str
    """Recorded in the database too when the snapshot was written: a snapshot of another database has another one."""
    generation: int
    last_row: int
    last_change: int


def save_snapshot(path: Path, index: VectorIndex, state: SnapshotState) -> bool:
    """Write the snapshot; a snapshot that cannot be written is logged and does without (False)."""
    import faiss

    flat, rows = index.parts()
    payload = rows.astype("<i8").tobytes() + faiss.serialize_index(flat).tobytes()
    head = {**asdict(state), "rows": len(rows), "crc": zlib.crc32(payload)}
    try:
        replace_file(path, [_MAGIC, json.dumps(head).encode(), b"\n", payload])
    except OSError as error:
        _LOG.warning("%s: the index snapshot was not written (%s); the next start takes longer.", path, error)
        return False
    return True


def load_snapshot(path: Path) -> tuple[VectorIndex, SnapshotState] | None:
    """Read the snapshot; None when there is none or it is damaged, which is logged."""
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        return None
    except OSError as error:
        _LOG.warning("%s: the index snapshot cannot be read (%s); the index is built anew.", path, error)
        return None
    try:
        return _parse(content)
    except (ValueError, KeyError, TypeError, RuntimeError) as error:
        # RuntimeError is what FAISS raises for bytes that are not an index.
        _LOG.warning("%s: the index snapshot is damaged (%s); the index is built anew.", path, error)
        return None


def _parse(content: bytes) -> tuple[VectorIndex, SnapshotState]:
    import faiss

    if not content.startswith(_MAGIC):
        raise ValueError("it does not start like one")
    end = content.index(b"\n", len(_MAGIC))
    head = json.loads(content[len(_MAGIC) : end])
    payload = memoryview(content)[end + 1 :]
    if zlib.crc32(payload) != head["crc"]:
        raise ValueError("its checksum is wrong")
    cut = 8 * int(head["rows"])
    rows = np.frombuffer(payload[:cut], dtype="<i8").astype(np.int64)
    index = faiss.deserialize_index(np.frombuffer(payload[cut:], dtype=np.uint8))
    if not isinstance(index, faiss.IndexFlatIP) or index.ntotal != len(rows):
        raise ValueError("its index is not one of these rows")
    state = SnapshotState(**{key: head[key] for key in SnapshotState.__slots__})
    return VectorIndex.restore(index, rows), state
