"""The two ways of searching a store: indexes in memory that follow the database, or those in the database itself."""

from __future__ import annotations

import logging
from typing import Final, Literal, Protocol

from devmem.config.store import IndexConfig
from devmem.search.indexes.codes import TokenCache
from devmem.search.indexes.columns import GenerationCache
from devmem.search.indexes.doc_values import ConditionCache
from devmem.search.query import SearchQuery
from devmem.search.source import SearchSource
from devmem.storage.postgres.claim import check_store
from devmem.storage.postgres.database import Access, Connection
from devmem.storage.postgres.follower import PostgresFollower
from devmem.storage.postgres.server.maintenance import IndexMaintenance
from devmem.storage.postgres.server.source import ServerSearches
from devmem.storage.postgres.server.term_texts import SEARCH_SETTINGS
from devmem.storage.postgres.source import PostgresSource
from devmem.storage.postgres.transactions import Database
from devmem.storage.searching import check_length, check_name

_LOG: Final = logging.getLogger(__name__)
_LONG_TAIL: Final = 20_000
"""Number of items in no segment from which opening a store makes segments before anything is searched."""

Mode = Literal["follow", "server"]


class Searcher(Protocol):
    """Makes a store searchable. Thread-safe."""

    mode: Mode
    settings: str | None
    """Statement that begins a search's transaction, where the statements of a search are to be pipelined."""

    def source(self, connection: Connection, query: SearchQuery, model: str | None, now: float) -> SearchSource:
        """Return the store as of the connection's read transaction, for one search.

        Args:
            connection: in a read transaction that began with `settings`, of which this is the first statement.
            query: what is searched for.
            model: name of the model that made the query's vector; None when it is not known.
            now: seconds since the epoch.

        Raises:
            CollectionError: the store was dropped.
            EmbeddingMismatchError: the query's vector is of another model.
        """
        ...

    def note(self, *, written: int = 0, deleted: int = 0) -> None:
        """Count items that this process wrote or deleted."""
        ...

    def maintain(self) -> None:
        """Bring everything up to date that a search would be faster with."""
        ...

    def close(self) -> None:
        """End the work in the background, and forget what is in memory."""
        ...


class FollowingSearcher:
    """Searches the indexes that this process keeps in memory."""

    mode: Mode = "follow"
    settings: str | None = None

    def __init__(self, location: str, store: int, follower: PostgresFollower) -> None:
        """Take the indexes, which follow the database from the first search on."""
        self._location, self._store = location, store
        self._follower = follower
        self._tokens, self._conditions = GenerationCache(TokenCache), ConditionCache()

    def source(self, connection: Connection, query: SearchQuery, model: str | None, now: float) -> SearchSource:
        """Bring the indexes up to date with the connection's transaction, and return them as of that moment."""
        moment = self._follower.follow(connection, now)
        if query.vector is not None:
            check_name(self._location, made=moment.model, given=model)
            if moment.indexes.vectors is not None:
                check_length(self._location, made=moment.indexes.vectors.dimension, given=len(query.vector))
        shown = connection.contents, moment.generation
        tokens, conditions = self._tokens.of(shown), self._conditions.at(shown)
        return PostgresSource(connection, self._store, moment.indexes, tokens, conditions)

    def note(self, *, written: int = 0, deleted: int = 0) -> None:
        """Do nothing: followers see for themselves."""

    def maintain(self) -> None:
        """Do nothing: the next search brings the indexes up to date."""

    def close(self) -> None:
        """End the work in the background."""
        self._follower.close()


class ServerSearcher:
    """Searches the indexes in the database."""

    mode: Mode = "server"
    settings: str | None = SEARCH_SETTINGS

    def __init__(self, access: Access, database: Database, store: int, config: IndexConfig) -> None:
        """Make segments first where most of the store is in none."""
        # `exact` compares with every vector.
        codes_bytes = 0 if config.threshold() is None else config.codes_mb << 20
        self._maintenance = IndexMaintenance(access, database, store, config.threshold(), codes_bytes)
        note_exact = self._maintenance.note_exact_search
        self._searches = ServerSearches(str(access.location), store, codes_bytes, note_exact)

        def insert(connection: Connection) -> None:
            check_store(connection, str(access.location), store)
            connection.execute("INSERT INTO search_states(store) VALUES (%s) ON CONFLICT DO NOTHING", (store,))

        database.write(insert)
        if self._maintenance.tail_is_long(_LONG_TAIL):
            _LOG.info("Making the full-text index of %s in the database.", access.location)
            self._maintenance.run_segments()
        self._maintenance.start(hnsw=False)

    def source(self, connection: Connection, query: SearchQuery, model: str | None, now: float) -> SearchSource:
        """Return the store as of the connection's transaction."""
        return self._searches.source(connection, query, model, now)

    def note(self, *, written: int = 0, deleted: int = 0) -> None:
        """Count items, and merge them in the background when they are enough."""
        self._maintenance.note(written=written, deleted=deleted)

    def maintain(self) -> None:
        """Make segments of what is in none, and the HNSW index where it is due; this may take minutes."""
        self._maintenance.run()

    def close(self) -> None:
        """End the work in the background, and forget what is in memory."""
        self._maintenance.close()
        self._searches.close()


def open_searcher(access: Access, database: Database, store: int, config: IndexConfig) -> Searcher:
    """Return the way of searching that the location or else the configuration names.

    Raises:
        CollectionError: the database cannot be asked; it is closed then.
    """
    try:
        return _open_searcher(access, database, store, config)
    except BaseException:
        # Whoever opens the store next shares its connections, and would not be the last to release them.
        database.close()
        raise


def _open_searcher(access: Access, database: Database, store: int, config: IndexConfig) -> Searcher:
    mode = access.location.mode or config.mode
    if mode == "auto":
        mode = "server" if database.read(lambda one: _is_large(one, store, config.server_from)) else "follow"
    if mode == "server":
        return ServerSearcher(access, database, store, config)
    follower = PostgresFollower(str(access.location), store, config)
    return FollowingSearcher(str(access.location), store, follower)


def _is_large(connection: Connection, store: int, passages: int) -> bool:
    query = "SELECT count(*) FROM (SELECT FROM passages WHERE store = %s LIMIT %s) AS first"
    ((count,),) = connection.execute(query, (store, passages)).fetchall()
    return int(count) >= passages
