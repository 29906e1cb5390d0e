"""Keeping the indexes of a store in a database in order, beside the searches and writes of this process."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Final

from devmem.collections.postgres.database import Access, Connection, composed, connect
from devmem.collections.postgres.failures import translate_errors
from devmem.collections.postgres.locks import key_of_lock
from devmem.collections.postgres.row_security import owns_tables
from devmem.collections.postgres.server.background import run_logged
from devmem.collections.postgres.server.cleaning import IndexSteps, clean_indexes, rewrite_sparse
from devmem.collections.postgres.server.coding import LATE, join_codes
from devmem.collections.postgres.server.hnsw import MOST_COMPONENTS, build_hnsw, drop_hnsw, has_hnsw
from devmem.collections.postgres.server.merging import TAIL, join_segments, merge_tail
from devmem.collections.postgres.server.segments import UNMERGED
from devmem.collections.postgres.server.vector_codes import codes_size
from devmem.collections.postgres.transactions import Database

_EXACT_SEARCHES: Final = 20
"""Number of searches without the HNSW index after which a process builds it."""
_SMALL: Final = 20_000
"""Number of passages up to which deleted ones are looked for whenever the store is opened."""
_MOST_DEAD: Final = 8
"""A process looks for deleted passages when it deleted one in this many."""
_COUNT_TAIL: Final = (
    "SELECT count(*) FROM (SELECT "
    + UNMERGED.format(tables="search_states JOIN items ON items.store = search_states.store")
    + " UNION ALL SELECT "
    + LATE.format(tables="search_states JOIN changes ON changes.store = search_states.store")
    + " LIMIT %(limit)s) AS tail"
)


class IndexMaintenance:
    """Merges the tail, joins segments, and builds the HNSW index of one store. Thread-safe.

    One thread works at a time; several processes may do the same, each step under a lock of the store. Searches and
    writes do not wait for it, and are right without it, only slower.
    """

    def __init__(self, access: Access, database: Database, store: int, hnsw_from: int | None, codes_bytes: int) -> None:
        """Start nothing yet.

        Args:
            access: how the database is used, for the connection that builds the HNSW index.
            database: where the steps are transactions.
            store: number of the store.
            hnsw_from: number of vectors from which it has an HNSW index; None for never.
            codes_bytes: size of the codes of its vectors up to which these are searched, and no HNSW index is built.
        """
        self._codes_bytes = codes_bytes
        self._access, self._database, self._store, self._hnsw_from = access, database, store, hnsw_from
        self._steps = IndexSteps(database, str(access.location), store)
        self._executor = ThreadPoolExecutor(max_workers=1, thread_name_prefix="devmem-postgres")
        self._lock, self._working = threading.Lock(), threading.Lock()
        self._running: Future[None] | None = None
        self._building: Connection | None = None
        self._closed = False
        self._written = self._deleted = self._searched = 0
        self._texts = TAIL
        """Number of passages in segments when these were looked at last."""

    def tail_is_long(self, limit: int) -> bool:
        """Whether at least this many items are in no segment."""
        parameters = {"store": self._store, "limit": limit}
        return self._database.read(lambda connection: _count(connection, _COUNT_TAIL, parameters)) >= limit

    def note(self, *, written: int = 0, deleted: int = 0) -> None:
        """Count what this process wrote, and work in the background when that is enough."""
        with self._lock:
            self._written, self._deleted = self._written + written, self._deleted + deleted
            is_due = self._written >= TAIL or self._deleted >= min(TAIL, max(self._texts // _MOST_DEAD, 1))
        if is_due:
            self.start()

    def note_exact_search(self) -> None:
        """Count a search that compared with all vectors; a process that goes on with it is better off with an index.

        One that asks a single question has no use for an index that takes minutes.
        """
        with self._lock:
            self._searched += 1
            is_due = self._searched >= _EXACT_SEARCHES
            self._searched = 0 if is_due else self._searched
        if is_due and self._hnsw_from is not None:
            self.start()

    def start(self, *, hnsw: bool = True) -> None:
        """Work in the background, unless that is going on; `hnsw` is whether to build that index too."""
        with self._lock:
            if not self._closed and (self._running is None or self._running.done()):
                self._running = self._executor.submit(
                    run_logged,
                    self._run_due if hnsw else self.run_segments,
                    str(self._access.location),
                    self._is_closed,
                )

    def run(self) -> None:
        """Do now what there is to do, however little; an HNSW index that another process builds is not waited for.

        Raises:
            CollectionError: the database refuses.
        """
        self.run_segments(tail=1)
        clean_indexes(self._steps)
        with self._working:
            self._build_hnsw()

    def _run_due(self) -> None:
        self.run_segments()
        with self._working:
            self._build_hnsw()

    def run_segments(self, *, tail: int | None = None) -> None:
        """Merge the tail, if at least `tail` items are in it, and join segments as far as that is due.

        `tail` is by default the number from which the background merges.
        """
        with self._working:
            self._make_segments(TAIL if tail is None else tail)

    def _make_segments(self, tail: int) -> None:
        with self._lock:
            deleted, self._written, self._deleted = self._deleted, 0, 0
        if self.tail_is_long(tail):
            self._steps.run(merge_tail)
        for join in (join_segments, join_codes):
            while not self._closed and self._steps.run(join):
                pass
        if self._is_small() or deleted:
            rewrite_sparse(self._steps, stopped=self._is_closed)

    def _is_closed(self) -> bool:
        return self._closed

    def _is_small(self) -> bool:
        """Whether all segments are so small that looking for deleted passages costs next to nothing."""
        query = "SELECT COALESCE(sum(texts), 0)::bigint FROM segments WHERE store = %(store)s"
        texts = self._database.read(lambda connection: _count(connection, query, {"store": self._store}))
        with self._lock:
            self._texts = texts
        return texts <= _SMALL

    def _build_hnsw(self) -> None:
        if self._closed or self._hnsw_from is None or not self._database.read(self._needs_hnsw):
            return
        with translate_errors(str(self._access.location)):
            connection = connect(self._access)
            try:
                with self._lock:
                    self._building = connection
                self._build_hnsw_on(connection)
            finally:
                with self._lock:
                    self._building = None
                connection.close()

    def _build_hnsw_on(self, connection: Connection) -> None:
        key = key_of_lock(connection, "hnsw", self._store)
        ((locked,),) = connection.execute("SELECT pg_try_advisory_lock(%s)", (key,)).fetchall()
        dimension = self._dimension(connection)
        if not locked or dimension is None or self._closed:
            return
        build_hnsw(connection, self._store, dimension)
        # Another process may have replaced the model before the index was there to be dropped.
        if self._dimension(connection) != dimension:
            drop_hnsw(connection, self._store)

    def _needs_hnsw(self, connection: Connection) -> bool:
        # Only the owner of a table may give it an index.
        if has_hnsw(connection, self._store) or not owns_tables(connection):
            return False
        if (self._dimension(connection) or 0) > MOST_COMPONENTS:
            return False
        query = "SELECT count(*) FROM (SELECT FROM vectors WHERE store = %(store)s LIMIT %(limit)s) AS first"
        dimension = self._dimension(connection) or 1
        limit = max(self._hnsw_from or 0, self._codes_bytes // codes_size(1, dimension) + 1)
        return _count(connection, query, {"store": self._store, "limit": limit}) >= limit

    def _dimension(self, connection: Connection) -> int | None:
        found = connection.execute("SELECT dimension FROM stores WHERE store = %s", (self._store,)).fetchone()
        return found[0] if found else None

    def close(self) -> None:
        """End the work in the background: the step that is under way is finished, an HNSW index is given up."""
        with self._lock:
            self._closed = True
            if self._building is not None:
                self._building.cancel()
        self._executor.shutdown(wait=True, cancel_futures=True)


def _count(connection: Connection, query: str, parameters: Mapping[str, object]) -> int:
    ((count,),) = connection.execute(composed(query), parameters).fetchall()
    return int(count)
