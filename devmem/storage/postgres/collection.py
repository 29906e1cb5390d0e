"""The PostgreSQL collection: one store of a database that many processes and machines share.

Items, terms and embeddings are written in one transaction. The search indexes are a cache in memory, which follows the
database in the order of its commits (`follower.py`), so a search ranks as one of a SQLite file does; or they are in the
database (`server/`), for stores that are too large for the memory of each process.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from functools import partial
from typing import Final, TypeVar

from psycopg import sql

from devmem.config.store import IndexConfig
from devmem.errors import CollectionUnwritableError
from devmem.models.embedder import EmbeddingRefusal, ModelIdentity, PassageEmbeddings
from devmem.storage.opening import StoreMetadata
from devmem.storage.postgres import claim, writes
from devmem.storage.postgres.attachments import PostgresStates
from devmem.storage.postgres.claim import StoreRecord, check_embeddings
from devmem.storage.postgres.database import (
    Access,
    Connection,
    composed,
    connect,
    refuse_shared_sessions,
    run_alone,
    translate_errors,
)
from devmem.storage.postgres.location import Location
from devmem.storage.postgres.migrations import prepare_database, refuse_distributed
from devmem.storage.postgres.reader import record_fields, replace_fields
from devmem.storage.postgres.schema import PARTITIONED, drop_statements, lock, owns_tables, table_of
from devmem.storage.postgres.searcher import open_searcher
from devmem.storage.postgres.server.maintenance import IndexCleaner, IndexSteps
from devmem.storage.postgres.server.vectors import drop_hnsw
from devmem.storage.postgres.transactions import Database, without_conflict
from devmem.storage.postgres.versions import PostgresVersions
from devmem.storage.protocol import DEFAULT_HISTORY_DAYS, Durability
from devmem.storage.writing import HistoryLimit, ItemChanges

T = TypeVar("T")


_UNRECORDED: Final = (
    f"SELECT FROM stores AS store WHERE store.store = %s AND model IS NULL AND NOT EXISTS ({claim.SELECT_WORDS_ONLY})"
)


class PostgresCollection(PostgresVersions):
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
        opened = _opened(access, model, store_type)
        store, database = opened.store, Database(access)
        self.states = PostgresStates(database, access, store)
        """Values of the store beside its items; see `StatefulCollection`."""
        super().__init__(access, database, store, open_searcher(access, database, store, self._index), clock)
        self._cleaner = IndexCleaner(IndexSteps(database, self.location, store))
        if opened.uncleaned:
            self._cleaner.start()

    def _model_name(self) -> str | None:
        return self._model

    def _adding(self, operation: Callable[[ItemChanges], T]) -> T:
        removed = 0

        def change(connection: Connection) -> T:
            nonlocal removed
            changes = self._item_changes(connection)
            result = operation(changes)
            removed = changes.removed
            return result

        result = self._database.write(change)
        self._searcher.note(deleted=removed)
        return result

    def set_embeddings(self, embeddings: Mapping[str, PassageEmbeddings | EmbeddingRefusal]) -> int:
        """Store the embeddings of waiting items."""

        def store(connection: Connection) -> int:
            check_embeddings(connection, self.location, self._store, self._model, embeddings.values())
            return writes.set_embeddings(connection, self._store, embeddings)

        stored = self._database.write(store)
        self._searcher.note(written=stored)
        return stored

    def replace_model(self, model: str, dimension: int | None) -> int:
        """Delete every embedding and record the model of the new ones."""
        waiting = self._database.write(
            lambda connection: writes.replace_model(connection, self.location, self._store, model, dimension)
        )
        self._model = model
        return waiting

    def index_fields(self, fields: Sequence[str]) -> int:
        """Search the items by other fields of theirs."""
        return self._database.write(lambda connection: replace_fields(connection, self._store, tuple(fields)))

    def record_fields(self, fields: Sequence[str]) -> None:
        """Record that items are written with other fields, too."""
        self._database.write(lambda connection: record_fields(connection, self._store, tuple(fields)))

    def record_words_only(self) -> None:
        """Record that the store has no model on purpose."""
        if self._fetch(_UNRECORDED.format("states"), [self._store]):
            self._database.write(lambda connection: claim.record_words_only(connection, self._store))

    def maintain(self) -> None:
        """Bring the indexes in the database up to date, where searches use them; this may take minutes.

        It goes on in the background anyway, and searches are right without it, only slower.
        """
        self._searcher.maintain()

    def close(self) -> None:
        """Release the connections and the indexes."""
        self._cleaner.close()
        self._searcher.close()
        self._database.close()


def _opened(access: Access, model: ModelIdentity | None, store_type: str | None) -> StoreRecord:
    """Connect once, so that whatever is wrong is known at once, and prepare tables and store."""

    def prepare(connection: Connection) -> StoreRecord:
        refuse_shared_sessions(connection, access)
        prepare_database(connection, access.location)
        refuse_distributed(connection, access.location)
        return claim.claim_store(connection, access.location, model, store_type)

    return run_alone(access, prepare)


def drop_store(url: str, name: str | None = None, *, busy_timeout: float = 30.0) -> bool:
    """Drop a store with everything in it, in one transaction; other processes that have it open get an error.

    A store with its own partitions takes as long for a million items as for ten.

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
    with translate_errors(str(place)), closing(connect(access)) as connection:
        refuse_shared_sessions(connection, access)
        # A schema without tables must not be taken for that of other stores, which the search path has too.
        stores = sql.Identifier(place.schema, "stores").as_string(connection)
        (there,) = connection.execute("SELECT to_regclass(%s)", (stores,)).fetchone() or (None,)
        return there is not None and without_conflict(partial(_drop, place), connection)


