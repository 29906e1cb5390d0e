"""Searches of a store whose indexes are in the database."""

from __future__ import annotations

from collections.abc import Callable, Hashable

import numpy as np

from devmem.collections.model_check import check_length, check_name
from devmem.collections.postgres.database import Connection
from devmem.collections.postgres.server.admitted import Moment
from devmem.collections.postgres.server.caches import Caches
from devmem.collections.postgres.server.row_sets import RowSets
from devmem.collections.postgres.server.segments import SegmentCache
from devmem.collections.postgres.server.source import ServerSource
from devmem.collections.postgres.server.state import State, read_state
from devmem.collections.postgres.server.term_texts import numbers_from
from devmem.collections.postgres.server.vector_cache import VectorCaches
from devmem.collections.postgres.server.vector_codes import CodeBlocks, CodeCache, CodedPassages, codes_size
from devmem.collections.postgres.snapshots import Snapshot
from devmem.indexes.generations import LatestGeneration
from devmem.search.query import SearchQuery


class ServerSearches:
    """Opens a source for each search. Thread-safe."""

    def __init__(self, location: str, store: int, codes_bytes: int, note_exact: Callable[[], None]) -> None:
        """Keep nothing in memory yet but what the caches say.

        Args:
            location: of the store, without a password.
            store: number of the store.
            codes_bytes: maximum size of the codes of its vectors that are kept in memory.
            note_exact: called for a search that an HNSW index would speed up.
        """
        self._location, self._store, self._note_exact = location, store, note_exact
        self._codes_bytes = codes_bytes
        self._segments, self._codes = SegmentCache(store), CodeCache(store)
        self._caches = LatestGeneration(lambda: Caches(store))
        self._sets, self._vectors = RowSets(), VectorCaches()

    def source(self, connection: Connection, query: SearchQuery, model: str | None, now: float) -> ServerSource:
        """Return the store as of the connection's transaction, for one search.

        Args:
            connection: in a read transaction that began with `SEARCH_SETTINGS`.
            query: what is searched for.
            model: name of the model that made the query's vector; None when it is not known.
            now: seconds since the epoch.

        Raises:
            CollectionError: the store was dropped, or is to be opened again.
            EmbeddingMismatchError: the query's vector is of another model.
        """
        vectors = self._vectors.current
        state = read_state(connection, self._location, self._store, now, vectors.seen if vectors else None)
        self._check(state, query, model)
        generation = connection.contents, state.generation
        moment = Moment(
            connection=connection,
            store=self._store,
            snapshot=Snapshot.parse(state.snapshot, connection.contents),
            state=(generation, tuple(state.segments)),
            sets=self._sets,
            now=now,
            expired=state.expired,
        )
        tail = state.tail or b""
        # Nothing of an erased item is to stay in memory: what was read before is forgotten.
        contents = generation, state.erased, state.cleaned
        deleted = numbers_from(state.deleted, ">i8").astype(np.int64)
        return ServerSource(
            moment,
            state,
            self._segments.read(connection, generation, tuple(state.segments), tail),
            self._coded(connection, generation, state, query),
            self._caches.of(contents),
            self._vectors.of(vectors, contents, moment.snapshot, state.changes_floor, deleted),
            query,
        )

    def _check(self, state: State, query: SearchQuery, model: str | None) -> None:
        if query.vector is None:
            return
        check_name(self._location, made=state.model, given=model)
        if state.dimension is not None:
            check_length(self._location, made=state.dimension, given=len(query.vector))

    def _coded(
        self, connection: Connection, generation: Hashable, state: State, query: SearchQuery
    ) -> tuple[CodedPassages, CodedPassages] | None:
        """Return the codes of the vectors; None where they do not count, or would take too much memory."""
        if query.vector is None or state.dimension is None:
            return None
        tail, late = (numbers_from(raw, ">i8").astype(np.int64) for raw in (state.tail, state.late))
        if codes_size(state.coded + len(tail) + len(late), state.dimension) > self._codes_bytes:
            if not state.has_hnsw and query.where.everything():
                self._note_exact()
            return None
        blocks = CodeBlocks(numbers=tuple(state.blocks), passages=state.coded, tail=tail, late=late)
        return self._codes.read(connection, (generation, state.cleaned), state.dimension, blocks)

    def close(self) -> None:
        """Forget what is in memory."""
        for cache in (self._segments, self._caches, self._codes, self._sets, self._vectors):
            cache.clear()
