"""The search indexes in memory, which follow the database: also what other processes write to it.

New items are followed by row number; deletions and embeddings made later through the `changes` table. A cache that
missed too much (the table was pruned, the model was replaced) starts anew.
"""

from __future__ import annotations

import logging
import sqlite3
from collections.abc import Mapping
from pathlib import Path
from typing import Final
from uuid import uuid4

import numpy as np

from devmem.collections.sqlite.database import read_meta, set_meta
from devmem.collections.transactions import write_transaction
from devmem.config import IndexConfig
from devmem.indexes.doc_values import DocEntry, DocValues
from devmem.indexes.passage_map import PassageMap
from devmem.indexes.postings import EncodedTerms, PostingsIndex
from devmem.indexes.snapshot import Indexes, SnapshotState, load_snapshot, save_snapshot
from devmem.indexes.token_codes import TokenCache
from devmem.indexes.vectors import Rows, VectorIndex

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
        self.model: str | int | None = None
        """Name of the model that made the embeddings."""
        self._token: str | int | None = None
        self._generation = -1
        self._version: tuple[int, int] | None = None
        """Changes with every commit: of other connections, and of this one."""
        self._reset()

    def _reset(self) -> None:
        self.close()
        self.tokens = TokenCache()
        self.doc_values = DocValues()
        self.passage_map = PassageMap()
        self.postings = PostingsIndex()
        self.vectors = None
        self._last_change = 0
        self._vectors_passage = 0
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
        self._token, self.model = meta.get("snapshot"), meta.get("model")
        try:
            if meta["generation"] != self._generation or self._last_change < int(meta["changes_floor"] or 0):
                self._begin(connection, meta)
            self._follow_items(connection)
            self._follow_passages(connection)
            self._follow_vectors(connection)
            self._follow_changes(connection)
        except BaseException:
            # What was taken in by half would be taken in twice: the next call begins anew.
            self._generation = -1
            raise
        self._version = version

    def _begin(self, connection: sqlite3.Connection, meta: Mapping[str, str | int | None]) -> None:
        """Begin anew, with the snapshot if nothing was taken in yet."""
        first = self._generation == -1
        self._reset()
        self._generation = int(meta["generation"] or 0)
        self._last_change = self._newest_change(connection)
        if first:
            self._restore(int(meta["changes_floor"] or 0))

    def save(self, writer: sqlite3.Connection) -> None:
        """Write the snapshot of the indexes, if it would save the next start some work."""
        if self._snapshot_path is None or self._version is None or not self._is_worth_saving():
            return
        token = uuid4().hex
        try:
            write_transaction(writer, lambda: set_meta(writer, "snapshot", token))
        except sqlite3.Error as error:
            _LOG.warning("%s: the index snapshot was not written (%s).", self._snapshot_path, error)
            return
        state = SnapshotState(
            token=token,
            generation=self._generation,
            last_row=self.doc_values.last_row,
            last_passage=self.passage_map.last,
            last_change=self._last_change,
        )
        if save_snapshot(self._snapshot_path, self.indexes(), state):
            self._in_snapshot = self._size()

    def indexes(self) -> Indexes:
        """Return the indexes as they are now."""
        return Indexes(
            doc_values=self.doc_values, passage_map=self.passage_map, postings=self.postings, vectors=self.vectors
        )

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
            self.doc_values, self.passage_map = indexes.doc_values, indexes.passage_map
            self.postings, self.vectors = indexes.postings, indexes.vectors
            self._vectors_passage = state.last_passage
            self._last_change = state.last_change
            self._in_snapshot = self._size()
            self._saved_approximate = self.vectors is not None and self.vectors.approximate

    def _follow_items(self, connection: sqlite3.Connection) -> None:
        cursor = connection.execute(
            "SELECT row, agent, user, session, conversation, speaker, cues, length, COALESCE(event_time, created_at), "
            "importance FROM items WHERE row > ? ORDER BY row",
            (self.doc_values.last_row,),
        )
        while found := cursor.fetchmany(_AT_ONCE):
            self.doc_values.add([DocEntry(*facts) for facts in found])

    def _follow_passages(self, connection: sqlite3.Connection) -> None:
        cursor = connection.execute(
            "SELECT passage, row, term_hashes, term_counts, term_length FROM passages WHERE passage > ? "
            "ORDER BY passage",
            (self.passage_map.last,),
        )
        while found := cursor.fetchmany(_AT_ONCE):
            passages = [passage for passage, *_ in found]
            encoded = [EncodedTerms(hashes=h, counts=c, length=n) for _, _, h, c, n in found]
            self.postings.add(passages, encoded)
            self.passage_map.add(passages, [row for _, row, *_ in found])

    def _follow_vectors(self, connection: sqlite3.Connection) -> None:
        cursor = connection.execute(
            "SELECT passage, vector FROM vectors WHERE passage > ? ORDER BY passage", (self._vectors_passage,)
        )
        while found := cursor.fetchmany(_AT_ONCE):
            self._add_vectors(found)
        # Passages still waiting when they are passed come back through `changes`.
        self._vectors_passage = max(self._vectors_passage, self.passage_map.last)

    def _follow_changes(self, connection: sqlite3.Connection) -> None:
        changes = connection.execute(
            "SELECT number, row, kind FROM changes WHERE number > ? ORDER BY number", (self._last_change,)
        ).fetchall()
        if not changes:
            return
        deleted = np.array(sorted({row for _, row, kind in changes if kind == "deleted"}), dtype=np.int64)
        passages, _ = self.passage_map.passages_of(deleted)
        self.doc_values.remove(deleted)
        self.postings.remove(passages)
        if self.vectors is not None:
            self.vectors.remove(passages)
        self.passage_map.remove(deleted)
        self._add_embedded(connection, sorted({row for _, row, kind in changes if kind == "embedded"}))
        self._last_change = changes[-1][0]

    def _add_embedded(self, connection: sqlite3.Connection, rows: list[int]) -> None:
        passages, _ = self.passage_map.passages_of(np.array(rows, dtype=np.int64))
        if self.vectors is not None:
            passages = passages[~self.vectors.contains(passages)]
        for start in range(0, len(passages), _AT_ONCE):
            part = passages[start : start + _AT_ONCE].tolist()
            marks = ", ".join("?" * len(part))
            query = f"SELECT passage, vector FROM vectors WHERE passage IN ({marks}) ORDER BY passage"
            if found := connection.execute(query, part).fetchall():
                self._add_vectors(found)

    def _add_vectors(self, found: list[tuple[int, bytes]]) -> None:
        passages: Rows = np.array([passage for passage, _ in found], dtype=np.int64)
        matrix = np.frombuffer(b"".join(raw for _, raw in found), dtype="<f4").reshape(len(found), -1)
        if self.vectors is None:
            self.vectors = VectorIndex(matrix.shape[1], self._index)
        self.vectors.add(passages, matrix.astype(np.float32))

    @staticmethod
    def _newest_change(connection: sqlite3.Connection) -> int:
        return int(connection.execute("SELECT COALESCE(max(number), 0) FROM changes").fetchone()[0])
