"""The SQLite collection: rows, full text and embeddings in one file, written in one transaction.

Several processes may use the file at once (WAL). The search indexes are a cache in memory (`cache.py`).
"""

from __future__ import annotations

import sqlite3
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Final

from devmem.collections.attachments import AttachmentFiles
from devmem.collections.protocol import CollectionInfo, Unique
from devmem.collections.sqlite import database, model_check, rows, writes
from devmem.collections.sqlite.database import MEMORY, Durability
from devmem.collections.sqlite.follower import SearchCache
from devmem.collections.sqlite.ownership import claim_file
from devmem.collections.sqlite.source import SqliteSource
from devmem.config import IndexConfig
from devmem.embedding import ModelIdentity, PassageEmbeddings
from devmem.errors import CollectionClosedError, CollectionUnwritableError
from devmem.model.items import MemoryItem, Vector
from devmem.model.results import Hit, HitGroup, SearchReport, WriteOutcome
from devmem.search.pipeline import SearchPipeline
from devmem.search.query import Filter, SearchQuery

_SCAN_AT_ONCE: Final = 500


class SqliteCollection:
    """Items in a SQLite file, or in memory; see `Collection` for what the methods promise.

    Reading and writing use a connection each, so a search does not wait for another process's write.
    """

    def __init__(
        self,
        location: str | Path = MEMORY,
        *,
        model: ModelIdentity | None = None,
        store_type: str | None = None,
        durability: Durability = "full",
        index: IndexConfig | None = None,
        busy_timeout: float = 30.0,
        clock: Callable[[], float] = time.time,
    ) -> None:
        """Open the collection, and make it when it is not there.

        Args:
            location: path of the file, or `:memory:`.
            model: what makes the embeddings; None searches by text alone and lets new items wait.
            store_type: recorded in a new file; a file of another type of store is refused.
            durability: `full` survives power loss, `normal` the death of the process.
            index: how vectors are searched; None takes the defaults.
            busy_timeout: seconds to wait for another process's write.
            clock: gives the time in seconds since the epoch, for expiry.

        Raises:
            CollectionDamagedError, CollectionUnwritableError, CollectionBusyError: the file cannot be used.
            CollectionInUseError: it holds the items of another store type.
            EmbeddingMismatchError: its embeddings were made by another model.
        """
        self.location = str(location)
        self._clock, self._closed = clock, False
        self._model = model.name if model else None
        self._in_file = self.location != MEMORY
        if self._in_file:
            database.make_place(self.location)
        self._attachments = AttachmentFiles(Path(self.location + ".files")) if self._in_file else None
        self._cache = SearchCache(Path(self.location + ".faiss") if self._in_file else None, index)
        self._write_lock = threading.RLock()
        self._read_lock = threading.RLock() if self._in_file else self._write_lock
        with database.worded(self.location):
            self._writer, self._reader = self._connect(
                lambda: database.open_connection(self.location, durability, busy_timeout), model, store_type
            )
        self._file = database.file_identity(self.location) if self._in_file else None

    def _connect(
        self, connect: Callable[[], sqlite3.Connection], model: ModelIdentity | None, store_type: str | None
    ) -> tuple[sqlite3.Connection, sqlite3.Connection]:
        """Open the connections for writing and for reading; in memory they are one."""
        writer = connect()
        try:
            database.prepare(writer, self.location, store_type)
            self._has_model = claim_file(writer, self.location, model, store_type)
            return writer, connect() if self._in_file else writer
        except BaseException:
            writer.close()
            raise

    @contextmanager
    def _writing(self) -> Iterator[sqlite3.Connection]:
        with self._write_lock:
            self._check_open()
            with database.worded(self.location), writes.letting_go(self._writer, self._attachments):
                if self._in_file and database.file_identity(self.location) != self._file:
                    raise CollectionUnwritableError(
                        self.location,
                        "the file was moved, deleted or replaced while it was open; nothing was written: "
                        "open the store again.",
                    )
                yield self._writer

    @contextmanager
    def _reading(self) -> Iterator[sqlite3.Connection]:
        with self._read_lock:
            self._check_open()
            with database.worded(self.location), database.snapshot(self._reader):
                yield self._reader

    def _check_open(self) -> None:
        if self._closed:
            raise CollectionClosedError(self.location, "the collection was closed.")

    def add(
        self,
        items: Sequence[MemoryItem],
        *,
        unique: Unique = Unique.ID,
        embeddings: Mapping[str, PassageEmbeddings] | None = None,
    ) -> list[WriteOutcome]:
        """Store the items, all or none of them."""
        if not items:
            return []
        with self._writing() as connection:
            writes.purge_expired(connection, self._attachments, self._clock())
            known = embeddings or {}
            made = (writes.embeddings_of(item, known) for item in items)
            model_check.check_embeddings(connection, self.location, self._model, made)
            batch = writes.Batch(connection, has_model=self._has_model, attachments=self._attachments, embeddings=known)
            return [batch.add(item, unique) for item in items]

    def find(self, query: SearchQuery) -> SearchReport:
        """Return the best items, best first, and how they were found."""
        with self._searching(query) as search:
            report = search.run(explain=query.explain) if search else SearchReport()
        return replace(report, hits=tuple(map(self._shown, report.hits)))

    def search(self, query: SearchQuery) -> list[Hit]:
        """Return the hits of `find` alone."""
        return list(self.find(query).hits)

    def conversations(self, query: SearchQuery, *, hits_each: int = 3) -> list[HitGroup]:
        """Give the conversations that the query is about, best first, each with its best items."""
        with self._searching(query) as search:
            groups = search.conversations(hits_each) if search and hits_each > 0 else []
        return [replace(group, hits=tuple(map(self._shown, group.hits))) for group in groups]

    @contextmanager
    def _searching(self, query: SearchQuery) -> Iterator[SearchPipeline | None]:
        """Bring the indexes up to date and prepare the search; None when there is nothing to rank by."""
        if query.limit < 1 or (query.vector is None and not query.text.strip()):
            yield None
            return
        with self._reading() as connection:
            self._cache.follow(connection)
            if query.vector is not None:
                self._check_query(query.vector)
            now = self._clock()
            yield SearchPipeline(SqliteSource(connection, self._cache, now), query, now)

    def _shown(self, hit: Hit) -> Hit:
        item = self._brought_back(hit.item)
        return hit if item is hit.item else replace(hit, item=item)

    def _check_query(self, vector: Vector) -> None:
        model_check.check_name(self.location, made=self._cache.model, given=self._model)
        if self._cache.vectors is not None:
            model_check.check_length(self.location, made=self._cache.vectors.dimension, given=len(vector))

    def _brought_back(self, item: MemoryItem) -> MemoryItem:
        return self._attachments.bring_back(item) if self._attachments else item

    def get(self, ids: Sequence[str]) -> list[MemoryItem]:
        """Give the items that are there, in the order of `ids`."""
        found: dict[str, MemoryItem] = {}
        with self._reading() as connection:
            for wanted in ids:
                row = connection.execute(f"{rows.SELECT_WHOLE} WHERE id = ?", (rows.kept_text(wanted),)).fetchone()
                if row is not None:
                    found[wanted] = self._brought_back(rows.from_row(*row[1:]))
        return [found[wanted] for wanted in ids if wanted in found]

    def recent(self, limit: int, where: Filter | None = None) -> list[MemoryItem]:
        """Give the items stored last, newest first."""
        condition, values = rows.where_sql(where or Filter(), self._clock())
        query = f"{rows.SELECT_WHOLE} WHERE {condition} ORDER BY items.row DESC LIMIT ?"
        with self._reading() as connection:
            found = connection.execute(query, (*values, max(limit, 0))).fetchall()
        return [self._brought_back(rows.from_row(*row[1:])) for row in found]

    def scan(self, where: Filter | None = None) -> Iterator[MemoryItem]:
        """Give every item in the order in which they were stored."""
        condition, values = rows.where_sql(where or Filter(), self._clock())
        query = f"{rows.SELECT_WHOLE} WHERE items.row > ? AND {condition} ORDER BY items.row LIMIT {_SCAN_AT_ONCE}"
        last = 0
        while True:
            # No lock is held between the parts: who reads slowly keeps nobody from writing.
            with self._reading() as connection:
                found = connection.execute(query, (last, *values)).fetchall()
            if not found:
                return
            yield from (self._brought_back(rows.from_row(*row[1:])) for row in found)
            last = found[-1][0]

    def delete(self, *, ids: Sequence[str] | None = None, where: Filter | None = None) -> int:
        """Delete the named or the matching items."""
        if ids is None and where is None:
            return 0
        with self._writing() as connection:
            return writes.delete(connection, self._attachments, ids, where, self._clock())

    def clear(self) -> int:
        """Delete everything."""
        with self._writing() as connection:
            return writes.delete_rows(connection, self._attachments, "1", [])

    def trim(self, *, keep: int | None = None, stored_before: float | None = None) -> int:
        """Delete all but the newest, and those that are too old."""
        with self._writing() as connection:
            return writes.trim(connection, self._attachments, keep, stored_before)

    def count(self, where: Filter | None = None) -> int:
        """Count the items that a search could find."""
        with self._reading() as connection:
            now = self._clock()
            if (where is None or where.everything()) and not writes.any_expired(connection, now):
                return int(database.read_meta(connection)["count"] or 0)
            condition, values = rows.where_sql(where or Filter(), now)
            return int(connection.execute(f"SELECT count(*) FROM items WHERE {condition}", values).fetchone()[0])

    def waiting(self, limit: int) -> list[MemoryItem]:
        """Give items whose embedding is still to be made, oldest first."""
        query = f"{rows.SELECT_WHOLE} WHERE waiting ORDER BY items.row LIMIT ?"
        with self._reading() as connection:
            found = connection.execute(query, (limit,)).fetchall()
        return [self._brought_back(rows.from_row(*row[1:])) for row in found]

    def embeddings(self, ids: Sequence[str]) -> dict[str, PassageEmbeddings]:
        """Give what a model made of those of the items that are embedded, by id."""
        with self._reading() as connection:
            found = {wanted: rows.read_embeddings(connection, wanted) for wanted in ids}
        return {wanted: encoding for wanted, encoding in found.items() if encoding is not None}

    def set_embeddings(self, embeddings: Mapping[str, PassageEmbeddings]) -> int:
        """Give waiting items their embeddings."""
        with self._writing() as connection:
            model_check.check_embeddings(connection, self.location, self._model, embeddings.values())
            return writes.set_embeddings(connection, embeddings)

    def replace_model(self, model: str, dimension: int | None) -> int:
        """Forget every embedding and name the model of the new ones."""
        with self._writing() as connection:
            waiting = writes.replace_model(connection, model, dimension)
        self._model, self._has_model = model, True
        return waiting

    def info(self) -> CollectionInfo:
        """Say what the collection is and how much it holds."""
        with self._reading() as connection:
            meta = database.read_meta(connection)
            waiting = connection.execute("SELECT count(*) FROM items WHERE waiting").fetchone()[0]
        model, dimension = meta.get("model"), meta.get("dimension")
        return CollectionInfo(
            location=self.location,
            items=int(meta["count"] or 0),
            waiting=int(waiting) if model else 0,
            size_bytes=self._size(),
            embedding=str(model) if model else None,
            dimension=int(dimension) if dimension else None,
        )

    def _size(self) -> int:
        if not self._in_file or self._attachments is None:
            return 0
        beside = [Path(self.location + suffix) for suffix in ("", "-wal", ".faiss")]
        return sum(file.stat().st_size for file in beside if file.exists()) + self._attachments.size_bytes()

    def close(self) -> None:
        """Write the index snapshot and release the files."""
        with self._write_lock, self._read_lock:
            if self._closed:
                return
            self._closed = True
            try:
                self._cache.close()
                self._cache.save(self._writer)
            finally:
                self._reader.close()
                self._writer.close()
