"""Following a SQLite database: applying to the indexes what was committed since, also by other processes.

New items and passages are found by their numbers, which commit in order since SQLite has one writer at a time;
deletions and embeddings made later through the `changes` table. A follower that missed too much (the table was pruned,
the model was replaced) builds the indexes again.
"""

from __future__ import annotations

import logging
import sqlite3
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final
from uuid import uuid4

import numpy as np

from devmem.config.store import IndexConfig
from devmem.search.indexes.columns import Rows, locked
from devmem.search.indexes.doc_values import DocEntry
from devmem.search.indexes.index_set import IndexSet, SnapshotState, load_indexes, save_snapshot
from devmem.storage.searching import Follower
from devmem.storage.sql import DOC_COLUMNS
from devmem.storage.sqlite.compact_rows import unpack_terms
from devmem.storage.sqlite.database import read_meta, sealed_transaction, set_meta
from devmem.storage.sqlite.rows import ITEM_CHECKSUM, PASSAGE_CHECKSUM, VECTOR_CHECKSUM, decode_vectors
from devmem.storage.writing import DamagedRows, are_unit

_LOG: Final = logging.getLogger(__name__)
_BATCH_SIZE: Final = 5000
_SNAPSHOT_AFTER: Final = 256
"""A snapshot that lacks fewer rows than this is not written again."""
_VERSION: Final = (
    "SELECT (SELECT value FROM meta WHERE key = 'generation'), "
    "(SELECT seq FROM sqlite_sequence WHERE name = 'items'), (SELECT seq FROM sqlite_sequence WHERE name = 'changes')"
)
"""Differs between two moments if what the indexes hold differs."""
_NEW_ITEMS: Final = f"SELECT {ITEM_CHECKSUM} = columns_checksum, {DOC_COLUMNS} FROM items WHERE row > ? ORDER BY row"
_NEW_PASSAGES: Final = (
    f"SELECT {PASSAGE_CHECKSUM} = checksum, passage, row, term_hashes, term_counts, term_length FROM passages "
    "WHERE passage > ? AND EXISTS (SELECT 1 FROM items WHERE items.row = passages.row) ORDER BY passage"
)
_VECTORS: Final = f"SELECT {VECTOR_CHECKSUM} = checksum, passage, vector FROM vectors WHERE passage"
_OF_VISIBLE_ITEMS: Final = (
    "EXISTS (SELECT 1 FROM passages WHERE passages.passage = vectors.passage "
    "AND EXISTS (SELECT 1 FROM items WHERE items.row = passages.row))"
)
"""Leaves out the vectors of versions that ended."""

Recorded = tuple[int, int, str]
"""Number of a change, the row that changed, and the kind: `deleted`, `embedded`, `erased` or `hidden`."""
Meta = Mapping[str, str | int | None]


@dataclass(slots=True)
class _Watermarks:
    """How far the indexes have come; what is beyond is applied next."""

    row: int = 0
    passage: int = 0
    change: int = 0


