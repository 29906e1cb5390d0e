"""Vectors in a database: the nearest by the codes that the process has in memory, which are then compared exactly.

Without codes, where they would take too much memory, all vectors within a filter are compared, and a search without one
uses HNSW.

HNSW: Malkov and Yashunin, "Efficient and robust approximate nearest neighbor search using Hierarchical Navigable Small
World graphs" (2018), as pgvector has it, over vectors of 16 bits a component.
"""

from __future__ import annotations

import math
from functools import cached_property
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray
from psycopg import sql

from devmem.model.items import Vector
from devmem.search.indexes.codes import CodeQuery
from devmem.search.indexes.columns import Positions, Rows, distinct, places_in
from devmem.storage.postgres.database import Connection, composed
from devmem.storage.postgres.rows import of_item, vector_from
from devmem.storage.postgres.schema import PASSAGE_BITS, table_of
from devmem.storage.postgres.server.admitted import Admitted
from devmem.storage.postgres.server.loaded import LoadedItems
from devmem.storage.postgres.server.segments import places_of_rows
from devmem.storage.postgres.server.vector_codes import CodedPassages

_LEAST: Final = 400
"""Minimum number of vectors that are compared exactly."""
_LEAST_EACH, _MOST_EACH = 2, 5
"""Bounds of the number of vectors that are compared exactly, for each that is wanted."""
_CODES_EACH: Final = 5_000
"""One vector is compared for each that is wanted per square root of this many codes: among more vectors, more of those
that are no nearer have a nearer code. Measured with 100,000 and 300,000 generated vectors (docs/benchmarks.md)."""


class NearestCodes:
    """The codes that one search compares."""

    def __init__(self, query: Vector, admitted: Admitted, coded: tuple[CodedPassages, CodedPassages]) -> None:
        """Take the codes of blocks and those of the rest; what the filter does not admit is passed over."""
        self._query, self._admitted = CodeQuery.of(query), admitted
        self._blocks, self._rest = coded
        self._found: dict[int, Rows] = {}

    @cached_property
    def _places(self) -> tuple[Positions | None, Positions | None]:
        """Places of the admitted passages in the blocks and in the rest; None for all."""
        if not self._admitted.restricts:
            return None, None
        rows, blocks = self._admitted.rows, self._blocks
        in_blocks = self._admitted.set.places(blocks, lambda: places_of_rows(blocks.passages, rows))
        return in_blocks, np.flatnonzero(places_in(rows, self._rest.passages >> PASSAGE_BITS) >= 0)

    def takes_all(self, limit: int) -> bool:
        """Whether all passages that may be found are compared in order to find the `limit` nearest."""
        parts = zip((self._blocks, self._rest), self._places, strict=True)
        counts = [len(part.passages) if places is None else len(places) for part, places in parts]
        return all(count <= _compared(limit, count) for count in counts)

    def nearest(self, limit: int) -> Rows:
        """Return the passages to compare in order to find the `limit` nearest."""
        if limit not in self._found:
            found = []
            for part, places in zip((self._blocks, self._rest), self._places, strict=True):
                count = len(part.passages) if places is None else len(places)
                found.append(part.nearest(self._query, _compared(limit, count), places))
            self._found[limit] = distinct(np.concatenate(found))
        return self._found[limit]


def _compared(limit: int, codes: int) -> int:
    """Return the number of passages that are compared in order to find the `limit` nearest of those with some codes."""
    each = min(max(math.sqrt(codes / _CODES_EACH), _LEAST_EACH), _MOST_EACH)
    return max(_LEAST, math.ceil(each * limit))


MOST_BY_HNSW: Final = 1_000
"""Maximum number of candidates that pgvector keeps while it searches; more are found by comparing with all."""
MOST_COMPONENTS: Final = 4_000
"""Length of the longest vectors that pgvector indexes at 16 bits a component."""
_LEAST_CANDIDATES: Final = 400
_CANDIDATES_EACH: Final = 2
"""Number of candidates to keep while searching, for each that is wanted."""


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
    return f"store = {store:d} AND vector_dims(vector) = {dimension:d}"


