"""Late interaction is MaxSim over the signs of token vectors, with rare words counting more."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from devmem.search.token_matching import QueryTokens, weigh

SIZES = st.lists(st.integers(1, 150), min_size=1, max_size=8)


def codes_of(texts: list[np.ndarray]) -> tuple[np.ndarray, list[int]]:
    """Return the signs of each text's token vectors, and how many tokens each has."""
    return np.packbits(np.concatenate(texts) > 0, axis=1), [len(text) for text in texts]


def plain(asked: np.ndarray, texts: list[np.ndarray]) -> np.ndarray:
    """Compute MaxSim over the signs as it is defined."""
    scale = np.sqrt(2 / np.pi) * np.sqrt(asked.shape[1])
    return np.array([(asked @ np.where(text > 0, 1, -1).T).max(axis=1) / scale for text in texts]).T


def unit(rng: np.random.Generator, count: int, dimension: int) -> np.ndarray:
    rows = rng.standard_normal((count, dimension)).astype(np.float32)
    return np.asarray(rows / np.linalg.norm(rows, axis=1, keepdims=True))


@given(seed=st.integers(0, 2**32 - 1), sizes=SIZES, dimension=st.sampled_from([60, 64, 384, 700]))
def test_matches_are_those_of_the_plain_formula(seed: int, sizes: list[int], dimension: int) -> None:
    """Where the query's components are among the sixteen steps."""
    rng = np.random.default_rng(seed)
    asked = rng.choice(np.arange(-15, 16, 2), (5, dimension)).astype(np.float32)
    asked[:, 0] = 15
    asked /= np.linalg.norm(asked, axis=1, keepdims=True)
    texts = [rng.standard_normal((size, dimension)) for size in sizes]
    query = QueryTokens(vectors=asked, weights=np.full(5, 0.2, dtype=np.float32))
    found = query.best_matches(*codes_of(texts))
    wanted = plain(asked, texts)
    np.testing.assert_allclose(found, wanted, atol=1e-5)
    np.testing.assert_allclose(query.score(found), wanted.mean(axis=0), atol=1e-5)


def test_a_text_does_not_depend_on_the_others() -> None:
    rng = np.random.default_rng(3)
    query = QueryTokens(vectors=unit(rng, 4, 64), weights=np.full(4, 0.25, dtype=np.float32))
    texts = [rng.standard_normal((size, 64)) for size in (1, 127, 9_000, 129, 3)]
    together = query.best_matches(*codes_of(texts))
    for at, one in enumerate(texts):
        assert np.array_equal(query.best_matches(*codes_of([one]))[:, 0], together[:, at])


def test_rare_words_count_more() -> None:
    found = weigh(np.eye(3, 8, dtype=np.float32), [0, 10, 300], 1000)
    assert found is not None
    assert found.weights[0] > found.weights[1] > found.weights[2] > 0
    assert found.weights.sum() == pytest.approx(1)


def test_words_that_are_almost_everywhere_are_left_out() -> None:
    found = weigh(np.eye(3, 8, dtype=np.float32), [0, 900, 10], 1000)
    assert found is not None
    assert np.array_equal(found.vectors, np.eye(3, 8, dtype=np.float32)[[0, 2]])
    assert found.weights.sum() == pytest.approx(1)
    alone = weigh(np.eye(1, 8, dtype=np.float32), [900], 1000)
    assert alone is not None
    assert alone.weights.tolist() == [1]


def test_of_a_long_question_the_rarest_words_are_compared_in_their_order() -> None:
    frequencies = [n % 40 for n in range(80)]
    found = weigh(np.eye(80, dtype=np.float32), frequencies, 100)
    assert found is not None
    kept = found.vectors.argmax(axis=1).tolist()
    assert kept == sorted(kept)
    assert len(kept) == 24
    assert {frequencies[at] for at in kept} == set(range(12))