class SqliteFollower(Follower[sqlite3.Connection]):
    """Keeps an `IndexSet` up to date with a SQLite database. Thread-safe."""

    def __init__(self, snapshot_path: Path | None, config: IndexConfig | None, damaged: DamagedRows) -> None:
        """Start empty.

        Args:
            snapshot_path: of the indexes' snapshot; None for a database in memory.
            config: how vectors are searched; None takes the defaults.
            damaged: records the rows that are left out.
        """
        super().__init__(config)
        self._damaged = damaged
        self._left_out: set[int] = set()
        """Passages of damaged items."""
        self._snapshot_path = snapshot_path
        self._applied = _Watermarks()
        self._erasures = 0
        """Number of erasures that the indexes began after: they hold nothing of what these erased."""
        self._version: object = None
        """Version of the database that the moment stands for."""
        self._in_snapshot = 0
        self._approximate_in_snapshot = False

    def _poll(self, connection: sqlite3.Connection) -> bool:
        version = connection.execute(_VERSION).fetchone()
        changed, self._version = bool(version != self._version), version
        return changed

    def _catch_up(self, connection: sqlite3.Connection, now: float) -> str | None:
        meta = read_meta(connection)
        generation, floor = int(meta["generation"] or 0), int(meta["changes_floor"] or 0)
        if self._moment is None or generation != self._generation or self._applied.change < floor:
            self._start_again(connection, meta, generation, floor, now)
        self._apply_items(connection)
        self._apply_passages(connection)
        self._apply_changes(connection)
        model = meta.get("model")
        return None if model is None else str(model)

    def _start_again(self, connection: sqlite3.Connection, meta: Meta, generation: int, floor: int, now: float) -> None:
        """Start with the snapshot where it can be followed, and with nothing otherwise."""
        self.indexes.close()
        self.indexes = IndexSet(self._config)
        newest = int(connection.execute("SELECT COALESCE(max(number), 0) FROM changes").fetchone()[0])
        self._applied = _Watermarks(change=newest)

        def is_current(state: SnapshotState) -> bool:
            # A database that was restored from a backup has another token than the snapshot.
            return (
                (state.token, state.watermarks["generation"]) == (meta.get("snapshot"), generation)
                and floor <= state.watermarks["change"] <= newest
                and state.expired_until <= now
            )

        if self._snapshot_path is not None and (found := load_indexes(self._snapshot_path, self._config, is_current)):
            self.indexes, state = found
            self._applied = _Watermarks(**{name: state.watermarks[name] for name in _Watermarks.__slots__})
            self._note_snapshot()
            self._read_vectors(connection, self.indexes.passages_without_vector())
        self._generation, self._erasures = generation, erasures_of(meta)

    def _apply_items(self, connection: sqlite3.Connection) -> None:
        cursor = connection.execute(_NEW_ITEMS, (self._applied.row,))
        while found := cursor.fetchmany(_BATCH_SIZE):
            self.indexes.add_items([DocEntry._make(fields) for fields in self._damaged.without("items", found)])
            self._applied.row = found[-1][1]

    def _apply_passages(self, connection: sqlite3.Connection) -> None:
        first = self._applied.passage
        cursor = connection.execute(_NEW_PASSAGES, (first,))
        while batch := cursor.fetchmany(_BATCH_SIZE):
            found = self._of_intact_items(self._damaged.without("passages", batch))
            terms = unpack_terms([(hashes, counts, length) for _, _, hashes, counts, length in found])
            self.indexes.add_passages([passage for passage, *_ in found], [row for _, row, *_ in found], terms)
            self._applied.passage = batch[-1][1]
        # The vectors of passages that still wait for them are announced in `changes`.
        cursor = connection.execute(f"{_VECTORS} > ? AND {_OF_VISIBLE_ITEMS} ORDER BY passage", (first,))
        while vectors := cursor.fetchmany(_BATCH_SIZE):
            self._add_vectors(vectors)

    def _of_intact_items(self, passages: list[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
        """Return the passages whose items are in the indexes."""
        damaged = self._damaged.of("items")
        if not damaged:
            return passages
        self._left_out |= {passage for passage, row, *_ in passages if row in damaged}
        return [each for each in passages if each[1] not in damaged]

    def _apply_changes(self, connection: sqlite3.Connection) -> None:
        query = "SELECT number, row, kind FROM changes WHERE number > ? ORDER BY number"
        changes = connection.execute(query, (self._applied.change,)).fetchall()
        if not changes:
            return
        self.indexes.remove(sorted_rows(self._gone(connection, changes)))
        embedded = sorted_rows(row for _, row, kind in changes if kind == "embedded")
        self._read_vectors(connection, self.indexes.passages_without_vector(embedded))
        self._applied.change = changes[-1][0]

    def _read_vectors(self, connection: sqlite3.Connection, passages: Rows) -> None:
        """Add the vectors of some passages, as far as the database has them."""
        for start in range(0, len(passages), _BATCH_SIZE):
            part = passages[start : start + _BATCH_SIZE].tolist()
            marks = ", ".join("?" * len(part))
            query = f"{_VECTORS} IN ({marks}) AND {_OF_VISIBLE_ITEMS} ORDER BY passage"
            if found := connection.execute(query, part).fetchall():
                self._add_vectors(found)

    def _gone(self, connection: sqlite3.Connection, changes: Sequence[Recorded]) -> set[int]:  # noqa: ARG002 - of a view
        """Return the rows that are no longer there after some changes."""
        return {row for _, row, kind in changes if kind == "deleted"}

    def _add_vectors(self, selected: list[tuple[bool, int, bytes]]) -> None:
        found = self._damaged.without("vectors", selected)
        if left_out := self._left_out | self._damaged.of("passages"):
            found = [each for each in found if each[0] not in left_out]
        if not found:
            return
        passages: Rows = np.array([passage for passage, _ in found], dtype=np.int64)
        matrix = decode_vectors([raw for _, raw in found])
        usable = are_unit(matrix)
        for passage in passages[~usable].tolist():
            self._damaged.add("vectors", passage)
        self.indexes.add_vectors(passages[usable], matrix[usable])

    def save(self, writer: sqlite3.Connection) -> None:
        """End the work in the background, and write the snapshot if it would save the next start some work."""
        locked(self._lock, lambda: self._save(writer))

    def drop_snapshot(self) -> None:
        """Remove the snapshot, which the indexes in memory do not need; the next closing may write another."""

        def drop() -> None:
            if self._snapshot_path is not None:
                self._snapshot_path.unlink(missing_ok=True)
                self._in_snapshot, self._approximate_in_snapshot = 0, False

        locked(self._lock, drop)

    def _save(self, writer: sqlite3.Connection) -> None:
        self.indexes.close()
        if self._snapshot_path is None or self._moment is None or not self._is_worth_saving():
            return
        token = uuid4().hex
        try:
            if not sealed_transaction(writer, lambda: self._claim_snapshot(writer, token)):
                return
            # On a disk that is nearly full, the database's own pages come first.
            writer.execute("PRAGMA wal_checkpoint(PASSIVE)")
        except sqlite3.Error as error:
            _LOG.warning("%s: the index snapshot was not written (%s).", self._snapshot_path, error)
            return
        applied = {name: getattr(self._applied, name) for name in _Watermarks.__slots__}
        state = SnapshotState(
            token=token,
            watermarks={"generation": self._generation, **applied},
            expired_until=self.indexes.expired_until,
        )
        if save_snapshot(self._snapshot_path, self.indexes.parts(), state):
            self._note_snapshot()

    def _claim_snapshot(self, writer: sqlite3.Connection, token: str) -> bool:
        """Record a snapshot's token; return False where the indexes, which only mask rows, hold what was erased."""
        if erasures_of(read_meta(writer)) != self._erasures:
            return False
        set_meta(writer, "snapshot", token)
        return True

    def _note_snapshot(self) -> None:
        self._in_snapshot, self._approximate_in_snapshot = self.indexes.size, self.indexes.approximate

    def _is_worth_saving(self) -> bool:
        if self.indexes.approximate and not self._approximate_in_snapshot:
            return True
        unsaved = abs(self.indexes.size - self._in_snapshot)
        return unsaved >= _SNAPSHOT_AFTER and unsaved >= self._in_snapshot // 10


def erasures_of(meta: Meta) -> int:
    """Return the number of erasures that a database has seen."""
    return int(meta.get("erasures") or 0)


def sorted_rows(rows: Iterable[int]) -> Rows:
    """Return row numbers in ascending order, each once."""
    return np.array(sorted(set(rows)), dtype=np.int64)
