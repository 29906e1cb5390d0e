"""Following a SQLite database: applying to the indexes what was committed since, also by other processes.

New versions and passages are found by their numbers, which commit in order since SQLite has one writer at a time;
what is gone, and embeddings made later, through the `changes` table. A follower that missed too much (the table was
pruned, the model was replaced) builds the indexes again.
"""

from __future__ import annotations

import logging
import sqlite3
import threading
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final
from uuid import uuid4

import numpy as np

from devmem.config.store import IndexConfig
from devmem.forks import follow_forks
from devmem.search.indexes.columns import Rows, locked
from devmem.search.indexes.doc_values import DocEntry
from devmem.search.indexes.index_set import IndexReader, IndexSet, SnapshotState, load_indexes, save_snapshot
from devmem.storage.connections import read_transaction, write_transaction
from devmem.storage.reading import BATCH_SIZE
from devmem.storage.sql import DOC_COLUMNS
from devmem.storage.sqlite.compact_rows import unpack_terms
from devmem.storage.sqlite.database import read_meta, set_meta
from devmem.storage.sqlite.tables import check_dimension, decode_vectors
from devmem.storage.tables import CURRENT, State

_LOG: Final = logging.getLogger(__name__)
_BATCH_SIZE: Final = 5000
_SNAPSHOT_AFTER: Final = 256
"""A snapshot that lacks fewer rows than this is not written again."""
_NOTHING: Final = (0, False)
_VERSION: Final = (
    "SELECT (SELECT value FROM meta WHERE key = 'generation'), "
    "(SELECT seq FROM sqlite_sequence WHERE name = 'items'), (SELECT seq FROM sqlite_sequence WHERE name = 'changes')"
)
"""Differs between two moments if what the indexes hold differs."""
_NUMBERS: Final = len(DocEntry._fields) - 1
"""Columns of `DOC_COLUMNS` before the strings."""
_VECTORS: Final = "SELECT passage, vector FROM vectors WHERE passage"

