"""The full-text index returns what BM25 computed without any index returns."""

from __future__ import annotations

import math
from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from devmem.search.indexes.postings import PostingsIndex
from devmem.search.indexes.scoring import K1, B, encode_terms, impact_table, posting_codes
from devmem.text.analysis import STOP_WORDS, query_terms, term_weight, terms
from devmem.text.query_text import QueryText

VOCABULARY = [f"word{chr(97 + n)}" for n in range(15)] + ["the", "会议", "getUserName"]
DOCUMENTS = st.lists(st.lists(st.sampled_from(VOCABULARY), max_size=12).map(" ".join), min_size=1, max_size=40)
QUERIES = st.lists(st.sampled_from(VOCABULARY), min_size=1, max_size=4).map(" ".join)


def naive(documents: list[str], query: str) -> list[float]:
    """Score every document as the books say."""
    counted = [Counter(terms(document)) for document in documents]
    lengths = [sum(n for term, n in one.items() if term not in STOP_WORDS) for one in counted]
    mean = max(sum(lengths) / len(lengths), 1e-9)
    scores = [0.0] * len(documents)
    for term in query_terms(query):
        having = sum(term in one for one in counted)
        idf = term_weight(term) * math.log(1 + (len(documents) - having + 0.5) / (having + 0.5))
        for at, one in enumerate(counted):
            if n := one[term]:
                scores[at] += idf * n * (K1 + 1) / (n + K1 * (1 - B + B * lengths[at] / mean))
    return scores


def indexed(documents: list[str], *, step: int = 7) -> PostingsIndex:
    """Index the documents as rows 10, 20, ... in parts."""
    index = PostingsIndex()
    for start in range(0, len(documents), step):
        part = documents[start : start + step]
        index.add([10 * (start + at + 1) for at in range(len(part))], [encode_terms(text) for text in part])
    return index


def exhaustive(
    index: PostingsIndex, query: str, rows: np.ndarray, limit: int, allowed: np.ndarray | None = None
) -> list[int]:
    """Score the rows one and all, and return the best, the newer first among equals."""
    scores = index.query(QueryText(query), allowed).scores_of(rows)
    order = np.lexsort((-rows, -scores))
    return [int(rows[at]) for at in order[:limit] if scores[at] > 0]


