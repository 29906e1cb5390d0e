"""Keeping the indexes of a store in a database in order, beside the searches and writes of this process."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from typing import Final, TypeVar

from devmem.forks import abandon, follow_forks
from devmem.storage.postgres.claim import check_store
from devmem.storage.postgres.database import Access, Connection, composed, connect, translate_errors
from devmem.storage.postgres.schema import key_of_lock, owns_tables
from devmem.storage.postgres.server.merging import (
    LATE,
    LEAST_DEAD,
    TAIL,
    block_numbers,
    join_codes,
    join_segments,
    merge_tail,
    rewrite_sparse_block,
    rewrite_sparse_segment,
    segment_numbers,
)
from devmem.storage.postgres.server.segments import UNMERGED
from devmem.storage.postgres.server.term_texts import run_logged
from devmem.storage.postgres.server.vector_codes import codes_size
from devmem.storage.postgres.server.vectors import MOST_COMPONENTS, build_hnsw, drop_hnsw, has_hnsw
from devmem.storage.postgres.transactions import Database

T = TypeVar("T")

_PAUSE: Final = 20.0
"""Seconds between the end of a cleaning in the background and the next one, for each second that it took."""


class IndexSteps:
    """Transactions that change the indexes of one store, for which neither searches nor writes wait."""

    def __init__(self, database: Database, location: str, store: int) -> None:
        self._database, self.location, self._store = database, location, store

    def run(self, operation: Callable[[Connection, int], T]) -> T:
        """Run an operation, given the number of the store, as one transaction.

        Raises:
            CollectionError: the store was dropped, or the database refuses.
        """

        def step(connection: Connection) -> T:
            # A store that is dropped meanwhile would keep what the step makes permanently.
            check_store(connection, self.location, self._store)
            return operation(connection, self._store)

        return self._database.write(step)

    def uncleaned(self) -> int | None:
        """Return the number of erasures, if the indexes were not cleaned after the last one."""
        query = "SELECT erased FROM search_states WHERE store = %s AND erased > cleaned"
        found = self._database.read(lambda connection: connection.execute(query, (self._store,)).fetchone())
        return None if found is None else int(found[0])


def note_erasure(connection: Connection, store: int) -> None:
    """Record, in the transaction that erases items, that the indexes may still have something of them."""
    connection.execute("UPDATE search_states SET erased = erased + 1 WHERE store = %s", (store,))


def rewrite_sparse(
    steps: IndexSteps, *, least: float = LEAST_DEAD, stopped: Callable[[], bool] = lambda: False
) -> bool:
    """Make those segments and blocks again of which more than the share `least` was deleted.

    Args:
        steps: runs the steps, one for each segment and block.
        least: share of the passages.
        stopped: whether to give up between two steps.

    Returns:
        Whether all were looked at.
    """
    for numbers_of, rewrite in ((segment_numbers, rewrite_sparse_segment), (block_numbers, rewrite_sparse_block)):
        for number in steps.run(numbers_of):
            if stopped():
                return False
            steps.run(partial(rewrite, number=number, least=least))
    return True


def clean_indexes(steps: IndexSteps, *, stopped: Callable[[], bool] = lambda: False) -> None:
    """Remove what the indexes have of items that are gone, if any were erased since they were cleaned last.

    Args:
        steps: runs the steps.
        stopped: whether to give up between two steps.

    Raises:
        CollectionError: the database refuses; the next who opens the store goes on.
    """
    erased = steps.uncleaned()
    if erased is not None and rewrite_sparse(steps, least=0.0, stopped=stopped):
        steps.run(partial(_note_cleaned, erased=erased))


def _note_cleaned(connection: Connection, store: int, erased: int) -> None:
    query = "UPDATE search_states SET cleaned = GREATEST(cleaned, %s) WHERE store = %s"
    connection.execute(query, (erased, store))


class IndexCleaner:
    """Cleans the indexes of one store in the background, in one thread. Thread-safe.

    The more time it takes the longer it waits for further erasures, so that a process which erases one item after the
    other does not make large segments again for each.
    """

    def __init__(self, steps: IndexSteps) -> None:
        """Do nothing yet."""
        self._steps = steps
        self._lock = threading.Lock()
        self._thread: threading.Timer | None = None
        """Waits, or cleans."""
        self._is_due = False
        """Whether something was erased since the last cleaning began."""
        self._not_before = 0.0
        self._closed = False
        follow_forks(self)

    def restart_in_child(self) -> None:
        """Leave what is due to the parent, whose thread this was."""
        self._thread, self._is_due = None, False

    def start(self) -> None:
        """Clean soon; what is erased until then is cleaned with it, and what is erased meanwhile after it."""
        with self._lock:
            self._is_due = True
            self._start_if_due()

    def _start_if_due(self) -> None:
        """Have a thread wait and clean, unless one does."""
        if self._closed or self._thread is not None or not self._is_due:
            return
        self._thread = threading.Timer(max(self._not_before - time.monotonic(), 0.0), self._run)
        self._thread.daemon = True
        self._thread.start()

    def _run(self) -> None:
        with self._lock:
            self._is_due = False
        began = time.monotonic()
        run_logged(self._clean, self._steps.location, self._is_closed)
        ended = time.monotonic()
        with self._lock:
            self._not_before = ended + _PAUSE * (ended - began)
            self._thread = None
            self._start_if_due()

    def _clean(self) -> None:
        clean_indexes(self._steps, stopped=self._is_closed)

    def _is_closed(self) -> bool:
        return self._closed

    def close(self) -> None:
        """End the work in the background after the step that is under way; what is left is done at the next opening."""
        with self._lock:
            self._closed, thread = True, self._thread
        if thread is not None:
            thread.cancel()
            thread.join()


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
        self._lock, self._working = threading.Lock(), threading.Lock()
        self._building: Connection | None = None
        self._start_thread()
        follow_forks(self)
        self._closed = False
        self._written = self._deleted = self._searched = 0
        self._texts = TAIL
        """Number of passages in segments when these were looked at last."""

    def _start_thread(self) -> None:
        """Have a thread for the work in the background, which the first work starts."""
        self._executor = ThreadPoolExecutor(max_workers=1, thread_name_prefix="devmem-postgres")
        self._running: Future[None] | None = None

    def restart_in_child(self) -> None:
        """Leave the work to the parent, and an HNSW index with the connection that builds it."""
        abandon(self._building)
        self._building = None
        self._start_thread()

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
