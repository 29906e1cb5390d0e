"""The index of a store's vectors: built in the background once searches of a large store would be faster with it.

HNSW: Malkov and Yashunin, "Efficient and robust approximate nearest neighbor search using Hierarchical Navigable Small
World graphs" (2018), as pgvector has it. Each large store has its own, as one index over many stores finds next to
nothing of one of them; its components have 16 bits, and what it finds is compared exactly.
"""

from __future__ import annotations

import logging
import math
import threading
import time
from contextlib import closing
from typing import Final

from psycopg import sql

from devmem.errors import CollectionClosedError, CollectionError
from devmem.forks import abandon, follow_forks
from devmem.storage.postgres.database import Access, Connection, composed, connect, translate_errors
from devmem.storage.postgres.schema import owns_tables, table_of
from devmem.storage.postgres.transactions import Transactions

_LOG: Final = logging.getLogger(__name__)
_EXACT_SEARCHES: Final = 20
"""Number of searches without the index after which a process builds it: a single question is answered without."""
_KNOWN_FOR: Final = 60
"""Number of seconds for which a process does not ask again whether the index is there."""
MOST_COMPONENTS: Final = 4_000
"""Length of the longest vectors that pgvector indexes at 16 bits a component."""


def index_name(store: int) -> str:
    """Return the name of a store's index."""
    return f"vectors_hnsw_{store:d}"


def hnsw_operand(dimension: int) -> str:
    """Return the expression that is indexed."""
    return f"(vector::halfvec({dimension:d}))"


def hnsw_condition(store: int, dimension: int) -> str:
    """Return which vectors are indexed; a query has to name the same.

    While the index is made, the model may be replaced: vectors of another length are left out of it, not refused.
    """
    return f"store = {store:d} AND is_current AND vector_dims(vector) = {dimension:d}"


def drop_hnsw(connection: Connection, store: int) -> None:
    """Drop a store's index, where there is one; its vectors may have another length afterwards."""
    connection.execute(sql.SQL("DROP INDEX IF EXISTS {}").format(sql.Identifier(connection.schema, index_name(store))))


_IS_THERE: Final = f"""
SELECT FROM pg_index WHERE indexrelid = {table_of("%(index)s")} AND indisvalid UNION ALL
SELECT FROM pg_stat_progress_create_index WHERE relid = 'vectors'::regclass AND index_relid = {table_of("%(index)s")}
"""
_STATE: Final = """
SELECT dimension, %(least)s <= (
    SELECT count(*) FROM (SELECT 1 FROM vectors WHERE store = %(store)s AND is_current LIMIT %(least)s) AS first)
FROM stores WHERE store = %(store)s
"""


class HnswIndex:
    """The index of one store's vectors. Thread-safe."""

    def __init__(self, access: Access, transactions: Transactions, least: int | None) -> None:
        """Start nothing yet.

        Args:
            access: how the database is used, for the connection that builds the index.
            transactions: those of the store.
            least: number of vectors from which it has an index; None for never.
        """
        self._access, self._transactions, self._store, self.least = access, transactions, access.location.number, least
        self._lock, self._one_build = threading.Lock(), threading.Lock()
        self._searches, self._closed = 0, False
        self._seen = -math.inf
        self._thread: threading.Thread | None = None
        self._building: Connection | None = None
        follow_forks(self)

    def restart_in_child(self) -> None:
        """Leave an index that is being built to the parent, whose connection it is."""
        abandon(self._building)
        self._one_build = threading.Lock()
        self._building = self._thread = None

    @property
    def is_there(self) -> bool:
        """Whether the index was there some moments ago; searches are right, only slower, where it is gone."""
        return time.monotonic() < self._seen + _KNOWN_FOR

    @is_there.setter
    def is_there(self, value: bool) -> None:
        self._seen = time.monotonic() if value else -math.inf

    def note_exact_search(self) -> None:
        """Count a search that the index would speed up; after some of them it is built in the background."""
        with self._lock:
            self._searches += 1
            if self._searches < _EXACT_SEARCHES or self._closed or self._thread is not None:
                return
            self._searches = 0
            self._thread = threading.Thread(target=self._build_logged, daemon=True, name="devmem-hnsw")
            self._thread.start()

    def _build_logged(self) -> None:
        try:
            self.build()
        except CollectionClosedError:
            return
        except CollectionError as error:
            if not self._closed:
                _LOG.warning("The index of the vectors of %s was not built: %s", self._access.location, error)
        finally:
            with self._lock:
                self._thread = None

    def build(self) -> None:
        """Build the index where it is due and nobody builds it; this may take minutes, and keeps nobody from writing.

        Raises:
            CollectionError: the database refuses.
        """
        with self._one_build:
            self._build()

    def _build(self) -> None:
        if self.least is None:
            return
        values = {"index": index_name(self._store), "store": self._store, "least": self.least}

        def read(connection: Connection) -> int | None:
            is_there = connection.execute(composed(_IS_THERE), values).fetchone() is not None
            # Only the owner of a table may give it an index.
            if is_there or not owns_tables(connection):
                return None
            found = connection.execute(composed(_STATE), values).fetchone()
            dimension, is_large = found or (None, False)
            return dimension if is_large and 0 < (dimension or 0) <= MOST_COMPONENTS else None

        dimension = self._transactions.read(read)
        if dimension is None:
            return
        with translate_errors(str(self._access.location)), closing(connect(self._access)) as connection:
            with self._lock:
                if self._closed:
                    return
                self._building = connection
            try:
                self._create(connection, dimension)
            finally:
                with self._lock:
                    self._building = None
        # The model may have been replaced before the index was there to be dropped.
        if self._transactions.read(self._dimension) != dimension:
            self._transactions.write(lambda connection: drop_hnsw(connection, self._store))

    def _dimension(self, connection: Connection) -> int | None:
        found = connection.execute("SELECT dimension FROM stores WHERE store = %s", (self._store,)).fetchone()
        return found[0] if found else None

    def _create(self, connection: Connection, dimension: int) -> None:
        # Outside of a transaction, where nothing but names that are written out tells which schema is meant. What an
        # earlier attempt left behind is invalid.
        drop_hnsw(connection, self._store)
        schema = self._access.location.schema
        create = "CREATE INDEX CONCURRENTLY IF NOT EXISTS {} ON {} USING hnsw ({} halfvec_ip_ops) WHERE {}"
        connection.execute(
            sql.SQL(create).format(
                sql.Identifier(index_name(self._store)),
                sql.Identifier(schema, "vectors"),
                sql.SQL(composed(hnsw_operand(dimension))),
                sql.SQL(composed(hnsw_condition(self._store, dimension))),
            )
        )

    def close(self) -> None:
        """Cancel the build of an index."""
        with self._lock:
            self._closed, thread = True, self._thread
            if self._building is not None:
                self._building.cancel()
        if thread is not None:
            thread.join()
