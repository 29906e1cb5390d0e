"""The `SearchSource` of a store whose indexes are in the database."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from devmem.errors import CollectionError
from devmem.model.filters import Filter
from devmem.model.items import MemoryItem
from devmem.models.embedder import TokenCodes
from devmem.search.indexes.codes import TokenCache
from devmem.search.indexes.columns import GenerationCache, Rows, computed_once
from devmem.search.indexes.scoring import term_hash
from devmem.search.query import SearchQuery
from devmem.search.source import FilterMatches
from devmem.storage.postgres.database import Connection, Snapshot
from devmem.storage.postgres.rows import fetch_bodies
from devmem.storage.postgres.schema import PASSAGE_BITS, check_tables, require_store, table_of
from devmem.storage.postgres.server.admitted import Admitted, ReadSnapshot, RowSets, count_hidden, is_scope_alone
from devmem.storage.postgres.server.loaded import FieldCache, LoadedItems, ServerDocValues, ServerPassageMap
from devmem.storage.postgres.server.merging import LATE
from devmem.storage.postgres.server.posting_cache import PostingCache
from devmem.storage.postgres.server.segments import UNMERGED, IndexedTexts, SegmentCache
from devmem.storage.postgres.server.term_texts import numbers_from, of_store
from devmem.storage.postgres.server.texts import AdmittedTexts, AllTexts, SearchedTexts, ServerWordQuery
from devmem.storage.postgres.server.vector_cache import MOST_DELETED, KnownVectors, VectorCaches
from devmem.storage.postgres.server.vector_codes import CodeBlocks, CodeCache, CodedPassages, codes_size
from devmem.storage.postgres.server.vectors import NearestCodes, ServerVectors, index_name
from devmem.storage.postgres.source import PostgresTokenRows
from devmem.storage.searching import check_length, check_name
from devmem.text.query_text import QueryText


class Caches:
    """Caches of one generation of a store, whose contents stay the same."""

    def __init__(self, store: int) -> None:
        """Start empty; `store` is the number of the store."""
        # Nothing is read ahead: a store that is searched in the database is too large for that.
        self.tokens = TokenCache(ahead=0)
        self.postings = PostingCache(store)
        self.fields = FieldCache()


_STATE: Final = f"""
SELECT stores.tableoid::bigint, generation, model, dimension, pg_current_snapshot()::text,
    COALESCE((SELECT indisvalid FROM pg_index WHERE indexrelid = {table_of("%(index)s")}), false),
    EXISTS (SELECT FROM items WHERE store = %(store)s AND conversation IS NOT NULL)
    OR EXISTS (SELECT FROM items WHERE store = %(store)s AND session IS NOT NULL),
    ARRAY(SELECT segment FROM segments WHERE store = %(store)s ORDER BY segment),
    (SELECT string_agg(int8send(items.row), ''::bytea ORDER BY items.row) {UNMERGED.format(tables="items")}),
    ARRAY(SELECT block FROM vector_codes WHERE store = %(store)s ORDER BY block),
    (SELECT COALESCE(sum(octet_length(passages) / 8), 0)::bigint FROM vector_codes WHERE store = %(store)s),
    EXISTS (SELECT FROM items WHERE store = %(store)s AND expires_at <= %(now)s),
    (SELECT string_agg(int8send(late.row), ''::bytea ORDER BY late.row)
        FROM (SELECT DISTINCT changes.row {LATE.format(tables="changes")}) AS late),
    erased, cleaned, changes_floor::text::bigint,
    (SELECT string_agg(int8send(gone.row), ''::bytea ORDER BY gone.row) FROM (
        SELECT row FROM changes WHERE store = %(store)s AND kind = 'deleted'
        AND xact >= pg_snapshot_xmin(%(since)s::pg_snapshot)
        AND NOT pg_visible_in_snapshot(xact, %(since)s::pg_snapshot) LIMIT {MOST_DELETED + 1}) AS gone)