def has_hnsw(connection: Connection, store: int) -> bool:
    """Whether a store's index is there and complete."""
    query = f"SELECT indisvalid FROM pg_index WHERE indexrelid = {table_of('%s')}"
    found = connection.execute(composed(query), (index_name(store),)).fetchone()
    return bool(found and found[0])


def prepare_hnsw_search(connection: Connection, limit: int) -> None:
    """Set how many candidates a search keeps, until the transaction ends; pgvector's library is loaded with the index.

    `limit` is the number that is wanted.
    """
    candidates = min(MOST_BY_HNSW, max(_LEAST_CANDIDATES, _CANDIDATES_EACH * limit))
    # A setting of a library that is not loaded yet could not be checked, and would be refused when it is.
    connection.execute("SELECT '[0]'::vector, set_config('hnsw.ef_search', %s, true)", (str(candidates),))


def drop_hnsw(connection: Connection, store: int) -> None:
    """Drop a store's index, where there is one; its vectors may have another length afterwards."""
    ((schema,),) = connection.execute("SELECT current_schema()").fetchall()
    connection.execute(sql.SQL("DROP INDEX IF EXISTS {}").format(sql.Identifier(schema, index_name(store))))


def build_hnsw(connection: Connection, store: int, dimension: int) -> None:
    """Make a store's index without keeping anybody from writing; it takes minutes for a million vectors.

    The connection must be outside of a transaction. What an earlier attempt left behind is dropped.
    """
    query = f"SELECT {table_of('%s')} IS NOT NULL"
    ((has_own,),) = connection.execute(composed(query), (f"vectors_{store:d}",)).fetchall()
    connection.execute("SET statement_timeout = 0")
    if not has_hnsw(connection, store):
        drop_hnsw(connection, store)
    create = "CREATE INDEX CONCURRENTLY IF NOT EXISTS {} ON {} USING hnsw ({} halfvec_ip_ops) WHERE {}"
    connection.execute(
        sql.SQL(create).format(
            sql.Identifier(index_name(store)),
            sql.Identifier(f"vectors_{store:d}" if has_own else "vectors_of_all"),
            sql.SQL(composed(hnsw_operand(dimension))),
            sql.SQL(composed(hnsw_condition(store, dimension))),
        )
    )


_WIDENING: Final = 4
"""Factor by which the limit grows as long as too few of the vectors found are of admitted items."""
_DISTANCE: Final = "vectors.vector <#> %(query)s"
"""The negative inner product."""
_ALL: Final = f"SELECT passage, {_DISTANCE} FROM vectors WHERE store = %(store)s ORDER BY 2 LIMIT %(limit)s"
_ADMITTED: Final = (
    f"SELECT passage, {_DISTANCE} FROM (SELECT row FROM items WHERE store = %(store)s AND {{condition}}) AS items "
    f"CROSS JOIN {of_item('vectors', 'passage, vector', 'items.row')} ORDER BY 2 LIMIT %(limit)s"
)
_OF_PASSAGES: Final = "SELECT passage, vector_send(vector) FROM vectors WHERE store = %s AND passage = ANY(%s)"


