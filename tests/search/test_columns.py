"""Selecting some of many positions returns what sorting all of them returns."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from devmem.search.indexes.columns import (
    best_first,
    best_positions,
    computed_once,
    distinct,
    places_in,
    places_in_distinct,
    rows_mask,
)


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


@given(
    first=st.integers(-5, 5),
    numbers=st.integers(0, 30) | st.sets(st.integers(-5, 40)),
    wanted=st.lists(st.integers(-50, 50)),
)
def test_places_with_and_without_gaps(first: int, numbers: int | set[int], wanted: list[int]) -> None:
    ascending = [*range(first, first + numbers)] if isinstance(numbers, int) else sorted(numbers)
    expected = [ascending.index(number) if number in ascending else -1 for number in wanted]
    for places in (places_in, places_in_distinct):
        found = places(np.array(ascending, dtype=np.int64), np.array(wanted, dtype=np.int64))
        assert found.tolist() == expected


@given(scores=st.lists(st.integers(-3, 3) | st.floats(-3, 3)))
def test_the_best_come_first(scores: list[float]) -> None:
    """The later one comes first among equals."""
    wanted = sorted(range(len(scores)), key=lambda at: (-scores[at], -at))
    assert best_first(np.array(scores, dtype=np.float64)).tolist() == wanted


def test_a_property_is_computed_once() -> None:
    class Sum:
        """Counts how often it is computed."""

        computed = 0

        @computed_once
        def value(self) -> int:
            """The value."""
            self.computed += 1
            return 7

    one, other = Sum(), Sum()
    assert (one.value, one.value, other.value) == (7, 7, 7)
    assert (one.computed, other.computed) == (1, 1)
    assert Sum.value.__doc__ == "The value."