FROM stores JOIN search_states ON search_states.store = stores.store WHERE stores.store = %(store)s
"""


@dataclass(frozen=True, slots=True)
class State:
    """State of a store that a search reads first."""

    tables: int
    generation: int
    model: str | None
    dimension: int | None
    """Of its vectors; None as long as there are none."""
    snapshot: str
    has_hnsw: bool
    """Whether its vectors have an HNSW index."""
    has_conversations: bool
    """Whether any item is of a conversation."""
    segments: list[int]
    tail: bytes | None
    blocks: list[int]
    coded: int
    expired: bool
    late: bytes | None
    erased: int
    """Number of erasures."""
    cleaned: int
    """The same when segments and blocks were last made without what was erased."""
    changes_floor: int
    """Number of the last transaction whose changes may have been forgotten."""
    deleted: bytes | None
    """Rows of items that were deleted since the moment that `read_state` was asked for, some of them where they are
    more than `MOST_DELETED`."""


def read_state(connection: Connection, location: str, store: int, now: float, since: Snapshot | None) -> State:
    """Return the state of a store as of the connection's transaction.

    Args:
        connection: in a read transaction.
        location: of the store, without a password.
        store: its number.
        now: seconds since the epoch.
        since: moment after which deletions are to be known; None for none of them.

    Raises:
        CollectionError: the store was dropped, or is to be opened again.
    """
    parameters = {"index": index_name(store), "now": now, "since": None if since is None else str(since)}
    found = connection.execute(of_store(_STATE, store), parameters, binary=True).fetchone()
    if found is None:
        require_store(connection, location, store)
        # Whoever opens the store to search it here makes the row.
        raise CollectionError(
            location, "the tables were restored from a time when it was not searched on the server yet; open it again."
        )
    state = State(*found)
    check_tables(connection, state.tables)
    return state


class _Postings:
    """The full-text index; see `PostingsReader`."""

    def __init__(self, texts: Callable[[], SearchedTexts], loaded: LoadedItems) -> None:
        self._open_texts, self._loaded = texts, loaded

    @computed_once
    def _texts(self) -> SearchedTexts:
        """The admitted passages."""
        return self._open_texts()

    def query(self, text: QueryText, allowed: Rows | None = None) -> ServerWordQuery:  # noqa: ARG002 - the search's
        """Look up the terms of a text among the admitted passages."""
        return ServerWordQuery(text, self._texts, self._loaded)

    def frequencies(self, terms: Sequence[str], allowed: Rows | None = None) -> dict[str, int]:  # noqa: ARG002
        """Return the number of admitted passages that each of some terms occurs in; deleted ones may count."""
        hashes = {term: term_hash(term) for term in terms}
        found = self._texts.frequencies(list(dict.fromkeys(hashes.values())))
        return {term: found[hashed] for term, hashed in hashes.items()}


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Indexes:
    """See `IndexesReader`; they show what the filter admits."""

    loaded: LoadedItems
    """Items that they have read."""
    doc_values: ServerDocValues
    passage_map: ServerPassageMap
    postings: _Postings
    vectors: ServerVectors | None


class ServerSource:
    """A store as of the connection's read transaction, for one search; see `SearchSource`."""

    def __init__(
        self,
        moment: ReadSnapshot,
        state: State,
        indexed: IndexedTexts,
        coded: tuple[CodedPassages, CodedPassages] | None,
        caches: Caches,
        vectors: KnownVectors | None,
        query: SearchQuery,
    ) -> None:
        """Prepare a search.

        Args:
            moment: what it sees.
            state: of the store.
            indexed: its passages.
            coded: the codes of their vectors; None where the process does not keep them.
            caches: what the process keeps.
            vectors: the vectors that it keeps; None where the search may not use them.
            query: what is searched for.
        """
        self._moment, self._connection, self._store = moment, moment.connection, moment.store
        self._state, self._indexed, self._coded, self._caches, self._query = state, indexed, coded, caches, query
        self._vectors = vectors
        self._indexes: _Indexes | None = None

    @property
    def indexes(self) -> _Indexes:
        """The indexes, which show what the filter admits."""
        assert self._indexes is not None, "the filter comes first"  # noqa: S101 - `apply_filter` was called
        return self._indexes

    def apply_filter(self, where: Filter, period: tuple[float, float] | None) -> FilterMatches:
        """Restrict the indexes to what a filter admits."""
        state, admitted = self._state, Admitted.of(self._moment, where, period)
        vector = self._query.vector if state.dimension is not None else None
        codes = NearestCodes(vector, admitted, self._coded) if vector is not None and self._coded else None
        loaded = LoadedItems(admitted, vector, self._indexed.passages_of_rows, self._caches.fields, self._vectors)
        if codes is not None:
            loaded.expect(codes.nearest(max(self._query.candidates, self._query.limit)) >> PASSAGE_BITS)
        self._indexes = _Indexes(
            loaded=loaded,
            doc_values=ServerDocValues(admitted, loaded, vector, has_conversations=state.has_conversations),
            passage_map=ServerPassageMap(loaded),
            postings=_Postings(lambda: self._texts(admitted), loaded),
            vectors=None
            if state.dimension is None
            else ServerVectors(state.dimension, admitted, loaded, codes, has_hnsw=state.has_hnsw),
        )
        narrows = period is not None or not is_scope_alone(where)
        return FilterMatches(filtered=count_hidden(admitted, where, self._moment.now) if narrows else 0)

    def _texts(self, admitted: Admitted) -> SearchedTexts:
        if admitted.restricts:
            return AdmittedTexts(admitted, self._indexed, self._caches.postings)
        segments, tail = self._indexed.segments, self._indexed.tail
        return AllTexts(self._connection, self._store, segments, tail, self._caches.postings)

    def items(self, rows: Sequence[int]) -> dict[int, MemoryItem]:
        """Return items by row number, without their embeddings; one that is damaged or not there is `MISSING`."""
        return fetch_bodies(self._connection, self._store, rows)

    def token_codes(self, passages: Rows, width: int) -> tuple[TokenCodes, NDArray[np.int64]]:
        """Return the token codes of passages, joined in their order, and the number of codes of each.

        Whoever compares tokens looks at the items' fields next: the server reads them meanwhile.
        """
        found = self._caches.tokens.gather(PostgresTokenRows(self._connection, self._store), passages, width)
        if self._indexes is not None:
            self._indexes.loaded.expect_fields(passages >> PASSAGE_BITS)
        return found


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
        self._caches = GenerationCache(lambda: Caches(store))
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
        moment = ReadSnapshot(
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
