"""The cosine of a search's query and passages, by vectors in memory, by vectors that are read, or by the server."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from devmem.collections.postgres.database import Connection, Cursor
from devmem.collections.postgres.parameters import RowNumbers
from devmem.collections.postgres.rows import vectors_from
from devmem.collections.postgres.server.planning import of_store
from devmem.collections.postgres.server.term_texts import numbers_from
from devmem.collections.postgres.server.vector_cache import KnownVectors, cosines
from devmem.indexes.row_column import Rows
from devmem.indexes.top_k import places_in
from devmem.model.items import Vector

# One row is transferred faster than hundreds.
_SIMILARITIES: Final = (
    "SELECT string_agg(int8send(passage), ''::bytea), string_agg(float8send(-(vector <#> %(query)s)), ''::bytea) "
    "FROM vectors WHERE store = %(store)s AND passage = ANY(%(passages)s)"
)
_VECTORS: Final = (
    "SELECT string_agg(int8send(passage), ''::bytea), string_agg(vector_send(vector), ''::bytea) "
    "FROM vectors WHERE store = %(store)s AND passage = ANY(%(passages)s)"
)
_FEW: Final = 128
"""Number of vectors that are read rather than compared by the server, however few are in memory."""
_MISSING_SHARE: Final = 2
"""More are read where at most one in this many is not in memory."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class AskedSimilarities:
    """A request to the server."""

    passages: Rows
    known: NDArray[np.float64]
    """Similarity of each passage whose vector is in memory; NaN otherwise."""
    similarities: Cursor | None = None
    """Returns which passages have a vector, and their similarities; None where the server compares none."""
    vectors: Cursor | None = None
    """Returns which passages have a vector, and the vectors; None where none are read."""


class Similarities:
    """Compares passages with the query of one search. Used in one thread.

    Reading vectors takes several times as long as having the server compare them: it is worth it where most of them are
    in memory. Whoever compares the first ones compares all others of the search, so that equal items are equal.
    """

    def __init__(self, connection: Connection, store: int, query: Vector | None, known: KnownVectors | None) -> None:
        """Compare nothing yet.

        Args:
            connection: in the search's transaction.
            store: number of the store.
            query: the query's vector, None where similarity does not count.
            known: vectors that the process keeps; None where this search may not use them.
        """
        self._connection, self._store, self._query, self._known = connection, store, query, known
        self._compares_here: bool | None = None
        """Whether this process compares the vectors, not the server; None before there are any."""

    def ask(self, passages: Rows) -> AskedSimilarities:
        """Have the server read what is needed to compare some passages, while the search goes on."""
        nothing = np.full(len(passages), np.nan)
        if self._query is None or not len(passages):
            return AskedSimilarities(passages=passages, known=nothing)
        known = nothing if self._known is None else self._known.similarities(self._query, passages)
        missing = passages[np.isnan(known)]
        if self._compares_here is None:
            self._compares_here = len(missing) <= max(_FEW, len(passages) // _MISSING_SHARE)
        if self._compares_here:
            return AskedSimilarities(passages=passages, known=known, vectors=self._execute(_VECTORS, missing))
        often = missing[:0] if self._known is None else missing[self._known.cache.were_compared(missing)]
        return AskedSimilarities(
            passages=passages,
            known=nothing,
            similarities=self._execute(_SIMILARITIES, passages),
            vectors=self._execute(_VECTORS, often),
        )

    def _execute(self, statement: str, passages: Rows) -> Cursor | None:
        if not len(passages):
            return None
        parameters = {"passages": RowNumbers(passages), "query": self._query}
        return self._connection.execute(of_store(statement, self._store), parameters, binary=True)

    def read(self, asked: AskedSimilarities) -> NDArray[np.float64]:
        """Return the similarity of each passage; NaN for one without a vector, or that is not there."""
        found, order = asked.known.copy(), np.argsort(asked.passages)
        ascending = asked.passages[order]
        if asked.similarities is not None:
            ((read, values),) = asked.similarities.fetchall()
            found[order[places_in(ascending, numbers_from(read, ">i8"))]] = numbers_from(values, ">f8")
        if asked.vectors is not None and self._query is not None:
            ((read, raw),) = asked.vectors.fetchall()
            passages = numbers_from(read, ">i8").astype(np.int64)
            vectors = vectors_from(raw, len(passages), len(self._query))
            if self._compares_here:
                found[order[places_in(ascending, passages)]] = cosines(vectors, self._query)
            if self._known is not None:
                self._known.cache.keep(passages, vectors)
        return found
