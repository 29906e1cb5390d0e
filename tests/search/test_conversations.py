"""Score contributions of a conversation beside its best item."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from devmem.search import DAY, first_mentions, nearness, score_conversations

EVEN = np.array([0.5, 0.5], dtype=np.float32)


def test_the_first_to_say_a_word_gets_all_of_it_and_later_ones_a_share() -> None:
    matches = np.array([[0.8, 0.8, 0.8], [0.2, 0.9, 0.3]], dtype=np.float32)
    found = first_mentions(matches, EVEN, np.array([30.0, 10.0, 20.0]))
    # The second was first with both words; the third matches the first word as well, the last one as well as both.
    assert found.tolist() == pytest.approx([0.5 / 3 + 0.5 / 3, 1.0, 0.5 / 2 + 0.5 / 2])


def test_a_much_better_match_is_a_first_mention_too() -> None:
    matches = np.array([[0.3, 0.9]], dtype=np.float32)
    assert first_mentions(matches, np.ones(1, dtype=np.float32), np.array([1.0, 2.0])).tolist() == [1.0, 1.0]


@given(seed=st.integers(0, 2**32 - 1), count=st.integers(0, 12), tokens=st.integers(1, 4))
def test_first_mentions_are_those_of_the_plain_formula(seed: int, count: int, tokens: int) -> None:
    rng = np.random.default_rng(seed)
    matches = rng.random((tokens, count), dtype=np.float32)
    weights = np.full(tokens, 1 / tokens, dtype=np.float32)
    times = rng.integers(0, 6, count).astype(np.float64)

    def known_before(token: int, at: int) -> int:
        border = matches[token, at] - np.float32(0.12)
        return sum(matches[token, other] > border for other in range(count) if times[other] < times[at])

    wanted = [sum(1 / (1 + known_before(token, at)) for token in range(tokens)) / tokens for at in range(count)]
    assert first_mentions(matches, weights, times).tolist() == pytest.approx(wanted)


def test_nearness_in_time() -> None:
    times = np.array([-1.0, 0.0, 9.0, 10.0, 10 + 7 * DAY])
    assert nearness(times, (0.0, 10.0)).tolist() == pytest.approx([0, 1, 1, 1, np.exp(-1)])


def test_the_conversation_of_the_best_item_comes_first() -> None:
    nothing = np.zeros(3)
    best = np.array([0.5, 0.6, 0.4])
    found = score_conversations(best, np.array([1.0, 0.0, 1.0]), nothing, np.array([0.9, 0.0, 0.9]))
    assert np.argsort(-found.scores).tolist() == [1, 0, 2]
    assert score_conversations(best, nothing, nothing, nothing).scores.tolist() == best.tolist()
    assert len(score_conversations(*[np.empty(0)] * 4).scores) == 0


def test_the_parts_of_a_score() -> None:
    nothing = np.zeros(2)
    found = score_conversations(np.array([0.6, 0.5]), np.array([0.0, 1.0]), np.array([0.0, 0.5]), nothing)
    assert found.parts(1) == pytest.approx({"best": 0.5, "first_mention": 0.15, "in_time": 0.1})
    assert found.parts(0).keys() == {"best", "leads"}
    for at in range(2):
        assert sum(found.parts(at).values()) == pytest.approx(found.scores[at])
