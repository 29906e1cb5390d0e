"""Signals are put together on one scale, by their weights."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from devmem.search.query import fuse
from devmem.storage import Weights

NAN = float("nan")
SIGNALS = st.lists(
    st.tuples(st.just(NAN) | st.floats(-1, 1, width=32), st.floats(0, 50, width=32)), min_size=1, max_size=20
)


def fused(similarities: list[float], words: list[float], **weights: float) -> list[float]:
    scores: list[float] = fuse(np.array(similarities), np.array(words), Weights(**weights)).tolist()
    return scores


@pytest.mark.parametrize(
    ("similarity", "lexical", "wanted"),
    [
        # Similarity is stretched from its least to its most, words from none to their most.
        ([0.2, 0.6, 0.4], [0.0, 5.0, 10.0], [0.0, 0.75, 0.75]),
        ([0.2, 0.6], [0.0, 0.0], [0.0, 1.0]),
        ([NAN, NAN], [4.0, 8.0], [0.5, 1.0]),
        # Without an embedding a candidate counts as the least similar, not as unknown.
        ([NAN, 0.1, 0.5], [8.0, 0.0, 0.0], [0.5, 0.0, 0.5]),
        # Equal similarities speak for all of them.
        ([0.3, 0.3], [0.0, 2.0], [0.5, 1.0]),
        ([NAN], [0.0], [0.0]),
    ],
)
def test_equal_weights(similarity: list[float], lexical: list[float], wanted: list[float]) -> None:
    assert fused(similarity, lexical) == pytest.approx(wanted)


@given(signals=SIGNALS)
def test_who_is_better_by_both_is_better(signals: list[tuple[float, float]]) -> None:
    known = [pair for pair in signals if not np.isnan(pair[0])]
    scores = fused([pair[0] for pair in known], [pair[1] for pair in known])
    for one, first in zip(known, scores, strict=True):
        for other, second in zip(known, scores, strict=True):
            if one[0] <= other[0] and one[1] <= other[1]:
                assert first <= second + 1e-9
