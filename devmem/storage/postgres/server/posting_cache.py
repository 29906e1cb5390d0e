"""The postings that searches read, kept in the memory of the process as far as there is room."""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from devmem.search.indexes.columns import Positions, locked
from devmem.search.indexes.postings import Postings
from devmem.search.indexes.scoring import NOT_THERE, Codes, DensePostings, Docs, Impacts, PostingList
from devmem.storage.postgres.database import Connection, RowNumbers
from devmem.storage.postgres.server.term_texts import numbers_from, of_store

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
_DENSE_FROM: Final = 8
"""A list is kept with a code for each position where more than one in this many has the term.

It takes up to 2.7 times the memory of the postings alone, but those of some positions are found at once.
"""
Layout: TypeAlias = dict[int, tuple[int, int]]
"""Position of the first passage of each segment, and the one after its last; one segment after the other."""
_Part: TypeAlias = tuple[Docs, Codes]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class TermPostings:
    """The postings of a term in all segments."""

    docs: Docs | None
    """Positions, ascending; None where `codes` has an entry for each position."""
    codes: Codes
    """Codes of the postings; where `docs` is None, `NOT_THERE` for a passage without the term."""
    distinct: Codes
    """Each code that occurs, once."""
    count: int
    """Number of postings."""

    @classmethod
    def of(cls, docs: Docs, codes: Codes, size: int) -> TermPostings:
        """Return the postings among `size` passages, in the form that suits their number."""
        distinct = np.flatnonzero(np.bincount(codes)).astype(np.uint16)
        if len(docs) * _DENSE_FROM <= size:
            return cls(docs=docs, codes=codes, distinct=distinct, count=len(docs))
        dense = np.full(size, NOT_THERE, dtype=np.uint16)
        dense[docs] = codes
        return cls(docs=None, codes=dense, distinct=distinct, count=len(docs))

    def bytes(self) -> int:
        """Return the size in memory."""
        return self.codes.nbytes + self.distinct.nbytes + (0 if self.docs is None else self.docs.nbytes) + _OVERHEAD

    def part(self, start: int, end: int) -> _Part:
        """Return the postings at some positions, counted from the first of them, and their codes."""
        if self.docs is None:
            codes = self.codes[start:end]
            docs = np.flatnonzero(codes != NOT_THERE)
            return docs.astype(np.int32), codes[docs]
        first, last = np.searchsorted(self.docs, np.array([start, end], dtype=np.int32)).tolist()
        return self.docs[first:last] - np.int32(start), self.codes[first:last]

    def scored(self, table: Impacts) -> PostingList | None:
        """Return the list for scores; None where the term does not occur. `table` has the impacts by code."""
        if not self.count:
            return None
        peak = self.peak(table)
        if self.docs is None:
            return DensePostings(first=0, codes=self.codes, count=self.count, peak=peak)
        return Postings(docs=self.docs, codes=self.codes, peak=peak)

    def among(self, places: Positions, mask: Callable[[], NDArray[np.bool_]]) -> tuple[Docs, Codes]:
        """Return the postings of some positions, which are numbered from 0 on, and their codes.

        Args:
            places: the positions, ascending.
            mask: returns for each position whether it is one of them.
        """
        if self.docs is None:
            codes = self.codes.take(places)
            docs = np.flatnonzero(codes != NOT_THERE)
            return docs.astype(np.int32), codes[docs]
        # `take` is twice as fast as an index of 32 bits.
        found = np.flatnonzero(mask().take(self.docs))
        return np.searchsorted(places, self.docs[found]).astype(np.int32), self.codes[found]

    def peak(self, table: Impacts) -> float:
        """Return the highest impact of a posting; `table` has the impacts by code."""
        return float(table[self.distinct].max())


