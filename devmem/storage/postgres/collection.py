"""The PostgreSQL collection: one store of a database that many processes and machines share.

Items, terms and embeddings are written in one transaction, and the database answers each search: no process keeps an
index, so one may serve any number of stores.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from functools import partial
from typing import Final

import psycopg

from devmem import telemetry
from devmem.config.store import IndexConfig
from devmem.errors import CollectionError
from devmem.models.embedder import ModelIdentity
from devmem.storage.opening import StoreMetadata
from devmem.storage.postgres.database import Access, Connection, composed, connect, run_alone, translate_errors
from devmem.storage.postgres.erasing import PostgresEraser
from devmem.storage.postgres.hnsw import HnswIndex, drop_hnsw
from devmem.storage.postgres.location import Location
from devmem.storage.postgres.predicates import PostgresDialect
from devmem.storage.postgres.reader import PostgresRunView, PostgresView
from devmem.storage.postgres.schema import STORE_TABLES, dropped, owns_tables, prepare_database, recorded_properties
from devmem.storage.postgres.tables import PROPERTIES, PostgresTables
from devmem.storage.postgres.transactions import IS_THERE, Database
from devmem.storage.properties import WORDS_ONLY, claim
from devmem.storage.protocol import DEFAULT_HISTORY_DAYS, Durability
from devmem.storage.tables import State
from devmem.storage.versions import VersionedStore
from devmem.storage.writing import HistoryLimit
from devmem.text.analysis import ANALYSIS_VERSION

_LOG: Final = logging.getLogger(__name__)


class PostgresCollection(PostgresEraser, VersionedStore):
    """Items of one store in a PostgreSQL database; `Collection` documents the methods."""

    def __init__(
        self,
        url: str,
        *,
        name: str | None = None,
        model: ModelIdentity | None = None,
        store_type: str | None = None,
        durability: Durability = "full",
        index: IndexConfig | None = None,
        history_days: float | None = DEFAULT_HISTORY_DAYS,
        busy_timeout: float = 30.0,
        clock: Callable[[], float] = time.time,
    ) -> None:
        """Open the store, or create it; the tables are created with the first one.

        Args:
            url: see `Location.parse`.
            name: name of the store where the URL names none.
            model: embedding model; without one the search is by text alone and new items wait for an embedding.
            store_type: store type to record in a new store; one of another type is refused.
            durability: `full` survives power loss; with `normal` a crash of the server may lose the last commits.
            index: how vectors are searched; None takes the defaults.
            history_days: how long versions are kept after another one took their place; None permanently, 0 not at all.
            busy_timeout: seconds to wait for locks, for a server that restarts, and for a free connection.
            clock: current time in seconds since the epoch, for expiry.

        Raises:
            CollectionError: the server cannot be reached or refuses; no password is in the message.
            CollectionInUseError: the store holds the items of another store type.
            EmbeddingMismatchError: its embeddings were made by another model.
        """
        access = Access(location=Location.parse(url, name), durability=durability, busy_timeout=busy_timeout)
        self._model = model.name if model else None
        self._history, self._index = HistoryLimit(days=history_days), index or IndexConfig()
        run_alone(access, partial(_prepare, access, model, store_type))
        store = access.location.number
        database = Database(access, store)
        super().__init__(access, database, store, HnswIndex(access, database, store, self._index.threshold()), clock)

    def _view(self, state: State, shown: str, *, clock: Callable[[], float]) -> PostgresView:
        return PostgresView(self, state, shown, clock=clock)

    def _run_view(self, run: str, actor: str | None) -> PostgresRunView:
        return PostgresRunView(self, run, actor)

    @contextmanager
    def exclusive(self, purpose: str) -> Iterator[None]:
        """Hold an advisory lock in a transaction of its own connection, with which a pooler ends it."""
        with translate_errors(self.location):
            connection = connect(self._access)
        with closing(connection):
            with translate_errors(self.location):
                # Waiting, and what is excluded, may take as long as it takes.
                connection.execute(
                    composed(
                        f"BEGIN; {self._access.settings(writes=True)}; SET LOCAL lock_timeout = 0; "
                        "SET LOCAL statement_timeout = 0; SET LOCAL idle_in_transaction_session_timeout = 0"
                    )
                )
                # The store of another schema may have the same number.
                named = "SELECT pg_advisory_xact_lock(hashtextextended(current_schema() || ' ' || %s, 0))"
                connection.execute(named, (f"{self._store} {purpose}",))
                if connection.execute("SELECT FROM stores WHERE store = %s", (self._store,)).fetchone() is None:
                    raise dropped(self.location)
            yield
            try:
                connection.execute("COMMIT")
            except psycopg.Error:
                _LOG.warning(
                    "%s: the connection that excluded others from %s was lost; another process may have done the same "
                    "meanwhile.",
                    self.location, purpose,
                )  # fmt: skip

    def maintain(self) -> None:
        """Build the index of the vectors where there are enough; this may take minutes.

        It is done in the background anyway, and searches are right without it, only slower.
        """
        self._hnsw.build()

    def close(self) -> None:
        """Release the connections, and end the work in the background."""
        self._hnsw.close()
        self._database.close()


def _prepare(access: Access, model: ModelIdentity | None, store_type: str | None, connection: Connection) -> None:
    """Connect once, so that whatever is wrong is known at once, and prepare tables and store."""
    connection.execute(composed(f"BEGIN; {access.settings(writes=True)}"))
    prepare_database(connection, access.location)
    place, values = access.location, (access.location.number,)
    tables = PostgresTables(connection, place.number, str(place), PostgresDialect(place.number))
    if connection.execute(IS_THERE, values).fetchone() is None:
        with telemetry.memory_operation("create_memory_store", place.store, (place.shown,)):
            connection.execute(
                "INSERT INTO stores(store, tenant, name, analysis) VALUES (%s, %s, %s, %s) ON CONFLICT DO NOTHING",
                (place.number, place.tenant, place.store, ANALYSIS_VERSION),
            )
    if claim(tables, model, store_type, record=False):
        # Others may be recording the same, or storing the first vector.
        if connection.execute(f"{IS_THERE} FOR UPDATE", values).fetchone() is None:
            raise CollectionError(str(place), "the store was dropped while it was being opened.")
        claim(tables, model, store_type, record=True)
    connection.execute("COMMIT")


def drop_store(url: str, name: str | None = None, *, busy_timeout: float = 30.0) -> bool:
    """Drop a store with everything in it, in one transaction; other processes that have it open get an error.

    Args:
        url: see `Location.parse`.
        name: name of the store where the URL names none.
        busy_timeout: seconds to wait for transactions that use the store.

    Returns:
        Whether there was such a store.

    Raises:
        CollectionError: the server cannot be reached, refuses, or others used the store for too long.
    """
    place = Location.parse(url, name)
    access = Access(location=place, durability="full", busy_timeout=busy_timeout)
    return run_alone(access, partial(_drop, access))


def _drop(access: Access, connection: Connection) -> bool:
    place = access.location
    connection.execute(composed(f"BEGIN; {access.settings(writes=True)}; SET LOCAL statement_timeout = 0"))
    # A schema without tables must not be taken for that of other stores, which the search path has too.
    is_there = bool(recorded_properties(connection, place.schema))
    if is_there:
        query = "SELECT FROM stores WHERE store = %s FOR UPDATE"
        is_there = connection.execute(query, (place.number,)).fetchone() is not None
    if is_there:
        for table in STORE_TABLES:
            connection.execute(composed(f"DELETE FROM {table} WHERE store = %s"), (place.number,))
        connection.execute("DELETE FROM stores WHERE store = %s", (place.number,))
        # Last, as it excludes searches of all stores.
        if owns_tables(connection):
            drop_hnsw(connection, place.number)
    connection.execute("COMMIT")
    return is_there


_SELECT: Final = (
    "SELECT store_type, model, EXISTS (SELECT FROM states WHERE states.store = stores.store "
    f"AND (kind, name) = ('{PROPERTIES}', '{WORDS_ONLY}')) FROM stores WHERE store = %s"
)


def inspect_store(url: str, name: str | None = None, *, busy_timeout: float = 30.0) -> StoreMetadata | None:
    """Return what the database records about a store; None where there is no such store.

    Args:
        url: see `Location.parse`.
        name: name of the store where the URL names none.
        busy_timeout: seconds to wait for the server.

    Raises:
        CollectionError: the server cannot be reached, or refuses.
    """
    place = Location.parse(url, name)
    access = Access(location=place, durability="full", busy_timeout=busy_timeout)

    def inspect(connection: Connection) -> StoreMetadata | None:
        connection.execute(composed(f"BEGIN READ ONLY; {access.settings(writes=False)}"))
        if not recorded_properties(connection, place.schema):
            return None
        found = connection.execute(composed(_SELECT), (place.number,)).fetchone()
        if found is None:
            return None
        store_type, model, words_only = found
        return StoreMetadata(store_type=store_type, model=model, words_only=words_only and model is None)

    return run_alone(access, inspect)
