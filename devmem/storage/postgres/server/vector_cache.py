"""Vectors that searches compared, kept in the memory of the process."""

from __future__ import annotations

import threading
from collections.abc import Hashable
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
from numpy.typing import NDArray

from devmem.model.items import Vector
from devmem.search.indexes.columns import Rows, locked, places_in, with_room
from devmem.storage.postgres.database import Connection, Cursor, RowNumbers, Snapshot
from devmem.storage.postgres.rows import vectors_from
from devmem.storage.postgres.schema import PASSAGE_BITS
from devmem.storage.postgres.server.term_texts import numbers_from, of_store

MOST_BYTES: Final = 128 << 20
"""Maximum number of bytes of all vectors that are kept, with their places."""
OVERHEAD: Final = 160
"""Number of bytes that the place of a vector takes in memory."""
MOST_DELETED: Final = 1_000
"""Number of items deleted since a cache was made up to which it is used."""
_MARKS: Final = 20
"""There are 2 ** 20 marks for passages that were compared: a byte each."""
_MIXING: Final = np.uint64(0x9E3779B97F4A7C15)
"""Odd, near 2 ** 64 / the golden ratio: the product's upper bits are spread evenly (Knuth, TAOCP 6.4)."""
_NO_ROWS: Final[Rows] = np.empty(0, dtype=np.int64)


class VectorCache:
    """The vectors that were read last, of one generation of a store. Thread-safe.

    The vector of a passage never changes; whether it is still there is told by `KnownVectors`.
    """

    def __init__(self, generation: Hashable, since: Snapshot, most_bytes: int = MOST_BYTES) -> None:
        """Start empty.

        Args:
            generation: of the store.
            since: moment of the search that makes it.
            most_bytes: maximum number of bytes of all vectors and their places.
        """
        self.generation, self.since = generation, since
        """Nothing is kept that was deleted before this moment; what is deleted later may be."""
        self._lock = threading.Lock()
        self._most_bytes = most_bytes
        self._marks = np.zeros(1 << _MARKS, dtype=np.bool_)
        self._marked = 0
        self._clear()

    def _clear(self) -> None:
        self._places: dict[int, int] = {}
        self._vectors: Vector = np.empty((0, 0), dtype=np.float32)

    def similarities(self, query: Vector, passages: Rows) -> NDArray[np.float64]:
        """Return the cosine of a query and some passages, NaN for one that is not kept."""
        places, vectors = locked(self._lock, lambda: (self._places_of(passages), self._vectors))
        found = np.full(len(passages), np.nan)
        known = np.flatnonzero(places >= 0)
        if len(known):
            found[known] = cosines(vectors.take(places[known], axis=0), query)
        return found

    def _places_of(self, passages: Rows) -> NDArray[np.int64]:
        places = self._places
        return np.array([places.get(passage, -1) for passage in passages.tolist()], dtype=np.int64)

    def were_compared(self, passages: Rows) -> NDArray[np.bool_]:
        """Return for each passage whether this was asked of it before; a few that were not may be among them.

        Most of what searches within many scopes look at is looked at once: only the rest is worth keeping.
        """
        marks = ((passages.astype(np.uint64) * _MIXING) >> np.uint64(64 - _MARKS)).astype(np.int64)
        return locked(self._lock, lambda: self._mark(marks))

    def _mark(self, marks: NDArray[np.int64]) -> NDArray[np.bool_]:
        found = self._marks[marks]
        self._marked += int(np.count_nonzero(~found))
        if self._marked > len(self._marks) // 4:
            self._marks[:] = False
            self._marked = 0
        self._marks[marks] = True
        return found

    def keep(self, passages: Rows, vectors: Vector) -> None:
        """Keep vectors, row by row the passages'; when there are too many, start again with as many of these as fit."""
        if len(passages):
            locked(self._lock, lambda: self._keep(passages, vectors))

    def _keep(self, passages: Rows, vectors: Vector) -> None:
        most = self._most_bytes // (vectors[0].nbytes + OVERHEAD)
        # Another search may have kept some of them meanwhile.
        new = np.flatnonzero(self._places_of(passages) < 0)
        if len(self._places) + len(new) > most:
            self._clear()
            new = np.arange(min(len(passages), most))
        first, end = len(self._places), len(self._places) + len(new)
        if not first:
            self._vectors = np.empty((0, vectors.shape[1]), dtype=np.float32)
        self._vectors = with_room(self._vectors, end, most)
        self._vectors[first:end] = vectors[new]
        self._places.update(zip(passages[new].tolist(), range(first, end), strict=True))


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class KnownVectors:
    """The vectors that are kept, as one search may use them."""

    cache: VectorCache
    seen: Snapshot
    """Moment up to which deletions are known."""
    deleted: Rows
    """Rows of the items that were deleted from the cache's first moment to this one, ascending."""

    def similarities(self, query: Vector, passages: Rows) -> NDArray[np.float64]:
        """Return the cosine of a query and some passages; NaN for one that is not known, or that is not there."""
        found = self.cache.similarities(query, passages)
        if len(self.deleted):
            found[places_in(self.deleted, passages >> PASSAGE_BITS) >= 0] = np.nan
        return found


class VectorCaches:
    """One cache after the other: a new one for a new generation, and where too much was deleted. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.current: KnownVectors | None = None
        """Its `seen` is the moment since which a search asks for deletions."""

    def of(
        self, asked: KnownVectors | None, generation: Hashable, snapshot: Snapshot, floor: int, deleted: Rows
    ) -> KnownVectors | None:
        """Return the vectors that a search may use; None where it sees an earlier moment than they are of.

        Args:
            asked: what was the current one when the search began.
            generation: of the store, as the search sees it.
            snapshot: of the search's transaction.
            floor: number of the last transaction whose deletions may have been forgotten.
            deleted: rows of items that were deleted since `asked.seen`, at most one more than `MOST_DELETED`.
        """
        if (
            asked is None
            or asked.cache.generation != generation
            or asked.seen.xmin <= floor
            or len(asked.deleted) + len(deleted) > MOST_DELETED
        ):
            known = KnownVectors(cache=VectorCache(generation, snapshot), seen=snapshot, deleted=_NO_ROWS)
        elif not snapshot.shows_all_of(asked.cache.since):
            return None
        elif not snapshot.shows_all_of(asked.seen):
            # What was deleted after this moment is read again.
            return asked
        else:
            known = replace(asked, seen=snapshot, deleted=np.union1d(asked.deleted, deleted))
        locked(self._lock, lambda: self._replace(asked, known))
        return known

    def _replace(self, asked: KnownVectors | None, known: KnownVectors) -> None:
        # Where another search came first, its vectors are the ones that are shared.
        if self.current is asked:
            self.current = known

    def clear(self) -> None:
        """Forget everything."""
        self.current = None


def cosines(vectors: Vector, query: Vector) -> NDArray[np.float64]:
    """Return the cosine of each vector and a query; the same for a vector whatever others are compared with it.

    A product of a matrix and a vector is not: equal items would differ in the last digit, and so in their order.
    """
    # NumPy sums a single row in several parts, where it is longer than its buffer.
    rows = vectors.repeat(2, axis=0) if len(vectors) == 1 else vectors
    found: Vector = np.einsum("ij,j->i", rows, query)[: len(vectors)]
    return found.astype(np.float64)


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
