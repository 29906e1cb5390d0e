"""The search indexes in memory, which follow the database: also what other processes write to it.

New items are followed by row number; deletions and embeddings made later through the `changes` table. A cache that
missed too much (the table was pruned, the model was replaced) starts anew.
"""

from __future__ import annotations

import logging
import sqlite3
from pathlib import Path
from typing import Final
from uuid import uuid4

import numpy as np

from devmem.collections.postings import EncodedTerms, PostingsIndex
from devmem.collections.sqlite.database import read_meta, transaction
from devmem.collections.sqlite.snapshot import Indexes, SnapshotState, load_snapshot, save_snapshot
from devmem.collections.sqlite.writing import set_meta
from devmem.collections.vectors import Rows, VectorIndex
from devmem.config import IndexConfig

_LOG: Final = logging.getLogger(__name__)
_AT_ONCE: Final = 5000
_SNAPSHOT_AFTER: Final = 256
"""A snapshot that lacks fewer rows than this is not worth writing again."""


class SearchCache:
    """Full-text and vector index of one database. Not thread-safe: its owner holds a lock."""

    def __init__(self, snapshot_path: Path | None, index: IndexConfig | None = None) -> None:
        self._snapshot_path = snapshot_path
        self._index = index or IndexConfig()
        self.vectors: VectorIndex | None = None
        self._token: str | int | None = None
        self._generation = -1
        self._version: tuple[int, int] | None = None
        """Changes with every commit: of other connections, and of this one."""
        self._reset()

    def _reset(self) -> None:
        self.close()
        self.postings = PostingsIndex()
        self.vectors = None
        self._last_row = 0
        self._last_change = 0
        self._vectors_row = 0
        self._vectors_change = 0
        self._in_snapshot = 0
        self._saved_approximate = False

    def close(self) -> None:
        """End the work that goes on in the background."""
        if self.vectors is not None:
            self.vectors.close()

    def follow(self, connection: sqlite3.Connection) -> None:
        """Take in everything that was committed since the last call; the connection is in a read transaction."""
        version = (connection.execute("PRAGMA data_version").fetchone()[0], connection.total_changes)
        if version == self._version:
            return
        self._version = None
        meta = read_meta(connection)
        self._token = meta.get("snapshot")
        if meta["generation"] != self._generation or self._last_change < int(meta["changes_floor"] or 0):
            first = self._generation == -1
            self._reset()
            self._generation = int(meta["generation"] or 0)
            self._last_change = self._vectors_change = self._newest_change(connection)
            if first:
                self._restore(int(meta["changes_floor"] or 0))
        self._follow_items(connection)
        self._follow_vectors(connection)
        self._follow_changes(connection)
        self._version = version

    def save(self, writer: sqlite3.Connection) -> None:
        """Write the snapshot of the indexes, if it would save the next start some work."""
        if self._snapshot_path is None or self._version is None or not self._is_worth_saving():
            return
        token = uuid4().hex
        try:
            with transaction(writer):
                set_meta(writer, "snapshot", token)
        except sqlite3.Error as error:
            _LOG.warning("%s: the index snapshot was not written (%s).", self._snapshot_path, error)
            return
        state = SnapshotState(
            token=token,
            generation=self._generation,
            last_row=self._vectors_row,
            last_change=self._vectors_change,
        )
        if save_snapshot(self._snapshot_path, Indexes(postings=self.postings, vectors=self.vectors), state):
            self._in_snapshot = self._size()

    def _size(self) -> int:
        return max(len(self.postings), len(self.vectors) if self.vectors is not None else 0)

    def _is_worth_saving(self) -> bool:
        if self.vectors is not None and self.vectors.approximate and not self._saved_approximate:
            return True
        unsaved = abs(self._size() - self._in_snapshot)
        return unsaved >= _SNAPSHOT_AFTER and unsaved >= self._in_snapshot // 10

    def _restore(self, changes_floor: int) -> None:
        found = load_snapshot(self._snapshot_path, self._index) if self._snapshot_path else None
        if found is None:
            return
        indexes, state = found
        # A database that was put back from a backup has another token than the snapshot, whatever was done to it since.
        current = state.token == self._token and state.generation == self._generation
        if current and changes_floor <= state.last_change <= self._last_change:
            self.postings, self.vectors = indexes.postings, indexes.vectors
            self._last_row = self._vectors_row = state.last_row
            self._last_change = self._vectors_change = state.last_change
            self._in_snapshot = self._size()
            self._saved_approximate = self.vectors is not None and self.vectors.approximate

    def _follow_items(self, connection: sqlite3.Connection) -> None:
        cursor = connection.execute(
            "SELECT row, term_hashes, term_counts, term_length FROM items WHERE row > ? ORDER BY row",
            (self._last_row,),
        )
        while found := cursor.fetchmany(_AT_ONCE):
            encoded = [EncodedTerms(hashes=h, counts=c, length=n) for _, h, c, n in found]
            self.postings.add([row for row, *_ in found], encoded)
            self._last_row = found[-1][0]

    def _follow_vectors(self, connection: sqlite3.Connection) -> None:
        cursor = connection.execute("SELECT row, vector FROM vectors WHERE row > ? ORDER BY row", (self._vectors_row,))
        while found := cursor.fetchmany(_AT_ONCE):
            self._add_vectors(found)
        # Rows still waiting when they are passed come back through `changes`.
        self._vectors_row = max(self._vectors_row, self._last_row)

    def _follow_changes(self, connection: sqlite3.Connection) -> None:
        since = min(self._last_change, self._vectors_change)
        changes = connection.execute(
            "SELECT number, row, kind FROM changes WHERE number > ? ORDER BY number", (since,)
        ).fetchall()
        if not changes:
            return
        deleted = np.array([row for _, row, kind in changes if kind == "deleted"], dtype=np.int64)
        self.postings.remove(deleted)
        if self.vectors is not None:
            self.vectors.remove(deleted)
        self._add_embedded(connection, sorted({row for _, row, kind in changes if kind == "embedded"}))
        self._last_change = self._vectors_change = changes[-1][0]

    def _add_embedded(self, connection: sqlite3.Connection, rows: list[int]) -> None:
        for row in rows:
            found = connection.execute("SELECT row, vector FROM vectors WHERE row = ?", (row,)).fetchall()
            if found and not self._has_vector(row):
                self._add_vectors(found)

    def _has_vector(self, row: int) -> bool:
        return self.vectors is not None and bool(self.vectors.contains(np.array([row], dtype=np.int64))[0])

    def _add_vectors(self, found: list[tuple[int, bytes]]) -> None:
        rows: Rows = np.array([row for row, _ in found], dtype=np.int64)
        matrix = np.frombuffer(b"".join(raw for _, raw in found), dtype="<f4").reshape(len(found), -1)
        if self.vectors is None:
            self.vectors = VectorIndex(matrix.shape[1], self._index)
        self.vectors.add(rows, matrix.astype(np.float32))

    @staticmethod
    def _newest_change(connection: sqlite3.Connection) -> int:
        return int(connection.execute("SELECT COALESCE(max(number), 0) FROM changes").fetchone()[0])
