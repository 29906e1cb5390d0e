"""Searches of a store whose indexes are in the database."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from devmem.collections.model_check import check_length, check_name
from devmem.collections.postgres.database import Connection, composed
from devmem.collections.postgres.existence import check_tables, dropped
from devmem.collections.postgres.schema import table_of
from devmem.collections.postgres.server.hnsw import index_name
from devmem.collections.postgres.server.planning import prepare_transaction
from devmem.collections.postgres.server.segments import UNMERGED, SegmentCache
from devmem.collections.postgres.server.source import ServerSource, StoreState
from devmem.indexes.token_codes import TokenCaches
from devmem.search.query import SearchQuery

_STATE: Final = f"""
SELECT stores.tableoid::bigint, generation, model, dimension,
    COALESCE((SELECT indisvalid FROM pg_index WHERE indexrelid = {table_of("%(index)s")}), false),
    EXISTS (SELECT FROM items WHERE store = %(store)s AND conversation IS NOT NULL)
    OR EXISTS (SELECT FROM items WHERE store = %(store)s AND session IS NOT NULL),
    ARRAY(SELECT segment FROM segments WHERE store = %(store)s ORDER BY segment),
    (SELECT string_agg(int8send(items.row), ''::bytea ORDER BY items.row) {UNMERGED.format(tables="items")})
FROM stores JOIN search_states ON search_states.store = stores.store WHERE stores.store = %(store)s
"""


class ServerSearches:
    """Opens a source for each search. Thread-safe."""

    def __init__(self, location: str, store: int, note_exact: Callable[[], None]) -> None:
        """Keep nothing in memory yet but what `SegmentCache` and `TokenCaches` say.

        Args:
            location: of the store, without a password.
            store: number of the store.
            note_exact: called for a search that an HNSW index would speed up.
        """
        self._location, self._store, self._note_exact = location, store, note_exact
        self._segments = SegmentCache(store)
        # Nothing is read ahead: a store that is searched here is too large for that.
        self._tokens = TokenCaches(ahead=0)

    def source(self, connection: Connection, query: SearchQuery, model: str | None, now: float) -> ServerSource:
        """Return the store as of the connection's transaction, for one search.

        Args:
            connection: in a read transaction.
            query: what is searched for.
            model: name of the model that made the query's vector; None when it is not known.
            now: seconds since the epoch.

        Raises:
            CollectionError: the store was dropped.
            EmbeddingMismatchError: the query's vector is of another model.
        """
        prepare_transaction(connection)
        parameters = {"store": self._store, "index": index_name(self._store)}
        found = connection.execute(composed(_STATE), parameters, binary=True).fetchone()
        if found is None:
            raise dropped(self._location)
        tables, store_generation, recorded, dimension, hnsw, conversations, segments, tail = found
        check_tables(connection, tables)
        generation = connection.contents, store_generation
        if query.vector is not None:
            check_name(self._location, made=recorded, given=model)
            if dimension is not None:
                check_length(self._location, made=dimension, given=len(query.vector))
        if query.vector is not None and not hnsw and query.where.everything():
            self._note_exact()
        state = StoreState(dimension=dimension, has_hnsw=hnsw, has_conversations=conversations)
        indexed = self._segments.read(connection, generation, tuple(segments), tail or b"")
        tokens = self._tokens.of(generation)
        return ServerSource(connection, self._store, state, indexed, tokens, query, now)

    def close(self) -> None:
        """Forget what is in memory."""
        self._tokens.clear()
