"""Postings that are kept in memory while segments come and go."""

from __future__ import annotations

import weakref
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from devmem.search.indexes.scoring import impact_table
from devmem.storage.postgres.schema import PASSAGE_BITS
from devmem.storage.postgres.server import admitted as admitted_postings
from devmem.storage.postgres.server.admitted import AdmittedPassages
from devmem.storage.postgres.server.posting_cache import Layout, PostingCache, TermPostings, signed_hash
from devmem.storage.postgres.server.segments import SegmentMap

SIZES = {1: 40, 2: 7, 3: 60, 4: 1}
TERMS = (5, (1 << 63) + 9)
TABLE = impact_table(10.0)


class Database:
    """Has the postings of some segments; notes which were asked for."""

    def __init__(self, postings: Mapping[tuple[int, int], list[int]]) -> None:
        self.postings = postings
        self.asked: list[tuple[tuple[int, ...], int]] = []

    def execute(self, query: str, parameters: Mapping[str, Any], *, binary: bool) -> Database:
        assert "postings" in query
        assert binary
        segments, terms = tuple(parameters["segments"].numbers), parameters["terms"].numbers
        self.asked.append((segments, len(terms)))
        self._found = [
            (signed_hash(term), segment, *_columns(docs))
            for (term, segment), docs in self.postings.items()
            if segment in segments and signed_hash(term) in terms and docs
        ]
        return self

    def fetchall(self) -> list[tuple[int, int, bytes, bytes]]:
        return self._found


def _columns(docs: list[int]) -> tuple[bytes, bytes]:
    codes = np.array(docs, dtype="<u2") + np.uint16(100)
    return np.array(docs, dtype="<i4").tobytes(), codes.tobytes()


def _layout(segments: list[int]) -> Layout:
    ends = np.cumsum([SIZES[segment] for segment in segments]).tolist()
    return dict(zip(segments, zip([0, *ends], ends, strict=False), strict=True))


def _wanted(database: Database, layout: Layout, term: int) -> dict[int, int]:
    """Return the code at each position."""
    lists = {segment: database.postings.get((term, segment), []) for segment in layout}
    return {layout[segment][0] + doc: doc + 100 for segment, docs in lists.items() for doc in docs}


def _codes(postings: TermPostings, size: int) -> dict[int, int]:
    docs, codes = postings.part(0, size)
    return dict(zip(docs.tolist(), codes.tolist(), strict=True))


@st.composite
def databases(draw: st.DrawFn) -> Database:
    """Draw the postings of both terms in each segment: none, a few, or most of its passages."""
    return Database(
        {
            (term, segment): sorted(draw(st.sets(st.integers(0, size - 1))))
            for term in TERMS
            for segment, size in SIZES.items()
        }
    )


LAYOUTS = st.lists(st.permutations(list(SIZES)).flatmap(lambda all_: st.integers(0, 4).map(lambda n: all_[:n])))


@given(databases(), LAYOUTS)
def test_postings_are_those_of_the_segments_however_they_change(database: Database, layouts: list[list[int]]) -> None:
    cache, known = PostingCache(store=1), set[int]()
    for segments in layouts:
        layout = _layout(segments)
        database.asked.clear()
        found = cache.read(database, layout, TERMS)  # type: ignore[arg-type]
        size = max((end for _, end in layout.values()), default=0)
        for term in TERMS:
            assert _codes(found[term], size) == _wanted(database, layout, term)
        # What is there is not asked for again, and stays where a search needs no segments.
        assert {segment for asked, _ in database.asked for segment in asked} == set(segments) - known
        known = set(segments) or known


@given(databases(), st.sets(st.integers(0, 107)))
def test_postings_among_some_positions_are_numbered_as_these(database: Database, admitted: set[int]) -> None:
    layout, places = _layout([1, 2, 3, 4]), np.array(sorted(admitted), dtype=np.int64)
    mask = np.zeros(108, dtype=np.bool_)
    mask[places] = True
    found = PostingCache(store=1).read(database, layout, TERMS)  # type: ignore[arg-type]
    for term in TERMS:
        docs, codes = found[term].among(places, lambda: mask)
        wanted = {at: code for at, code in _wanted(database, layout, term).items() if at in admitted}
        assert dict(zip(places[docs].tolist(), codes.tolist(), strict=True)) == wanted


def test_counts_stay_known_where_a_search_needs_no_segments() -> None:
    asked: list[int] = []

    def count(terms: Sequence[int]) -> dict[int, int]:
        asked.extend(terms)
        return dict.fromkeys(terms, 9)

    cache = PostingCache(store=1)
    found = [cache.counts(segments, TERMS[:1], count)[TERMS[0]] for segments in ((1, 2), (), (1, 2))]
    assert (found, asked) == ([9, 0, 9], [TERMS[0]])


def _admitted(rows: Sequence[int]) -> AdmittedPassages:
    """Return those of 90 items of one passage, all of them in one segment."""
    passages = np.arange(90, dtype=np.int64) << PASSAGE_BITS
    segments = SegmentMap.of({3: (passages, np.ones(90, dtype=np.float32))})
    return AdmittedPassages(segments, np.array(rows, dtype=np.int64))


def _postings(docs: Sequence[int]) -> TermPostings:
    return TermPostings.of(np.array(docs, dtype=np.int32), np.full(len(docs), 100, dtype=np.uint16), 90)


@pytest.mark.parametrize("docs", [[5, 60], list(range(0, 90, 2))])
def test_postings_of_admitted_passages_keep_no_others_in_memory(docs: list[int]) -> None:
    """They outlive the lists by term, which are dropped when these are too many."""
    admitted, mask = _admitted([60, 61]), np.isin(np.arange(90), [60, 61])
    found = _postings(docs)
    codes = weakref.ref(found.codes)
    assert [part.tolist() for part in admitted.postings(5, found, lambda: mask)] == [[0], [100]]
    del found
    assert codes() is None
    assert admitted.postings(5, _postings(docs), lambda: mask)[0].tolist() == [0]


def test_terms_that_no_admitted_passage_has_are_not_kept_for_good() -> None:
    admitted, mask, found = _admitted([60]), np.isin(np.arange(90), [60]), _postings([5])
    for term in range(1_000):
        admitted.postings(term, found, lambda: mask)
    assert len(admitted._known) < 50


def test_postings_of_admitted_passages_are_limited_however_many_these_are(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(admitted_postings, "_MOST_KEPT", 500)
    admitted, mask, found = _admitted(range(90)), np.ones(90, dtype=np.bool_), _postings(range(90))
    for term in range(10):
        admitted.postings(term, found, lambda: mask)
    assert len(admitted._known) <= 500 // 90


def test_the_least_recently_used_are_dropped_when_there_are_too_many() -> None:
    database = Database({(term, 3): list(range(60)) for term in range(10)})
    cache, layout = PostingCache(store=1, most_bytes=4_000), _layout([3])
    for term in (*range(8), 6, 0):
        cache.read(database, layout, [term])  # type: ignore[arg-type]
    assert len(database.asked) == 9


@pytest.mark.parametrize("docs", [[], [3], list(range(60))])
def test_scored_lists_have_the_highest_impact(docs: list[int]) -> None:
    found = PostingCache(store=1).read(Database({(5, 3): docs}), _layout([3]), [5])[5]  # type: ignore[arg-type]
    scored = found.scored(TABLE)
    if not docs:
        assert scored is None
        return
    assert scored is not None
    assert scored.count == len(docs)
    assert scored.peak == pytest.approx(float(TABLE[np.array(docs) + 100].max()))
