"""The measures of a ranking: values worked out by hand, and what holds for every ranking."""

from __future__ import annotations

from math import log2

import pytest

from tools.bench.retrieval.metrics import measure, sessions_of

IDS = [f"i{number}" for number in range(20)]


def test_two_of_three_found() -> None:
    found = measure(["x", "a", "y", "b", "z", "w"], {"a", "b", "c"})
    assert (found["any@1"], found["all@1"], found["recall@1"]) == (0.0, 0.0, 0.0)
    assert (found["any@5"], found["all@5"], found["recall@5"]) == (1.0, 0.0, 2 / 3)
    assert found["mrr"] == 0.5
    gained = 1 + 1 / log2(4)
    best = 1 + 1 + 1 / log2(3)
    assert found["ndcg@10"] == pytest.approx(gained / best)
    assert found["ndcg@10"] == pytest.approx(0.57014, abs=1e-5)


def test_all_found_at_the_top() -> None:
    assert set(measure(["a", "b"], {"a", "b"}).items()) >= {
        ("any@1", 1.0),
        ("all@1", 0.0),
        ("recall@1", 0.5),
        ("all@5", 1.0),
        ("recall@10", 1.0),
        ("ndcg@10", 1.0),
        ("mrr", 1.0),
    }


def test_more_gold_than_ten_can_still_be_ranked_perfectly() -> None:
    found = measure(IDS[:10], set(IDS))
    assert (found["ndcg@10"], found["recall@10"], found["all@10"]) == (1.0, 0.5, 0.0)


def test_the_reciprocal_rank_looks_beyond_ten() -> None:
    assert measure(IDS, {IDS[15]})["mrr"] == pytest.approx(1 / 16)


def test_what_cannot_be_measured_is_refused() -> None:
    with pytest.raises(ValueError, match="without gold"):
        measure(["a"], frozenset())
    with pytest.raises(ValueError, match="twice"):
        measure(["a", "a"], {"a"})


def test_a_session_is_ranked_by_its_best_turn() -> None:
    session_of = {"a": "s1", "b": "s2", "c": "s1", "d": "s3"}
    assert sessions_of(["x", "c", "b", "a", "d"], session_of) == ["s1", "s2", "s3"]
