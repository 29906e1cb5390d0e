"""The indexes of one collection together: kept up to date by a follower, read through snapshots."""

from __future__ import annotations

import json
import logging
import struct
import sys
import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import reduce
from mmap import ACCESS_READ, mmap
from pathlib import Path
from typing import Any, Final, Self

import numpy as np
from numpy.typing import NDArray

from devmem.config.store import IndexConfig
from devmem.encryption.files import read_file, sealed_for
from devmem.encryption.keys import key_of
from devmem.errors import EncryptionError
from devmem.model.items import Vector
from devmem.search.indexes.columns import Rows
from devmem.search.indexes.doc_values import DocEntry, DocValues
from devmem.search.indexes.passages import PassageMap
from devmem.search.indexes.postings import PostingsIndex
from devmem.search.indexes.scoring import EncodedTerms
from devmem.search.indexes.vectors import VectorIndex, VectorReader
from devmem.text.files import replace_file

Parts = dict[str, NDArray[Any]]
"""Arrays by name."""

_VERSION: Final = 10
_START: Final = struct.Struct("<II")
_ALIGNED: Final = 64
"""Each array begins at a multiple of this many bytes of the file."""
_MAP_FROM: Final = 1 << 20
"""Bytes of a file from which it is mapped: a mapping keeps a file descriptor, and a process may have many stores."""
_LOG: Final = logging.getLogger(__name__)
_MOST_PACKED: Final = 1 << 22
"""Bytes of an array up to which it is packed, which takes some 40 ms."""
_DAMAGE: Final = (struct.error, zlib.error, ValueError, KeyError, TypeError, IndexError, RuntimeError)
"""Exceptions that a damaged file raises; `RuntimeError` is also FAISS's, for bytes that are not an index."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotState:
    """The moment of the database that a snapshot shows."""

    token: str
    """Recorded in the database too when the snapshot was written: that of another database differs."""
    watermarks: dict[str, int]
    """How far the follower of the database had come, in its own terms."""
    expired_until: float
    """Items that expired until then are missing; seconds since the epoch."""


def save_snapshot(path: Path, parts: Parts, state: SnapshotState) -> bool:
    """Write the snapshot and report whether that succeeded; a failure is logged."""
    try:
        replace_file(path, sealed_for(path, _written(parts, state)))
    except OSError as error:
        _LOG.warning("%s: the index snapshot was not written (%s); the next start takes longer.", path, error)
        return False
    return True


def _written(parts: Parts, state: SnapshotState) -> list[bytes | memoryview]:
    """Return the file in pieces: a checksum of what follows, the length of the head, the head as JSON, each array."""
    arrays, pieces = {}, list[bytes | memoryview]()
    for name, part in parts.items():
        raw = np.ascontiguousarray(part).reshape(-1).view(np.uint8).data
        # Codes and bytes of vectors are no smaller when they are packed.
        packed = len(raw) <= _MOST_PACKED and not name.startswith("vectors/")
        pieces.append(zlib.compress(raw, 1) if packed else raw)
        arrays[name] = [part.dtype.str, part.shape, packed, len(pieces[-1])]
        pieces.append(bytes(-len(pieces[-1]) % _ALIGNED))
    head = json.dumps({"version": _VERSION, "state": asdict(state), "arrays": arrays}).encode()
    head += b" " * (-(_START.size + len(head)) % _ALIGNED)
    pieces = [_START.pack(0, len(head))[4:], head, *pieces]
    return [reduce(lambda crc, piece: zlib.crc32(piece, crc), pieces, 0).to_bytes(4, "little"), *pieces]


def _head_and_arrays(path: Path) -> tuple[dict[str, Any], memoryview]:
    """Return the head of a file and the bytes behind it, which processes share where the file is large.

    A mapped file never changes: it is only ever replaced by another one, or removed, which Windows does not allow.

    Raises:
        OSError, EncryptionError: it cannot be read.
        ValueError, struct.error: it is damaged.
    """
    if path.stat().st_size < _MAP_FROM or key_of(path) is not None or sys.platform == "win32":
        content = memoryview(read_file(path))
    else:
        with path.open("rb") as file:
            content = memoryview(mmap(file.fileno(), 0, access=ACCESS_READ))
    checksum, length = _START.unpack_from(content)
    if zlib.crc32(content[4:]) != checksum:
        raise ValueError("its checksum is wrong")
    end = _START.size + length
    head: dict[str, Any] = json.loads(content[_START.size : end].tobytes())
    return head, content[end:]


def stored_sizes(path: Path) -> dict[str, int]:
    """Return the bytes of each array in a snapshot file."""
    return {name: size for name, (*_, size) in _head_and_arrays(path)[0]["arrays"].items()}


_UNIT_TOLERANCE: Final = 1e-2
"""Deviation from 1 of the squared length of a vector that was rounded to 16 bits somewhere."""


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexReader:
    """The indexes as they were at one moment; never changes, so any number of threads may search it."""

    doc_values: DocValues
    passage_map: PassageMap
    postings: PostingsIndex
    vectors: VectorReader | None
    """None as long as no item has an embedding."""


class IndexSet:
    """Doc values, passage map, postings and vectors of one collection. Not thread-safe but for its readers.

    A follower applies what was committed to the database. It may apply items in any order, and an item that becomes
    visible after others with higher row numbers is simply added: each index keeps the order that it needs. Required is:

    * a row number, and a passage number, is used once, also after a deletion;
    * what has the higher row has the higher passages, and each item and each passage is added once;
    * a passage is added in the same pass as its item, a vector with its passage or later;
    * a removal comes after what it removes; rows that are not there are passed over.

    Conversations are ordered by row. Where two items rank alike, candidates are taken in the order of their addition;
    hits are ordered by row.
    """

    def __init__(self, config: IndexConfig | None = None) -> None:
        """Start empty; `config` says how vectors are searched, None takes the defaults."""
        self._config = config or IndexConfig()
        self._doc_values = DocValues()
        self._passage_map = PassageMap()
        self._postings = PostingsIndex()
        self._vectors: VectorIndex | None = None
        self._reader: IndexReader | None = None
        self.expired_until = -float("inf")
        """Items that expired until then were removed; seconds since the epoch."""

    @property
    def size(self) -> int:
        """Number of passages, or of vectors if that is higher."""
        return max(len(self._postings), len(self._vectors) if self._vectors is not None else 0)

    @property
    def approximate(self) -> bool:
        """Whether an approximate index of vectors is in use."""
        return self._vectors is not None and self._vectors.approximate

    def reader(self) -> IndexReader:
        """Return a snapshot to search; the same one as long as nothing changes."""
        if self._reader is None or (self._vectors is not None and self._vectors.has_news()):
            self._reader = IndexReader(
                doc_values=self._doc_values.view(),
                passage_map=self._passage_map.view(),
                postings=self._postings.view(),
                vectors=self._vectors.reader() if self._vectors is not None else None,
            )
        return self._reader

    def add_items(self, entries: Sequence[DocEntry]) -> None:
        """Add items."""
        self._reader = None
        self._doc_values.add(entries)

    def add_passages(self, passages: Sequence[int], rows: Sequence[int], terms: Sequence[EncodedTerms]) -> None:
        """Add passages, with the row of each one's item and its terms."""
        self._reader = None
        self._passage_map.add(passages, rows)
        self._postings.add(passages, terms)

    @property
    def dimension(self) -> int | None:
        """Length of the vectors; None without any."""
        return None if self._vectors is None else self._vectors.dimension

    def add_vectors(self, passages: Rows, vectors: Vector) -> None:
        """Add the vectors of some passages, shape (n, dimension), those of unit length.

        One that is not finite or not of unit length is left out, as if its item were still waiting for its embedding,
        and logged: it would rank first for every query, and FAISS aborts the process when it learns codes from it.
        """
        self._reader = None
        with np.errstate(over="ignore", invalid="ignore"):
            usable = np.abs(np.einsum("ij,ij->i", vectors, vectors) - 1) < _UNIT_TOLERANCE
        if not usable.all():
            _LOG.warning(
                "%d embeddings are not finite or not of unit length: their items are found by their words alone, "
                "until they are embedded again.",
                int(np.count_nonzero(~usable)),
            )
            passages, vectors = passages[usable], vectors[usable]
        if self._vectors is None:
            self._vectors = VectorIndex(vectors.shape[1], self._config)
        self._vectors.add(passages, vectors)

    def passages_without_vector(self, rows: Rows | None = None) -> Rows:
        """Return the passages of some rows, or of all, that have no vector yet."""
        if rows is None:
            passages = self._passage_map.passages
        else:
            passages, _ = self._passage_map.passages_of(rows[self._doc_values.positions(rows) >= 0])
        return passages if self._vectors is None else passages[~self._vectors.contains(passages)]

    def remove(self, rows: Rows) -> None:
        """Remove items with their passages and vectors; rows that are not there are passed over."""
        self._reader = None
        passages, _ = self._passage_map.passages_of(rows)
        self._doc_values.remove(rows)
        self._postings.remove(passages)
        if self._vectors is not None:
            self._vectors.remove(passages)
        self._passage_map.remove(rows)

    def expire(self, now: float) -> None:
        """Remove the items that expired until `now` (seconds since the epoch)."""
        if now < self._doc_values.next_expiry:
            return
        rows, times = self._doc_values.expired(now)
        if len(rows):
            self.remove(rows)
            self.expired_until = max(self.expired_until, float(times.max()))
        self._doc_values.find_next_expiry()

    def wait_for_build(self) -> None:
        """Wait for the approximate index that is due or being built."""
        self._reader = None
        if self._vectors is not None:
            self._vectors.wait_for_build()

    def close(self) -> None:
        """Cancel the work in the background."""
        if self._vectors is not None:
            self._vectors.close()

    def copy(self) -> IndexSet:
        """Return indexes of the same items, without the vectors that no approximate index holds; see `restore`."""
        copied = IndexSet.restore(self.parts(), self._config)
        copied.expired_until = self.expired_until
        return copied

    def compact(self) -> None:
        """Have removed items no longer count in the statistics of words."""
        self._reader = None
        self._postings.compact()

    def parts(self) -> dict[str, NDArray[Any]]:
        """Return arrays by name, which `restore` takes; vectors that no approximate index holds are left out."""
        self._reader = None
        sets: dict[str, Any] = {
            "doc_values": self._doc_values,
            "passage_map": self._passage_map,
            "postings": self._postings,
        }
        if self._vectors is not None:
            sets["vectors"] = self._vectors
        return {f"{kind}/{name}": part for kind, index in sets.items() for name, part in index.parts().items()}

    @classmethod
    def restore(cls, parts: Mapping[str, NDArray[Any]], config: IndexConfig | None = None) -> Self:
        """Return the indexes that `parts` was made of.

        The caller adds the vectors that were left out.

        Raises:
            ValueError, KeyError, RuntimeError: they are not such parts, or not what the configuration wants.
        """

        def of(kind: str) -> dict[str, NDArray[Any]]:
            return {name.removeprefix(kind): part for name, part in parts.items() if name.startswith(kind)}

        restored = cls(config)
        restored._doc_values = DocValues.restore(of("doc_values/"))
        restored._passage_map = PassageMap.restore(of("passage_map/"))
        restored._postings = PostingsIndex.restore(of("postings/"))
        if vectors := of("vectors/"):
            restored._vectors = VectorIndex.restore(vectors, config)
        return restored


def load_indexes(
    path: Path, config: IndexConfig | None, is_current: Callable[[SnapshotState], bool]
) -> tuple[IndexSet, SnapshotState] | None:
    """Return the indexes of a snapshot file; None when no usable one exists.

    Args:
        path: of the file.
        config: how vectors are searched; None takes the defaults.
        is_current: whether the database can be followed from the moment of a snapshot.
    """
    try:
        head, content = _head_and_arrays(path)
        if head["version"] != _VERSION:
            return None
        state = SnapshotState(**head["state"])
        if not is_current(state):
            return None
        parts, at = dict[str, NDArray[Any]](), 0
        for name, (kind, shape, packed, size) in head["arrays"].items():
            raw = content[at : at + size]
            parts[name] = np.frombuffer(zlib.decompress(raw) if packed else raw, dtype=kind).reshape(shape)
            at += size + -size % _ALIGNED
        indexes = IndexSet.restore(parts, config)
    except FileNotFoundError:
        return None
    except (OSError, EncryptionError, *_DAMAGE) as error:
        _LOG.warning("%s: the index snapshot cannot be used (%s); the index is rebuilt.", path, error)
        return None
    indexes.expired_until = state.expired_until
    return indexes, state
