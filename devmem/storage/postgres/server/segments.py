"""Segments: immutable postings of some passages, in the tables `segments` and `postings`.

A segment numbers its passages from 0 on, in ascending order, and a posting names one by that number. What no segment
has yet is the tail: the items that the snapshot did not show in which segments were made last.
"""

from __future__ import annotations

import threading
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

import numpy as np
from numpy.typing import NDArray

from devmem.search.indexes.columns import Positions, Rows, locked, places_in, ranges
from devmem.storage.postgres.database import Connection, RowNumbers
from devmem.storage.postgres.rows import of_item
from devmem.storage.postgres.schema import PASSAGE_BITS
from devmem.storage.postgres.server.posting_cache import Layout, signed_hash
from devmem.storage.postgres.server.term_texts import NO_TEXTS, TermRow, TermTexts, numbers_from, of_store

UNMERGED: Final = (
    "FROM {tables} WHERE items.store = %(store)s AND items.xact >= pg_snapshot_xmin(merged) "
    "AND NOT pg_visible_in_snapshot(items.xact, merged)"
)
"""Selects the items of the tail, given the snapshot `merged` of the store's row in `search_states`."""
_PASSAGES: Final = "SELECT segment, passages, lengths FROM segments WHERE store = %s AND segment = ANY(%s)"
_TERMS: Final = (
    "SELECT passage, term_hashes, term_counts, term_length FROM unnest(%(rows)s::bigint[]) AS new(row) CROSS JOIN "
    + of_item("passages", "passage, term_hashes, term_counts, term_length", "new.row")
    + " ORDER BY passage"
)
_COUNTS: Final = (
    "SELECT term, sum(octet_length(codes) / 2)::bigint FROM postings "
    "WHERE store = %(store)s AND segment = ANY(%(segments)s) AND term = ANY(%(terms)s) GROUP BY term"
)
BATCH_SIZE: Final = 20_000
"""Number of items whose terms are read by one statement."""


def read_terms(connection: Connection, store: int, rows: Sequence[int]) -> TermTexts:
    """Return the terms of all passages of some items, whose rows ascend."""
    return TermTexts.of(fetch_terms(connection, store, rows))


def fetch_terms(connection: Connection, store: int, rows: Sequence[int]) -> list[TermRow]:
    """Return the rows of the table `passages` of some items, whose rows ascend."""
    found: list[TermRow] = []
    for start in range(0, len(rows), BATCH_SIZE):
        parameters = {"rows": RowNumbers(rows[start : start + BATCH_SIZE])}
        read = connection.execute(of_store(_TERMS, store), parameters, binary=True).fetchall()
        found += [(passage, hashes, counts, length) for passage, hashes, counts, length in read]
    return found


@dataclass(frozen=True, slots=True, weakref_slot=True, kw_only=True, eq=False)
class SegmentMap:
    """Which passage is at each position of the segments of one moment, one segment after the other."""

    segments: tuple[int, ...]
    """Numbers of the segments."""
    layout: Layout
    """Positions of each one's passages."""
    passages: Rows
    """Passage at each position."""
    lengths: NDArray[np.float32]
    """Length at each position, in terms."""
    order: Positions | None
    """Positions in the order of their passages; None where that is their own."""
    ascending: Rows
    """Passages in their order."""
    total_length: int

    @classmethod
    def of(cls, columns: Mapping[int, tuple[Rows, NDArray[np.float32]]]) -> SegmentMap:
        """Return the map of segments, each with the passages and the lengths of its positions."""
        if not columns:
            nothing = np.empty(0, np.int64)
            return cls(
                segments=(),
                layout={},
                passages=nothing,
                lengths=np.empty(0, np.float32),
                order=None,
                ascending=nothing,
                total_length=0,
            )
        passages, lengths = (np.concatenate(column) for column in zip(*columns.values(), strict=True))
        bounds = np.cumsum([0, *(len(each) for each, _ in columns.values())]).tolist()
        order = None if bool((passages[1:] > passages[:-1]).all()) else np.argsort(passages, kind="stable")
        return cls(
            segments=tuple(columns),
            layout=dict(zip(columns, pairwise(bounds), strict=True)),
            passages=passages,
            lengths=lengths,
            order=order,
            ascending=passages if order is None else passages[order],
            total_length=int(lengths.sum(dtype=np.float64)),
        )

    def positions_of_rows(self, rows: Rows) -> Positions:
        """Return the positions of the passages of some items, whose rows ascend, in ascending order."""
        places = places_of_rows(self.ascending, rows)
        return places if self.order is None else np.sort(self.order[places])

    def positions_of(self, passages: Rows) -> Positions:
        """Return the position of each passage; -1 for one that is in no segment."""
        at = places_in(self.ascending, passages)
        return at if self.order is None else np.where(at >= 0, self.order[at], -1)


