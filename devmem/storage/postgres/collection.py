"""The PostgreSQL collection: one store of a database that many processes and machines share.

Items, terms and embeddings are written in one transaction, and the database answers each search: no process keeps an
index, so one may serve any number of stores.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from functools import partial
from typing import Final, TypeVar, Unpack
from uuid import uuid4

import psycopg

from devmem import telemetry
from devmem.config.store import IndexConfig
from devmem.errors import CollectionError
from devmem.models.embedder import ModelIdentity
from devmem.search.query import SearchQuery
from devmem.search.source import SearchSource
from devmem.storage.erasing import end_plan, erase_planned
from devmem.storage.erasure import ErasePlan, EraseResult, Residue
from devmem.storage.opening import CollectionOptions, StoreMetadata
from devmem.storage.postgres.database import Access, Connection, composed, connect, run_alone, translate_errors
from devmem.storage.postgres.hnsw import HnswIndex, drop_hnsw
from devmem.storage.postgres.location import Location
from devmem.storage.postgres.predicates import PostgresDialect
from devmem.storage.postgres.rows import columns_of_items
from devmem.storage.postgres.schema import STORE_TABLES, dropped, owns_tables, prepare_database, recorded_properties
from devmem.storage.postgres.search import SEARCH_SETTINGS, PostgresSource
from devmem.storage.postgres.tables import PROPERTIES, PostgresTables
from devmem.storage.postgres.transactions import IS_THERE, Transactions
from devmem.storage.properties import WORDS_ONLY, claim
from devmem.storage.protocol import DEFAULT_HISTORY_DAYS
from devmem.storage.tables import State, StoreDatabase, StoreTables
from devmem.storage.versions import VersionedCollection
from devmem.storage.writing import missing_columns
from devmem.text.analysis import ANALYSIS_VERSION

T = TypeVar("T")

_LOG: Final = logging.getLogger(__name__)
_OUT_OF_REACH: Final = (
    "the server keeps deleted rows in its files until it vacuums them, and what the service keeps in logs, replicas "
    "and backups is out of reach"
)
_SESSION: Final = "SELECT pid, extract(epoch FROM backend_start)::bigint, extract(epoch FROM now())::bigint"
_OWN: Final = f"{_SESSION} FROM pg_stat_activity WHERE pid = pg_backend_pid()"
# Another user's sessions show no start, and a pooler's go on when their client is gone.
_IS_THERE: Final = (
    "SELECT 1 FROM pg_stat_activity WHERE pid = ? AND ? > extract(epoch FROM now() - interval '10 minutes') "
    "AND COALESCE(extract(epoch FROM backend_start)::bigint = ?, true)"
)


class PostgresDatabase(StoreDatabase):
    """One store of a database. Thread-safe."""

    def __init__(self, access: Access, options: CollectionOptions) -> None:
        """Connect on first use; the tables and the store have to be there."""
        model, index = options.get("model"), options.get("index") or IndexConfig()
        self.location, self.store, self._access = str(access.location), access.location.number, access
        self.dialect, self.clock = PostgresDialect(self.store), options.get("clock", time.time)
        self.history_days = options.get("history_days", DEFAULT_HISTORY_DAYS)
        self.model = model.name if model else None
        self.transactions = Transactions(access)
        self.hnsw = HnswIndex(access, self.transactions, index.threshold())

    def _tables(self, connection: Connection) -> PostgresTables:
        return PostgresTables(connection, self.store, self.location, self.dialect)

    def read(self, operation: Callable[[StoreTables], T]) -> T:
        """Run an operation that reads the store; finding nothing, it makes sure that the store is there.

        Raises:
            CollectionError: the store was dropped.
        """

        def read(connection: Connection) -> T:
            found = operation(self._tables(connection))
            if not found and connection.execute(IS_THERE, (self.store,)).fetchone() is None:
                raise dropped(self.location)
            return found

        return self.transactions.read(read)

    def write(self, operation: Callable[[StoreTables], T]) -> T:
        """Run an operation in a write transaction."""
        return self.transactions.write(lambda connection: operation(self._tables(connection)))

    def search(
        self, state: State, query: SearchQuery, clock: Callable[[], float], run: Callable[[SearchSource, float], T]
    ) -> T:
        """Call a function with a state of the store as one search sees it."""

        def search(connection: Connection) -> T:
            now = clock()
            source = PostgresSource(
                connection,
                self.location,
                self.dialect,
                state,
                query,
                store=self.store,
                model=self.model,
                now=now,
                hnsw=self.hnsw,
            )
            return run(source, now)

        return self.transactions.read(search, settings=SEARCH_SETTINGS)

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
                connection.execute(named, (f"{self.store} {purpose}",))
                if connection.execute("SELECT FROM stores WHERE store = %s", (self.store,)).fetchone() is None:
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

    def close(self) -> None:
        """Release the connections, and end the work in the background."""
        self.hnsw.close()
        self.transactions.close()


class PostgresCollection(VersionedCollection):
    """Items of one store in a PostgreSQL database; `Collection` documents the methods."""

    database: PostgresDatabase

    def __init__(self, url: str, *, name: str | None = None, **options: Unpack[CollectionOptions]) -> None:
        """Open the store, or create it; the tables are created with the first one.

        Args:
            url: see `Location.parse`.
            name: name of the store where the URL names none.
            options: see `CollectionOptions`.

        Raises:
            CollectionError: the server cannot be reached or refuses; no password is in the message.
            CollectionInUseError: the store holds the items of another store type.
            EmbeddingMismatchError: its embeddings were made by another model.
        """
        access = Access(
            location=Location.parse(url, name),
            durability=options.get("durability", "full"),
            busy_timeout=options.get("busy_timeout", 30.0),
        )
        run_alone(access, partial(_prepare, access, options.get("model"), options.get("store_type")))
        super().__init__(PostgresDatabase(access, options))

    def maintain(self) -> None:
        """Build the index of the vectors where there are enough; this may take minutes.

        It is done in the background anyway, and searches are right without it, only slower.
        """
        self.database.hnsw.build()

    def _begin_work(self) -> str:
        """Return the id of a new plan, which names this session and the time."""
        ((pid, start, now),) = self._fetch(_OWN, ())
        return f"{uuid4().hex}.{pid}.{start}.{now}"

    def _end_work(self, plan_id: str) -> None:
        """Do nothing: a plan that was not ended is finished when its session is gone."""

    def _is_executed(self, plan: ErasePlan) -> bool:
        _, *session = plan.id.split(".")
        if not session:
            return False
        pid, start, begun = map(int, session)
        return bool(self._fetch(_IS_THERE, (pid, begun, start)))

    def finish_erasure(
        self,
        plan: ErasePlan,
        words: Sequence[str] = (),  # noqa: ARG002 - no files
        *,
        vacuum: bool = False,  # noqa: ARG002
    ) -> EraseResult:
        """Remove what is planned, with every version."""

        def finish(tables: StoreTables) -> None:
            erase_planned(tables, plan)
            end_plan(tables, plan)
            # The hashes of terms that no passage has any more tell what was erased.
            tables.execute(f"DELETE FROM terms WHERE {tables.of} AND texts <= 0")

        self.database.remove(finish)
        return EraseResult(items=plan.items, residues=(Residue(place=self.location, reason=_OUT_OF_REACH),))

    def apply_tombstones(self) -> EraseResult:
        """Do nothing: what is restored into the database has the tombstones of its own time."""
        return EraseResult()


def _prepare(access: Access, model: ModelIdentity | None, store_type: str | None, connection: Connection) -> None:
    """Connect once, so that whatever is wrong is known at once, and prepare tables and store."""
    connection.execute(composed(f"BEGIN; {access.settings(writes=True)}"))
    prepare_database(connection, access.location)
    if problem := missing_columns(columns_of_items(connection)):
        raise CollectionError(str(access.location), problem)
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


def drop_store(url: str, name: str | None = None) -> bool:
    """Drop a store with everything in it, in one transaction; other processes that have it open get an error.

    Args:
        url: see `Location.parse`.
        name: name of the store where the URL names none.

    Returns:
        Whether there was such a store.

    Raises:
        CollectionError: the server cannot be reached, refuses, or others used the store for too long.
    """
    access = Access(location=Location.parse(url, name))
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


def inspect_store(url: str, name: str | None = None) -> StoreMetadata | None:
    """Return what the database records about a store; None where there is no such store.

    Args:
        url: see `Location.parse`.
        name: name of the store where the URL names none.

    Raises:
        CollectionError: the server cannot be reached, or refuses.
    """
    place = Location.parse(url, name)
    access = Access(location=place)

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
