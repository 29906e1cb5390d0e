"""Removing from the indexes in a database what they still have of items that are gone: hashes of words, and codes.

Segments and blocks never change, so one of which something was deleted is made again without it, each in a transaction
of its own. An erasure counts up `erased` in the store's row of `search_states`, in the transaction that removes the
items; until `cleaned` has the same count, whoever opens the store cleans its indexes.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from functools import partial
from typing import Final, TypeVar

from devmem.collections.postgres.claim import check_store
from devmem.collections.postgres.database import Connection
from devmem.collections.postgres.server.background import run_logged
from devmem.collections.postgres.server.coding import block_numbers, rewrite_sparse_block
from devmem.collections.postgres.server.joining import LEAST_DEAD
from devmem.collections.postgres.server.merging import rewrite_sparse_segment, segment_numbers
from devmem.collections.postgres.transactions import Database

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
            # A store that is dropped meanwhile would keep what the step makes for good.
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
