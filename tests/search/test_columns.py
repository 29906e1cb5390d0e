"""Selecting some of many positions returns what sorting all of them returns."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from devmem.search.indexes.columns import best_positions, distinct, rows_mask


@given(
    seed=st.integers(0, 2**32 - 1),
    count=st.integers(0, 5000),
    levels=st.integers(1, 5000),
    limit=st.integers(0, 40),
    above=st.sampled_from([0.0, -np.inf]),
)
def test_the_highest(seed: int, count: int, levels: int, limit: int, above: float) -> None:
    """The later one comes first among equals, of which there are many."""
    scores = np.random.default_rng(seed).integers(-levels, levels, size=count).astype(np.float32)
    wanted = [at for at in np.lexsort((-np.arange(count), -scores)) if scores[at] > above][:limit]
    assert best_positions(scores, limit, above=above).tolist() == wanted


@given(
    rows=st.sets(st.integers(0, 3000)) | st.integers(0, 300).map(lambda first: {*range(first, 2 * first)}),
    wanted=st.sets(st.integers(-10, 3100)),
    gap=st.sampled_from([1, 7, 100_000]),
)
def test_the_wanted(rows: set[int], wanted: set[int], gap: int) -> None:
    ascending = np.array(sorted(gap * row for row in rows), dtype=np.int64)
    mask = rows_mask(ascending, np.array(sorted(gap * row for row in wanted), dtype=np.int64))
    assert mask.tolist() == [row // gap in wanted for row in ascending.tolist()]


@given(numbers=st.lists(st.integers(-50, 50)))
def test_distinct_numbers_ascend(numbers: list[int]) -> None:
    assert distinct(np.array(numbers, dtype=np.int64)).tolist() == sorted({*numbers})
