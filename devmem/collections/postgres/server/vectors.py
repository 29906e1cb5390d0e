"""Vectors in a database: the nearest by the codes that the process has in memory, which are then compared exactly.

Without codes, where they would take too much memory, all vectors within a filter are compared, and a search without one
uses HNSW.

HNSW: Malkov and Yashunin, "Efficient and robust approximate nearest neighbor search using Hierarchical Navigable Small
World graphs" (2018), as pgvector has it, over vectors of 16 bits a component.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from devmem.collections.postgres.database import composed
from devmem.collections.postgres.rows import vector_from
from devmem.collections.postgres.schema import PASSAGE_BITS
from devmem.collections.postgres.server.admitted import Admitted
from devmem.collections.postgres.server.hnsw import MOST_BY_HNSW, hnsw_condition, hnsw_operand, prepare_hnsw_search
from devmem.collections.postgres.server.loaded import LoadedItems
from devmem.collections.postgres.server.nearest_codes import NearestCodes
from devmem.collections.postgres.server.planning import of_item
from devmem.indexes.row_column import Rows
from devmem.model.items import Vector

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
