"""The PostgreSQL collection: one store of a database that many processes and machines share.

Items, terms and embeddings are written in one transaction. The search indexes are a cache in memory, which follows the
database in the order of its commits (`follower.py`), so a search ranks as one of a SQLite file does; or they are in the
database (`server/`), for stores that are too large for the memory of each process.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

from devmem.collections.postgres import claim, writes
from devmem.collections.postgres.claim import StoreRecord, check_embeddings
from devmem.collections.postgres.database import Access, Connection, run_alone
from devmem.collections.postgres.indexed_fields import record_fields, replace_fields
from devmem.collections.postgres.location import Location
from devmem.collections.postgres.migrations import prepare_database
from devmem.collections.postgres.pooling import refuse_shared_sessions
from devmem.collections.postgres.searcher import open_searcher
from devmem.collections.postgres.server.cleaning import IndexCleaner, IndexSteps
from devmem.collections.postgres.states import PostgresStates
from devmem.collections.postgres.transactions import Database
from devmem.collections.postgres.versions import PostgresVersions
from devmem.collections.protocol import DEFAULT_HISTORY_DAYS, Durability
from devmem.collections.recorded import HistoryLimit
from devmem.collections.writing import ItemChanges
from devmem.config import IndexConfig
from devmem.embedding import ModelIdentity, PassageEmbeddings

T = TypeVar("T")


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
            history_days: how long versions are kept after another one took their place; None for good, 0 not at all.
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

    def set_embeddings(self, embeddings: Mapping[str, PassageEmbeddings]) -> int:
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
        return claim.claim_store(connection, access.location, model, store_type)

    return run_alone(access, prepare)