class PostingCache:
    """Postings by term, those that were asked for last. Thread-safe.

    A segment never changes: where there are other segments than before, only the postings of the new ones are read.
    """

    def __init__(self, store: int, most_bytes: int = MOST_BYTES) -> None:
        self._lock = threading.Lock()
        self._store, self._most_bytes = store, most_bytes
        self._lists: dict[int, tuple[Layout, TermPostings]] = {}
        """In the order of their use, each with the segments whose positions it has."""
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
        if not segments:
            # A search within few items reads no segments: what others know stays known.
            return dict.fromkeys(terms, 0)
        known = locked(self._lock, lambda: dict(self._counts) if segments == self._counted else {})
        missing = [term for term in terms if term not in known]
        if missing:
            found = count(missing)
            known |= {term: found.get(term, 0) for term in missing}
            locked(self._lock, lambda: self._keep_counts(segments, known))
        return {term: known[term] for term in terms}

    def _keep_counts(self, segments: tuple[int, ...], known: dict[int, int]) -> None:
        self._counted, self._counts = segments, known if len(known) <= _MOST_COUNTS else {}

    def read(self, connection: Connection, layout: Layout, terms: Sequence[int]) -> dict[int, TermPostings]:
        """Return the postings of some terms.

        Args:
            connection: in a read transaction that shows the segments.
            layout: the segments.
            terms: hashes.
        """
        if not layout:
            return dict.fromkeys(terms, _NOTHING)
        known = locked(self._lock, lambda: self._known(terms))
        found = {term: postings for term, (of, postings) in known.items() if of is layout or of == layout}
        missing = [term for term in terms if term not in found]
        if missing:
            read = self._read(connection, layout, missing, known)
            locked(self._lock, lambda: self._keep(layout, read))
            found |= read
        return found

    def _known(self, terms: Sequence[int]) -> dict[int, tuple[Layout, TermPostings]]:
        found = {term: self._lists.pop(term) for term in terms if term in self._lists}
        self._lists |= found
        return found

    def _read(
        self,
        connection: Connection,
        layout: Layout,
        terms: Sequence[int],
        known: Mapping[int, tuple[Layout, TermPostings]],
    ) -> dict[int, TermPostings]:
        """Join what is known of some terms, under other layouts, with what the database has of the other segments."""
        parts: dict[int, dict[int, _Part]] = {term: {} for term in terms}
        for term in terms:
            before, postings = known.get(term, ({}, _NOTHING))
            parts[term] = {segment: postings.part(*before[segment]) for segment in layout if segment in before}
        missing = {segment for each in parts.values() for segment in layout if segment not in each}
        for term, segment, part in self._fetch(connection, missing, terms):
            parts[term].setdefault(segment, part)
        size = max((end for _, end in layout.values()), default=0)
        return {
            term: _joined([(start, parts[term][at]) for at, (start, _) in layout.items() if at in parts[term]], size)
            for term in terms
        }

    def _fetch(
        self, connection: Connection, segments: Collection[int], terms: Sequence[int]
    ) -> Iterator[tuple[int, int, _Part]]:
        """Yield the term, the segment and the postings of each list that there is."""
        if not segments:
            return
        parameters = {
            "segments": RowNumbers(sorted(segments)),
            "terms": RowNumbers([signed_hash(term) for term in terms]),
        }
        found = connection.execute(of_store(_POSTINGS, self._store), parameters, binary=True).fetchall()
        for term, segment, docs, codes in found:
            yield term % (1 << 64), segment, (numbers_from(docs, "<i4"), numbers_from(codes, "<u2"))

    def _keep(self, layout: Layout, read: Mapping[int, TermPostings]) -> None:
        for term, new in read.items():
            before = self._lists.pop(term, None)
            self._bytes += new.bytes() - (before[1].bytes() if before is not None else 0)
            self._lists[term] = layout, new
        while self._bytes > self._most_bytes and self._lists:
            self._bytes -= self._lists.pop(next(iter(self._lists)))[1].bytes()


_NOTHING: Final = TermPostings.of(np.empty(0, dtype=np.int32), np.empty(0, dtype=np.uint16), 0)


def _joined(parts: Sequence[tuple[int, _Part]], size: int) -> TermPostings:
    """Return the postings of some segments as one list, each with the position of its segment's first passage."""
    if not parts:
        return _NOTHING
    docs = np.concatenate([docs + np.int32(start) for start, (docs, _) in parts])
    return TermPostings.of(docs, np.concatenate([codes for _, (_, codes) in parts]), size)


def signed_hash(term: int) -> int:
    """Return a term's hash as a column holds it."""
    return term - (1 << 64) if term >> 63 else term