def _drop(place: Location, connection: Connection) -> bool:
    connection.execute("BEGIN")
    connection.execute("SET LOCAL statement_timeout = 0")
    dropped = _drop_within(connection, place)
    connection.execute("COMMIT")
    return dropped


def _drop_within(connection: Connection, place: Location) -> bool:
    query = "SELECT store FROM stores WHERE tenant = %s AND name = %s"
    found = connection.execute(query, (place.tenant, place.store)).fetchone()
    if found is None:
        return False
    (store,) = found
    # Writers hold it together, and look for the store once they have it.
    lock(connection, "store", store)
    query = f"SELECT {table_of('%s')}"
    (partition,) = connection.execute(composed(query), (f"items_{store}",)).fetchone() or (None,)
    if partition is None:
        for table in reversed(PARTITIONED):
            connection.execute(composed(f"DELETE FROM {table} WHERE store = %s"), (store,))
        if owns_tables(connection):
            drop_hnsw(connection, store)
    elif owns_tables(connection):
        # In the order in which transactions of other stores come to them, which would otherwise wait in a circle.
        for table in PARTITIONED:
            connection.execute(composed(f"LOCK TABLE ONLY {table} IN ACCESS EXCLUSIVE MODE"))
        for statement in drop_statements(store):
            connection.execute(composed(statement))
    else:
        raise CollectionUnwritableError(
            str(place), "has partitions of its own, which only the owner of the tables may drop: connect as that user."
        )
    connection.execute("DELETE FROM stores WHERE store = %s", (store,))
    return True


_SELECT: Final = (
    f"SELECT store_type, model, EXISTS ({claim.SELECT_WORDS_ONLY.format('{states}')}) FROM {{stores}} AS store "
    "WHERE tenant = %s AND name = %s"
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
    tables = {name: sql.Identifier(place.schema, name) for name in ("stores", "states")}

    def inspect(connection: Connection) -> StoreMetadata | None:
        name = tables["stores"].as_string(connection)
        (there,) = connection.execute("SELECT to_regclass(%s)", (name,)).fetchone() or (None,)
        if there is None:
            return None
        found = connection.execute(sql.SQL(_SELECT).format(**tables), (place.tenant, place.store)).fetchone()
        if found is None:
            return None
        store_type, model, words_only = found
        return StoreMetadata(store_type=store_type, model=model, words_only=words_only and model is None)

    return run_alone(access, inspect)
