"""The measures of a ranking: values worked out by hand, and what holds for every ranking."""

from __future__ import annotations

from math import log2

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tools.bench.retrieval.metrics import mean, measure, sessions_of

IDS = [f"i{number}" for number in range(20)]
RANKINGS = st.lists(st.sampled_from(IDS), unique=True)
GOLD = st.frozensets(st.sampled_from(IDS), min_size=1)


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


def test_nothing_found_is_zero_everywhere() -> None:
    assert set(measure([], {"a"}).values()) == {0.0}
    assert set(measure(["x"], {"a"}).values()) == {0.0}


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


def test_each_question_counts_the_same() -> None:
    assert mean([{"any@1": 1.0}, {"any@1": 0.0}, {"any@1": 0.0}, {"any@1": 0.0}]) == {"any@1": 0.25}
    assert mean([]) == {}


def test_a_session_is_ranked_by_its_best_turn() -> None:
    session_of = {"a": "s1", "b": "s2", "c": "s1", "d": "s3"}
    assert sessions_of(["x", "c", "b", "a", "d"], session_of) == ["s1", "s2", "s3"]


@given(RANKINGS, GOLD)
def test_values_are_shares_and_grow_with_k(ranked: list[str], gold: frozenset[str]) -> None:
    found = measure(ranked, gold)
    assert all(0 <= value <= 1 for value in found.values())
    for name in ("any", "all", "recall"):
        assert found[f"{name}@1"] <= found[f"{name}@5"] <= found[f"{name}@10"]
    for k in (1, 5, 10):
        assert found[f"all@{k}"] <= found[f"recall@{k}"] <= found[f"any@{k}"]


@given(RANKINGS, GOLD, st.data())
def test_within_the_first_ten_the_order_matters_for_ndcg_only(
    ranked: list[str], gold: frozenset[str], data: st.DataObject
) -> None:
    head, tail = ranked[:10], ranked[10:]
    shuffled = data.draw(st.permutations(head))
    before, after = measure([*head, *tail], gold), measure([*shuffled, *tail], gold)
    assert all(before[name] == after[name] for name in ("any@10", "all@10", "recall@10"))


@given(RANKINGS, GOLD)
def test_moving_gold_to_the_front_never_hurts(ranked: list[str], gold: frozenset[str]) -> None:
    better = sorted(ranked, key=lambda one: one not in gold)
    before, after = measure(ranked, gold), measure(better, gold)
    assert all(after[name] >= before[name] - 1e-12 for name in before)
    if gold <= set(ranked):
        assert after["ndcg@10"] == pytest.approx(1.0)