class ServerVectors:
    """The vectors that a search may find; see `VectorsReader`."""

    def __init__(
        self, dimension: int, admitted: Admitted, loaded: LoadedItems, codes: NearestCodes | None, *, has_hnsw: bool
    ) -> None:
        """Search the vectors of the admitted items.

        Args:
            dimension: number of components of a vector.
            admitted: what the search may find.
            loaded: items that it looked at.
            codes: of the vectors; None where the process does not keep them.
            has_hnsw: whether the store has such an index.
        """
        self.dimension = dimension
        """Number of components of a vector."""
        self._connection, self._store = admitted.connection, admitted.store
        self._admitted, self._loaded, self._codes, self._has_hnsw = admitted, loaded, codes, has_hnsw

    def nearest(self, query: Vector, limit: int, allowed: Rows | None = None) -> tuple[Rows, Vector]:
        """Return the admitted passages most similar to the query with their similarities, best first."""
        if allowed is not None:
            return self._best_of(query, limit, allowed)
        if self._codes is not None:
            return self._by_codes(query, limit, self._codes)
        if self._admitted.restricts:
            return self._within(query, limit)
        asked = limit
        while True:
            passages, near = self._among_all(query, asked)
            there = np.flatnonzero(self._loaded.are_admitted(passages >> PASSAGE_BITS))[:limit]
            if len(there) == limit or len(passages) < asked:
                return passages[there], near[there]
            asked *= _WIDENING

    def _by_codes(self, query: Vector, limit: int, codes: NearestCodes) -> tuple[Rows, Vector]:
        asked = limit
        while True:
            passages = codes.nearest(asked)
            best, near = self._best_of(query, limit, passages)
            # Passages that were deleted may have codes still.
            if len(best) == limit or codes.takes_all(asked):
                return best, near
            asked *= _WIDENING

    def _best_of(self, query: Vector, limit: int, passages: Rows) -> tuple[Rows, Vector]:
        near = self.similarities(query, passages)
        best = np.argsort(-near, kind="stable")[: max(limit, 0)]
        best = best[~np.isnan(near[best])]
        return passages[best], near[best].astype(np.float32)

    def _within(self, query: Vector, limit: int) -> tuple[Rows, Vector]:
        condition, named = self._admitted.named()
        return self._select(_ADMITTED.replace("{condition}", condition), query, limit, named)

    def _among_all(self, query: Vector, limit: int) -> tuple[Rows, Vector]:
        if not self._has_hnsw or limit > MOST_BY_HNSW:
            return self._select(_ALL, query, limit, {})
        prepare_hnsw_search(self._connection, limit)
        # The condition and the cast, as literals, are what the index was made for; see `hnsw.py`.
        distance = f"{hnsw_operand(self.dimension)} <#> %(query)s::halfvec({self.dimension})"
        condition = hnsw_condition(self._store, self.dimension)
        inner = f"SELECT passage, vector FROM vectors WHERE {condition} ORDER BY {distance} LIMIT %(limit)s"
        found = self._select(f"SELECT passage, {_DISTANCE} FROM ({inner}) AS vectors ORDER BY 2", query, limit, {})
        # Candidates that were deleted are still in the index: fewer than asked for is not the end of the vectors.
        return found if len(found[0]) == limit else self._select(_ALL, query, limit, {})

    def _select(self, sql: str, query: Vector, limit: int, values: dict[str, object]) -> tuple[Rows, Vector]:
        parameters: dict[str, Any] = {"store": self._store, "query": query, "limit": limit, **values}
        found = self._connection.execute(composed(sql), parameters, binary=True).fetchall()
        passages = np.array([passage for passage, _ in found], dtype=np.int64)
        return passages, np.array([-distance for _, distance in found], dtype=np.float32)

    def similarities(self, query: Vector, passages: Rows) -> NDArray[np.float64]:  # noqa: ARG002 - the loaded items'
        """Return the cosine of the search's query and each passage; NaN for a passage that has no vector."""
        return self._loaded.similarities(passages)

    def gather(self, passages: Rows) -> Vector:
        """Return the vectors of some passages, shape (n, dimension); zeros for a passage that has none."""
        rows = self._connection.execute(_OF_PASSAGES, (self._store, passages.tolist()), binary=True).fetchall()
        known = {passage: vector_from(raw) for passage, raw in rows}
        found = np.zeros((len(passages), self.dimension), dtype=np.float32)
        for at, passage in enumerate(passages.tolist()):
            if passage in known:
                found[at] = known[passage]
        return found