def places_of_rows(passages: Rows, rows: Rows) -> Positions:
    """Return the places of those of the passages that are of some items; passages and rows ascend, and so do places."""
    starts = np.searchsorted(passages, rows << PASSAGE_BITS)
    ends, at = starts.copy(), np.arange(len(rows))
    while len(at):
        # Most items have one passage: looking at the next one is faster than searching for the end.
        at = at[ends[at] < len(passages)]
        at = at[(passages[ends[at]] >> PASSAGE_BITS) == rows[at]]
        ends[at] += 1
    return ranges(starts, ends - starts)


NO_SEGMENTS: Final = SegmentMap.of({})


@dataclass(frozen=True, kw_only=True, eq=False)
class IndexedTexts:
    """All passages of a store as of one moment: those of segments, then those of the tail."""

    segments: SegmentMap
    tail: TermTexts

    def passages_of_rows(self, rows: Rows) -> Rows:
        """Return the passages of some items, whose rows ascend, in ascending order.

        One that was deleted may be among them; none that was committed later, of which caches may know already.
        """
        in_tail = self.tail.passages[places_in(rows, self.tail.passages >> PASSAGE_BITS) >= 0]
        in_segments = self.segments.ascending[places_of_rows(self.segments.ascending, rows)]
        return np.union1d(in_segments, in_tail) if len(in_tail) else in_segments


class SegmentCache:
    """Passages and lengths of a store's segments, and the terms of its tail, as a process keeps them. Thread-safe.

    Neither a segment nor the terms of a passage change once they are committed, so what is kept stays right.
    """

    def __init__(self, store: int) -> None:
        self._lock = threading.Lock()
        self._store = store
        self._generation: Hashable = None
        self._forget()

    def _forget(self) -> None:
        self._columns: dict[int, tuple[Rows, NDArray[np.float32]]] = {}
        self._map = NO_SEGMENTS
        self._tail: tuple[bytes, TermTexts] = (b"", NO_TEXTS)

    def read(
        self, connection: Connection, generation: Hashable, segments: tuple[int, ...], tail: bytes
    ) -> IndexedTexts:
        """Return the passages as of the connection's transaction.

        Args:
            connection: in a read transaction.
            generation: of the contents and the store; another one than before has other terms, or numbers.
            segments: numbers of the segments, ascending.
            tail: rows of the tail, ascending, as big-endian int64.
        """
        return locked(self._lock, lambda: self._read(connection, generation, segments, tail))

    def _read(
        self, connection: Connection, generation: Hashable, segments: tuple[int, ...], tail: bytes
    ) -> IndexedTexts:
        if generation != self._generation:
            self._forget()
        if segments != self._map.segments:
            self._map = self._joined(connection, segments)
        if tail != self._tail[0]:
            self._tail = (tail, self._tail_texts(connection, numbers_from(tail, ">i8").tolist()))
        self._generation = generation
        return IndexedTexts(segments=self._map, tail=self._tail[1])

    def _joined(self, connection: Connection, segments: tuple[int, ...]) -> SegmentMap:
        missing = [segment for segment in segments if segment not in self._columns]
        read = connection.execute(_PASSAGES, (self._store, missing), binary=True).fetchall() if missing else []
        for segment, passages, lengths in read:
            known = numbers_from(passages, "<i8").astype(np.int64), numbers_from(lengths, "<u2").astype(np.float32)
            self._columns[segment] = known
        self._columns = {segment: self._columns[segment] for segment in segments}
        return SegmentMap.of(self._columns)

    def _tail_texts(self, connection: Connection, rows: Sequence[int]) -> TermTexts:
        """Return the terms of the tail's items, of which those that were there before are not read again."""
        before = self._tail[1]
        known = np.isin(before.passages >> PASSAGE_BITS, np.array(rows, dtype=np.int64))
        kept = before.where(known)
        seen = set((kept.passages >> PASSAGE_BITS).tolist())
        return kept.joined(read_terms(connection, self._store, [row for row in rows if row not in seen]))

    def clear(self) -> None:
        """Forget everything."""
        locked(self._lock, self._forget)


def count_postings(connection: Connection, store: int, segments: SegmentMap, terms: Sequence[int]) -> dict[int, int]:
    """Return the number of passages in the segments that some terms (hashes) occur in; those in none are left out."""
    if not segments.segments or not terms:
        return {}
    parameters = {
        "segments": RowNumbers(segments.segments),
        "terms": RowNumbers([signed_hash(term) for term in terms]),
    }
    found = connection.execute(of_store(_COUNTS, store), parameters, binary=True).fetchall()
    return {term % (1 << 64): count for term, count in found}
