"""Late interaction is MaxSim over the signs of token vectors, with rare words counting more."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from devmem.ranking import QueryTokens, weigh

SIZES = st.lists(st.integers(1, 150), min_size=1, max_size=8)


def unit(rng: np.random.Generator, count: int, dimension: int) -> np.ndarray:
    rows = rng.standard_normal((count, dimension)).astype(np.float32)
    return np.asarray(rows / np.linalg.norm(rows, axis=1, keepdims=True))


@given(seed=st.integers(0, 2**32 - 1), sizes=SIZES, dimension=st.sampled_from([8, 20, 64, 384]))
def test_matches_are_those_of_the_plain_formula(seed: int, sizes: list[int], dimension: int) -> None:
    rng = np.random.default_rng(seed)
    asked = unit(rng, 5, dimension)
    weights = np.full(5, 0.2, dtype=np.float32)
    texts = [rng.standard_normal((size, dimension)) for size in sizes]
    query = QueryTokens(vectors=asked, weights=weights)
    found = query.best_matches([np.packbits(text > 0, axis=1) for text in texts])
    scale = np.sqrt(2 / np.pi) * np.sqrt(dimension)
    wanted = np.array([(asked @ np.where(text > 0, 1, -1).T).max(axis=1) / scale for text in texts]).T
    np.testing.assert_allclose(found, wanted, atol=1e-4)
    np.testing.assert_allclose(query.score(found), wanted.mean(axis=0), atol=1e-4)


def test_signs_estimate_the_cosine() -> None:
    rng = np.random.default_rng(7)
    asked, text = unit(rng, 20, 384), unit(rng, 30, 384)
    text[:20] = asked + 0.7 * unit(rng, 20, 384)
    text /= np.linalg.norm(text, axis=1, keepdims=True)
    query = QueryTokens(vectors=asked, weights=np.full(20, 0.05, dtype=np.float32))
    (found,) = query.best_matches([np.packbits(text > 0, axis=1)]).T
    np.testing.assert_allclose(found, (asked @ text.T).max(axis=1), atol=0.12)


def test_a_text_does_not_depend_on_the_others() -> None:
    rng = np.random.default_rng(3)
    query = QueryTokens(vectors=unit(rng, 4, 64), weights=np.full(4, 0.25, dtype=np.float32))
    codes = [np.packbits(rng.standard_normal((size, 64)) > 0, axis=1) for size in (1, 127, 128, 129, 3)]
    together = query.best_matches(codes)
    for at, one in enumerate(codes):
        np.testing.assert_allclose(query.best_matches([one])[:, 0], together[:, at], atol=1e-6)


def test_rare_words_count_more() -> None:
    found = weigh(np.eye(3, 8, dtype=np.float32), [0, 10, 900], 1000)
    assert found is not None
    assert found.weights[0] > found.weights[1] > found.weights[2] > 0
    assert found.weights.sum() == pytest.approx(1)


def test_what_is_no_word_counts_nothing() -> None:
    vectors = np.eye(3, 8, dtype=np.float32)
    found = weigh(vectors, [5, -1, 5], 10)
    assert found is not None
    assert found.weights.tolist() == [0.5, 0.5]
    assert np.array_equal(found.vectors, vectors[[0, 2]])


@pytest.mark.parametrize(("frequencies", "texts"), [([], 10), ([-1, -1], 10), ([0], 0)])
def test_a_query_without_words(frequencies: list[int], texts: int) -> None:
    vectors = np.eye(len(frequencies), 8, dtype=np.float32)
    assert weigh(vectors, frequencies, texts) is None


def test_of_a_long_question_the_rarest_words_are_compared_in_their_order() -> None:
    frequencies = [n % 40 for n in range(80)]
    found = weigh(np.eye(80, dtype=np.float32), frequencies, 100)
    assert found is not None
    kept = found.vectors.argmax(axis=1).tolist()
    assert kept == sorted(kept)
    assert len(kept) == 24
    assert {frequencies[at] for at in kept} == set(range(12))
