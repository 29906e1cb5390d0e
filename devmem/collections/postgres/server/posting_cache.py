"""The postings that searches read, kept in the memory of the process as far as there is room."""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from devmem.collections.postgres.database import Connection
from devmem.collections.postgres.parameters import RowNumbers
from devmem.collections.postgres.server.planning import of_store
from devmem.collections.postgres.server.term_texts import numbers_from
from devmem.indexes.locking import locked
from devmem.indexes.postings.dense import NOT_THERE, DensePostings
from devmem.indexes.postings.impacts import Codes, Impacts
from devmem.indexes.postings.scoring import PostingList
from devmem.indexes.postings.segment import Docs, Postings

MOST_BYTES: Final = 128 << 20
"""Maximum number of bytes of all postings that are kept."""
_OVERHEAD: Final = 500
"""Bytes that an entry takes beside its arrays."""
_MOST_COUNTS: Final = 5_000
"""Number of terms up to which it is remembered how often they occur."""
_POSTINGS: Final = (
    "SELECT term, segment, docs, codes FROM postings WHERE store = %(store)s AND segment = ANY(%(segments)s) "
    "AND term = ANY(%(terms)s)"
)
_DENSE_FROM: Final = 3
"""A list is kept with a code for each passage of its segment where more than one in this many has the term."""
Key: TypeAlias = tuple[int, int]
"""Segment, and hash of a term."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class SegmentList:
    """The postings of a term in a segment."""

    docs: Docs | None
    """Positions in the segment, ascending; None where `codes` has an entry for each position."""
    codes: Codes
    """Codes of the postings; where `docs` is None, `NOT_THERE` for a passage without the term."""
    distinct: Codes
    """Each code that occurs, once."""
    count: int
    """Number of postings."""

    @classmethod
    def of(cls, docs: Docs, codes: Codes, size: int) -> SegmentList:
        """Return the postings of a segment of `size` passages, in the smaller form."""
        distinct = np.flatnonzero(np.bincount(codes)).astype(np.uint16)
        if len(docs) * _DENSE_FROM <= size:
            return cls(docs=docs, codes=codes, distinct=distinct, count=len(docs))
        dense = np.full(size, NOT_THERE, dtype=np.uint16)
        dense[docs] = codes
        return cls(docs=None, codes=dense, distinct=distinct, count=len(docs))

    def bytes(self) -> int:
        """Return the size in memory."""
        return self.codes.nbytes + self.distinct.nbytes + (0 if self.docs is None else self.docs.nbytes) + _OVERHEAD

    def at(self, first: int, table: Impacts) -> PostingList:
        """Return the list for scores where the segment begins at a position."""
        peak = float(table[self.distinct].max())
        if self.docs is None:
            return DensePostings(first=first, codes=self.codes, count=self.count, peak=peak)
        return Postings(docs=self.docs, codes=self.codes, peak=peak, first=first)

    def among(self, places: Docs, mask: NDArray[np.bool_], first: int, table: Impacts) -> Postings | None:
        """Return the postings of some positions of the segment, which are numbered from `first` on.

        Args:
            places: the positions, ascending.
            mask: whether each position of the segment is one of them.
            first: number of the first one.
            table: impacts by code.
        """
        if self.docs is None:
            codes = self.codes[places]
            docs = np.flatnonzero(codes != NOT_THERE)
            codes = codes[docs]
        else:
            found = np.flatnonzero(mask[self.docs])
            docs, codes = np.searchsorted(places, self.docs[found]), self.codes[found]
        if not len(docs):
            return None
        peak = float(table[self.distinct].max())
        return Postings(docs=docs.astype(np.int32), codes=codes, peak=peak, first=first)


class PostingCache:
    """Postings by segment and term, those that were asked for last. Thread-safe; a segment never changes."""

    def __init__(self, store: int, most_bytes: int = MOST_BYTES) -> None:
        self._lock = threading.Lock()
        self._store, self._most_bytes = store, most_bytes
        self._lists: dict[Key, SegmentList | None] = {}
        """In the order of their use; None where a segment does not have a term."""
        self._bytes = 0
        self._counted: tuple[int, ...] = ()
        self._counts: dict[int, int] = {}
        """Number of postings of some terms in the segments `_counted`."""

    def counts(
        self, segments: tuple[int, ...], terms: Sequence[int], count: Callable[[Sequence[int]], Mapping[int, int]]
    ) -> dict[int, int]:
        """Return the number of postings of some terms in all segments.

        Args:
            segments: numbers of the segments.
            terms: hashes.
            count: counts those of some terms; what it leaves out occurs in none.
        """
        known = locked(self._lock, lambda: dict(self._counts) if segments == self._counted else {})
        missing = [term for term in terms if term not in known]
        if missing:
            found = count(missing)
            known |= {term: found.get(term, 0) for term in missing}
            locked(self._lock, lambda: self._keep_counts(segments, known))
        return {term: known[term] for term in terms}

    def _keep_counts(self, segments: tuple[int, ...], known: dict[int, int]) -> None:
        self._counted, self._counts = segments, known if len(known) <= _MOST_COUNTS else {}

    def read(
        self, connection: Connection, sizes: Mapping[int, int], terms: Sequence[int]
    ) -> dict[Key, SegmentList | None]:
        """Return the postings of some terms in some segments.

        Args:
            connection: in a read transaction that shows the segments.
            sizes: number of passages by segment.
            terms: hashes.
        """
        wanted = [(segment, term) for segment in sizes for term in terms]
        found = locked(self._lock, lambda: self._known(wanted))
        missing = [key for key in wanted if key not in found]
        if missing:
            read: dict[Key, SegmentList | None] = dict.fromkeys(missing)
            for key, docs, codes in self._fetch(connection, missing):
                read[key] = SegmentList.of(docs, codes, sizes[key[0]])
            found |= read
            locked(self._lock, lambda: self._keep(read))
        return found

    def _known(self, wanted: Sequence[Key]) -> dict[Key, SegmentList | None]:
        found = {key: self._lists.pop(key) for key in wanted if key in self._lists}
        self._lists |= found
        return found

    def _fetch(self, connection: Connection, missing: Sequence[Key]) -> list[tuple[Key, Docs, Codes]]:
        parameters = {
            "segments": RowNumbers(sorted({segment for segment, _ in missing})),
            "terms": RowNumbers([signed_hash(term) for term in {term for _, term in missing}]),
        }
        found = connection.execute(of_store(_POSTINGS, self._store), parameters, binary=True).fetchall()
        return [
            ((segment, term % (1 << 64)), numbers_from(docs, "<i4"), numbers_from(codes, "<u2"))
            for term, segment, docs, codes in found
        ]

    def _keep(self, read: Mapping[Key, SegmentList | None]) -> None:
        for key, new in read.items():
            self._bytes += _bytes_of(new) - (_bytes_of(self._lists.pop(key)) if key in self._lists else 0)
            self._lists[key] = new
        while self._bytes > self._most_bytes and self._lists:
            self._bytes -= _bytes_of(self._lists.pop(next(iter(self._lists))))


class PostingCaches:
    """The cache of one generation of a store after the other, as numbers of segments are of one. Thread-safe."""

    def __init__(self, store: int) -> None:
        self._lock = threading.Lock()
        self._store = store
        self._generation: Hashable = None
        self._cache = PostingCache(store)

    def of(self, generation: Hashable) -> PostingCache:
        """Return the cache of a generation: a new one where the last was of another."""
        return locked(self._lock, lambda: self._of(generation))

    def _of(self, generation: Hashable) -> PostingCache:
        if generation != self._generation:
            self._generation, self._cache = generation, PostingCache(self._store)
        return self._cache

    def clear(self) -> None:
        """Forget everything."""
        locked(self._lock, lambda: self._of(None))


def _bytes_of(found: SegmentList | None) -> int:
    return _OVERHEAD if found is None else found.bytes()


def signed_hash(term: int) -> int:
    """Return a term's hash as a column holds it."""
    return term - (1 << 64) if term >> 63 else term