def check(index: PostingsIndex, documents: list[str], query: str) -> None:
    wanted = naive(documents, query)
    rows = np.arange(1, len(documents) + 1, dtype=np.int64) * 10
    asked = index.query(QueryText(query))
    best = asked.top(10)
    scores = asked.scores_of(rows)
    assert scores.tolist() == pytest.approx(wanted, rel=1e-4, abs=1e-6)
    assert scores.tolist() == index.query(QueryText(query)).scores_of(rows).tolist()
    assert best.tolist() == exhaustive(index, query, rows, 10)
    assert [wanted[row // 10 - 1] for row in best] == pytest.approx(
        sorted(filter(None, wanted), reverse=True)[:10], rel=1e-4
    )


@given(documents=DOCUMENTS, query=QUERIES)
def test_the_ten_best_are_those_of_bm25(documents: list[str], query: str) -> None:
    check(indexed(documents), documents, query)


@given(documents=DOCUMENTS, query=QUERIES, data=st.data())
def test_removed_rows_are_not_found(documents: list[str], query: str, data: st.DataObject) -> None:
    index = indexed(documents)
    every = range(len(documents))
    removed = data.draw(st.sets(st.sampled_from(list(every))))
    index.remove([10 * (at + 1) for at in removed] + [5, 99_999])
    asked = index.query(QueryText(query))
    found = {int(row) // 10 - 1 for row in asked.top(99)}
    assert found == {at for at in every if naive(documents, query)[at] > 0} - removed
    assert not asked.scores_of(np.array([10 * (at + 1) for at in removed], dtype=np.int64)).any()
    assert len(index) == len(documents) - len(removed)


@given(documents=DOCUMENTS, query=QUERIES, data=st.data())
def test_allowed_rows_are_searched_as_if_there_were_no_others(
    documents: list[str], query: str, data: st.DataObject
) -> None:
    """Scores tell nothing about the others: they are those of an index of the allowed rows, to the last bit."""
    index = indexed(documents)
    every = range(len(documents))
    allowed = data.draw(st.sets(st.sampled_from(list(every))))
    rows = np.array(sorted(10 * (at + 1) for at in allowed), dtype=np.int64)
    asked = index.query(QueryText(query), rows)
    found = {int(row) // 10 - 1 for row in asked.top(99)}
    assert found == {at for at in every if naive(documents, query)[at] > 0} & allowed
    alone = PostingsIndex()
    alone.add(rows.tolist(), [encode_terms(documents[at]) for at in sorted(allowed)])
    assert asked.top(5).tolist() == alone.query(QueryText(query)).top(5).tolist()
    assert asked.scores_of(rows).tolist() == alone.query(QueryText(query)).scores_of(rows).tolist()
    assert asked.count == len(allowed)
    assert asked.ceiling == alone.query(QueryText(query)).ceiling
    for term in VOCABULARY:
        assert asked.frequency(term) == alone.query(QueryText(query)).frequency(term)


def test_equal_scores_favour_the_newer_row() -> None:
    index = indexed(["same words"] * 30)
    assert index.query(QueryText("words")).top(3).tolist() == [300, 290, 280]


def zipf(chance: np.random.Generator, count: int, length: int) -> list[str]:
    """Make texts in which a few of 3,000 words are in almost every text, and most are rare."""
    ranks = np.minimum(chance.zipf(1.2, size=(count, length)), 3000)
    return [" ".join(f"w{'abcdefghij'[n % 10]}{'klmnopqrst'[n // 10 % 10]}x{n // 100}" for n in one) for one in ranks]


@pytest.fixture(scope="module")
def large() -> PostingsIndex:
    """Enough texts for several segments, and for lists to be skipped."""
    return indexed(zipf(np.random.default_rng(1), 60_000, 12), step=1000)


@settings(deadline=None)
@given(seed=st.integers(0, 2**32 - 1), words=st.integers(1, 7), limit=st.integers(1, 60))
def test_skipping_lists_changes_nothing(large: PostingsIndex, seed: int, words: int, limit: int) -> None:
    """The best rows are those of exhaustive scoring, in the same order, filtered or not."""
    chance = np.random.default_rng(seed)
    [query] = zipf(chance, 1, words)
    everything = np.arange(1, 60_001, dtype=np.int64) * 10
    rows = chance.integers(-5, 60_100, size=50) * 10
    for allowed in (None, np.sort(chance.choice(60_000, 9_000, replace=False) + 1) * 10):
        asked = large.query(QueryText(query), allowed)
        candidates = everything if allowed is None else allowed
        assert asked.top(limit).tolist() == exhaustive(large, query, candidates, limit, allowed)
        assert asked.scores_of(rows).tolist() == large.query(QueryText(query), allowed).scores_of(rows).tolist()


def test_deleted_rows_leave_the_statistics() -> None:
    """In the end scores are those of an index that never had them."""
    documents = zipf(np.random.default_rng(2), 6000, 12)
    index, fresh = indexed(documents, step=500), PostingsIndex()
    index.remove(range(10, 30_000, 10))
    kept = range(2999, 6000)
    fresh.add([10 * (at + 1) for at in kept], [encode_terms(documents[at]) for at in kept])
    rows = np.array(kept, dtype=np.int64) * 10 + 10
    for query in zipf(np.random.default_rng(3), 20, 5):
        found, wanted = (one.query(QueryText(query)).scores_of(rows).tolist() for one in (index, fresh))
        assert found == pytest.approx(wanted, rel=1e-5)
    assert len(index) == len(fresh) == 3001


@given(documents=DOCUMENTS, query=QUERIES, data=st.data())
def test_restoring(documents: list[str], query: str, data: st.DataObject) -> None:
    """A restored index can be searched, added to and deleted from."""
    cut = data.draw(st.integers(0, len(documents)))
    index = PostingsIndex.restore(indexed(documents[:cut], step=3).parts())
    rest = range(cut, len(documents))
    index.add([10 * (at + 1) for at in rest], [encode_terms(documents[at]) for at in rest])
    check(index, documents, query)
    index.remove([10])
    assert len(index) == len(documents) - 1


@given(
    counts=st.lists(st.integers(1, 255), min_size=1, max_size=20),
    lengths=st.lists(st.integers(0, 10**7), min_size=1, max_size=20),
    mean=st.floats(0, 1e6),
)
def test_codes_of_counts_and_lengths(counts: list[int], lengths: list[int], mean: float) -> None:
    """They lose a few percent of what a posting of a long text is worth at most, and nothing of a short text's."""
    pairs = [(count, length) for count in counts for length in lengths]
    count, length = np.array(pairs, dtype=np.int64).T
    worth = impact_table(mean)[posting_codes(count, length.astype(np.float32))]
    wanted = count * (K1 + 1) / (count + K1 * (1 - B + B * length / max(mean, 1e-9)))
    assert worth == pytest.approx(wanted, rel=0.05)
    short = (count <= 32) & (length < 256)
    assert worth[short] == pytest.approx(wanted[short], rel=1e-5)


@given(DOCUMENTS, st.data())
@settings(max_examples=60)
def test_terms_are_counted_among_what_is_allowed(documents: list[str], data: st.DataObject) -> None:
    """In segments and in the tail, of many terms at once."""
    index = indexed(documents)
    rows = [10 * (at + 1) for at in range(len(documents))]
    asked = [*dict.fromkeys(terms(" ".join(VOCABULARY))), "nowhere"]
    allowed = data.draw(
        st.one_of(st.none(), st.sets(st.sampled_from(rows)).map(lambda some: np.array(sorted(some), np.int64)))
    )
    counted = [
        terms(document) for row, document in zip(rows, documents, strict=True) if allowed is None or row in allowed
    ]
    assert index.frequencies(asked, allowed) == {term: sum(term in one for one in counted) for term in asked}
    assert PostingsIndex().frequencies(asked) == dict.fromkeys(asked, 0)
