"""The full-text index gives what BM25 gives, computed without any index."""

from __future__ import annotations

import math
from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from devmem.collections.postings import K1, B, PostingsIndex, encode_terms
from devmem.text.analysis import STOP_WORDS, query_terms, terms

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
        idf = math.log(1 + (len(documents) - having + 0.5) / (having + 0.5))
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


def check(index: PostingsIndex, documents: list[str], query: str) -> None:
    wanted = naive(documents, query)
    scores = index.scores(query)
    if scores is None:
        assert not any(wanted)
        return
    rows = np.arange(1, len(documents) + 1, dtype=np.int64) * 10
    assert index.at(scores, rows).tolist() == pytest.approx(wanted, rel=1e-4, abs=1e-6)
    best = [int(row) // 10 - 1 for row in index.best(scores, 10)]
    assert [wanted[at] for at in best] == pytest.approx(sorted(filter(None, wanted), reverse=True)[:10], rel=1e-4)


@given(documents=DOCUMENTS, query=QUERIES)
def test_the_ten_best_are_those_of_bm25(documents: list[str], query: str) -> None:
    check(indexed(documents), documents, query)


def test_many_documents(recwarn: pytest.WarningsRecorder) -> None:
    """Enough of them for the tail to be merged into the base, several times."""
    chance = np.random.default_rng(5)
    documents = [" ".join(chance.choice(VOCABULARY, size=chance.integers(1, 20))) for _ in range(4000)]
    index = indexed(documents, step=300)
    for query in ("worda", "wordb wordc the", "会议 user", "the", "nothing"):
        check(index, documents, query)
    assert not recwarn.list


@given(documents=DOCUMENTS, query=QUERIES, data=st.data())
def test_removed_rows_are_not_found(documents: list[str], query: str, data: st.DataObject) -> None:
    index = indexed(documents)
    every = range(len(documents))
    removed = data.draw(st.sets(st.sampled_from(list(every))))
    index.remove([10 * (at + 1) for at in removed] + [5, 99_999])
    scores = index.scores(query)
    found = set() if scores is None else {int(row) // 10 - 1 for row in index.best(scores, 99)}
    assert found == {at for at in every if naive(documents, query)[at] > 0} - removed
    assert len(index) == len(documents) - len(removed)


@given(documents=DOCUMENTS, query=QUERIES, data=st.data())
def test_only_allowed_rows_are_found(documents: list[str], query: str, data: st.DataObject) -> None:
    index = indexed(documents)
    every = range(len(documents))
    allowed = data.draw(st.sets(st.sampled_from(list(every))))
    scores = index.scores(query, np.array(sorted(10 * (at + 1) for at in allowed), dtype=np.int64))
    found = set() if scores is None else {int(row) // 10 - 1 for row in index.best(scores, 99)}
    assert found == {at for at in every if naive(documents, query)[at] > 0} & allowed


def test_equal_scores_favour_the_newer_row() -> None:
    index = indexed(["same words"] * 30)
    scores = index.scores("words")
    assert scores is not None
    assert index.best(scores, 3).tolist() == [300, 290, 280]


def test_a_term_may_occur_more_often_than_a_byte_counts() -> None:
    index = indexed(["spam " * 1000, "spam"])
    scores = index.scores("spam")
    assert scores is not None
    assert index.best(scores, 2).tolist() == [10, 20]


def test_an_empty_index() -> None:
    index = PostingsIndex()
    assert index.scores("anything") is None
    index.remove([1, 2])
    index.add([], [])
    assert len(index) == 0
    index.add([1], [encode_terms("")])
    assert index.scores("anything") is None
    assert len(index) == 1
