"""Selecting some of many positions returns what sorting all of them returns."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from devmem.search.indexes.columns import (
    places_in,
    places_in_distinct,
    rows_mask,
)


@given(
    rows=st.sets(st.integers(0, 3000)) | st.integers(0, 300).map(lambda first: {*range(first, 2 * first)}),
    wanted=st.sets(st.integers(-10, 3100)),
    gap=st.sampled_from([1, 7, 100_000]),
)
def test_the_wanted(rows: set[int], wanted: set[int], gap: int) -> None:
    ascending = np.array(sorted(gap * row for row in rows), dtype=np.int64)
    mask = rows_mask(ascending, np.array(sorted(gap * row for row in wanted), dtype=np.int64))
    assert mask.tolist() == [row // gap in wanted for row in ascending.tolist()]


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