Recorded = tuple[int, int, str]
"""Number of a change, the row that changed, and the kind: `gone`, `hidden` or `embedded`."""
Meta = Mapping[str, str | int | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadSnapshot:
    """One moment of the database."""

    indexes: IndexReader
    model: str | None
    """Name of the model that made the embeddings."""
    generation: int
    """Grows when all embeddings are replaced, which keep the numbers of their passages."""


@dataclass(slots=True)
class _Watermarks:
    """How far the indexes have come; what is beyond is applied next."""

    row: int = 0
    passage: int = 0
    change: int = 0


class SqliteFollower:
    """Keeps an `IndexSet` up to date with a state of a SQLite database. Thread-safe."""

    def __init__(
        self,
        config: IndexConfig | None,
        *,
        state: State = CURRENT,
        snapshot_path: Path | None = None,
        current: SqliteFollower | None = None,
    ) -> None:
        """Start empty.

        Args:
            config: how vectors are searched; None takes the defaults.
            state: what the indexes show.
            snapshot_path: of the indexes' snapshot; None for a database in memory, and for another state than now.
            current: follows the current state, whose indexes another state begins with; None where it begins with none.
        """
        self._lock = threading.Lock()
        self._config = config
        self.indexes = IndexSet(config)
        """Only to be changed or read while no other thread follows."""
        self._moment: ReadSnapshot | None = None
        """None as long as the indexes are not those of the database."""
        self._generation = 0
        """Generation of the database that the indexes are of."""
        self._state, self._snapshot_path, self._current = state, snapshot_path, current
        self._applied = _Watermarks()
        self._erasures = 0
        """Number of erasures that the indexes began after: they hold nothing of what these erased."""
        self._version: object = None
        """Version of the database that the moment stands for."""
        self._in_snapshot = _NOTHING
        """Size of the indexes in the snapshot, and whether they are approximate."""
        follow_forks(self)

    def restart_in_child(self) -> None:
        """Build the indexes again if another thread of the parent was changing them."""
        if self._lock.locked():
            self._moment = None

    def follow(self, connection: sqlite3.Connection, now: float) -> ReadSnapshot:
        """Bring the indexes up to date with the connection's read transaction, and return them as of that moment.

        This has to be the first statement of the transaction: it fixes the moment that the transaction reads while no
        other thread can bring the indexes further.

        Args:
            connection: in a transaction.
            now: items that expired until then are not in the indexes; seconds since the epoch.
        """

        def follow() -> ReadSnapshot:
            if self._current is None:
                return self._follow(connection, now)
            # Held before the transaction's first statement: the current indexes, which it may copy, are not beyond it.
            return locked(self._current._lock, lambda: self._follow(connection, now))  # noqa: SLF001 - of the same class

        return locked(self._lock, follow)

    def _follow(self, connection: sqlite3.Connection, now: float) -> ReadSnapshot:
        try:
            if self._moment is not None and now < self.indexes.expired_until:
                # The clock went back: items that had expired are there again.
                self._moment = None
            version = connection.execute(_VERSION).fetchone()
            changed, self._version = version != self._version, version
            model = self._catch_up(connection, now) if changed or self._moment is None else self._moment.model
            self.indexes.expire(now)
        except BaseException:
            # What was applied in part would be applied twice: the next call starts again.
            self._moment = None
            raise
        self._moment = ReadSnapshot(indexes=self.indexes.reader(), model=model, generation=self._generation)
        return self._moment

    def _catch_up(self, connection: sqlite3.Connection, now: float) -> str | None:
        """Apply what was committed since the moment, or begin again without one; return the model's name."""
        meta = read_meta(connection)
        generation, floor = _numbers_of(meta)
        if self._moment is None or generation != self._generation or self._applied.change < floor:
            self._start_again(connection, meta, now)
        else:
            self._apply_items(connection, f"row > {self._applied.row}")
            self._apply_changes(connection)
        model = meta.get("model")
        return None if model is None else str(model)

    def _start_again(self, connection: sqlite3.Connection, meta: Meta, now: float) -> None:
        """Start with the snapshot, or with the current indexes, where there are any, and with nothing otherwise."""
        self.indexes.close()
        generation, floor = _numbers_of(meta)
        self._generation, self._erasures = generation, erasures_of(meta)
        if self._current is not None:
            self.indexes, self._applied = self._current.copied(connection, now)
            self._read_vectors(connection, self.indexes.passages_without_vector())
            hidden = f"SELECT row FROM items WHERE {self._state.hidden}"
            self.indexes.remove(sorted_rows(row for (row,) in connection.execute(hidden)))
            if self._state.is_past:
                self.indexes.compact()
            # What expired since a state of the past is in it, but not in the current indexes.
            until, self.indexes.expired_until = self.indexes.expired_until, -float("inf")
            self._apply_items(connection, self._state.added)
            if until > now:
                self._apply_items(connection, f"slot = 'now' AND expires_at > {now!r} AND expires_at <= {until!r}")
            return
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
            self._in_snapshot = self.indexes.size, self.indexes.approximate
            self._read_vectors(connection, self.indexes.passages_without_vector())
        self._apply_items(connection, f"row > {self._applied.row}")
        self._apply_changes(connection)

    def copied(self, connection: sqlite3.Connection, now: float) -> tuple[IndexSet, _Watermarks]:
        """Return a copy of the indexes as of the connection's transaction, and how far they have come."""
        self._follow(connection, max(now, self.indexes.expired_until))
        return self.indexes.copy(), replace(self._applied)

    def _apply_items(self, connection: sqlite3.Connection, which: str) -> None:
        """Add the versions of the state that match a condition, with their passages and vectors."""
        shown = f"{which} AND {self._state.shown}"
        cursor = connection.execute(f"SELECT {DOC_COLUMNS} FROM items WHERE {shown} ORDER BY row")
        while found := cursor.fetchmany(_BATCH_SIZE):
            self.indexes.add_items([DocEntry._make((*fields[:_NUMBERS], fields[_NUMBERS:])) for fields in found])
            self._applied.row = max(self._applied.row, found[-1][0])
        of_shown = f"row IN (SELECT row FROM items WHERE {shown})"
        if which.startswith("row >"):
            of_shown = (
                f"passage > {self._applied.passage} AND "
                f"EXISTS (SELECT 1 FROM items WHERE items.row = passages.row AND {self._state.shown})"
            )
        columns = "passage, row, term_hashes, term_counts, term_length"
        cursor = connection.execute(f"SELECT {columns} FROM passages WHERE {of_shown} ORDER BY passage")
        while batch := cursor.fetchmany(_BATCH_SIZE):
            terms = unpack_terms([(hashes, counts, length) for _, _, hashes, counts, length in batch])
            numbers = [passage for passage, *_ in batch]
            self.indexes.add_passages(numbers, [row for _, row, *_ in batch], terms)
            self._applied.passage = max(self._applied.passage, numbers[-1])
            self._read_vectors(connection, np.array(numbers, dtype=np.int64))

    def _apply_changes(self, connection: sqlite3.Connection) -> None:
        query = "SELECT number, row, kind FROM changes WHERE number > ? ORDER BY number"
        changes = connection.execute(query, (self._applied.change,)).fetchall()
        if not changes:
            return
        self.indexes.remove(sorted_rows(self._gone(connection, changes)))
        embedded = sorted_rows(row for _, row, kind in changes if kind == "embedded")
        self._read_vectors(connection, self.indexes.passages_without_vector(embedded))
        self._applied.change = changes[-1][0]

    def _gone(self, connection: sqlite3.Connection, changes: Sequence[Recorded]) -> set[int]:
        """Return the rows that are no longer shown after some changes."""
        if self._state is CURRENT:
            return {row for _, row, kind in changes if kind == "gone"}
        changed = sorted({row for _, row, kind in changes if kind != "embedded"})
        gone = set(changed)
        for start in range(0, len(changed), BATCH_SIZE):
            part = changed[start : start + BATCH_SIZE]
            query = f"SELECT row FROM items WHERE row IN ({', '.join('?' * len(part))}) AND {self._state.shown}"
            gone.difference_update(row for (row,) in connection.execute(query, part))
        return gone

    def _read_vectors(self, connection: sqlite3.Connection, passages: Rows) -> None:
        """Add the vectors of some passages, as far as the database has them."""
        for start in range(0, len(passages), _BATCH_SIZE):
            part = passages[start : start + _BATCH_SIZE]
            first, last = int(part[0]), int(part[-1])
            # A range is read several times as fast as single rows; of others than these it has few.
            is_range = last - first < 2 * len(part)
            which = f"BETWEEN {first} AND {last}" if is_range else f"IN ({', '.join(map(str, part.tolist()))})"
            found = connection.execute(f"{_VECTORS} {which} ORDER BY passage").fetchall()
            if is_range and found:
                wanted = set(part.tolist())
                found = [each for each in found if each[0] in wanted]
            if found:
                numbers: Rows = np.array([passage for passage, _ in found], dtype=np.int64)
                vectors = decode_vectors([raw for _, raw in found])
                check_dimension(vectors.shape[1], self.indexes.dimension or vectors.shape[1])
                self.indexes.add_vectors(numbers, vectors)

    def save(self, writer: sqlite3.Connection) -> None:
        """End the work in the background, and write the snapshot if it would save the next start some work."""
        locked(self._lock, lambda: self._save(writer))

    def drop_snapshot(self) -> None:
        """Remove the snapshot, which the indexes in memory do not need; the next closing may write another."""

        def drop() -> None:
            if self._snapshot_path is not None:
                self._snapshot_path.unlink(missing_ok=True)
                self._in_snapshot = _NOTHING

        locked(self._lock, drop)

    def _save(self, writer: sqlite3.Connection) -> None:
        self.indexes.close()
        if self._snapshot_path is None or self._moment is None:
            return
        token = uuid4().hex
        try:
            read_transaction(writer, self._forget_erased)
            size, is_approximate = self._in_snapshot
            is_new = self.indexes.approximate and not is_approximate
            if not is_new and abs(self.indexes.size - size) < max(_SNAPSHOT_AFTER, size // 10):
                return
            if not write_transaction(writer, lambda _: self._claim_snapshot(writer, token)):
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
            self._in_snapshot = self.indexes.size, self.indexes.approximate

    def _forget_erased(self, connection: sqlite3.Connection) -> None:
        """Build the indexes again after an erasure: they only mask rows, and its snapshot went with what was erased."""
        meta = read_meta(connection)
        if erasures_of(meta) != self._erasures:
            self._in_snapshot = _NOTHING
            self._start_again(connection, meta, float("inf"))

    def _claim_snapshot(self, writer: sqlite3.Connection, token: str) -> bool:
        """Record a snapshot's token; return False where the indexes, which only mask rows, hold what was erased."""
        if erasures_of(read_meta(writer)) != self._erasures:
            return False
        set_meta(writer, "snapshot", token)
        return True


def _numbers_of(meta: Meta) -> tuple[int, int]:
    """Return the generation of a database, and the last change that is no longer recorded."""
    return int(meta.get("generation") or 0), int(meta.get("changes_floor") or 0)


def erasures_of(meta: Meta) -> int:
    """Return the number of erasures that a database has seen."""
    return int(meta.get("erasures") or 0)


def sorted_rows(rows: Iterable[int]) -> Rows:
    """Return row numbers in ascending order, each once."""
    return np.array(sorted(set(rows)), dtype=np.int64)
