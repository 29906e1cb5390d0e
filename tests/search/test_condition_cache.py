"""Each row is compared with a condition once, and nothing that is known of a row is lost or mixed up."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from devmem.search.indexes.columns import Rows
from devmem.search.indexes.doc_values import ConditionCache

ROWS = st.lists(st.integers(0, 40), unique=True, max_size=20)


class Asked:
    """Answers which rows are multiples of a number, and notes the rows that it was asked for."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.rows: list[int] = []

    def __call__(self, rows: Rows) -> Rows:
        self.rows += rows.tolist()
        found: Rows = rows[rows % self.number == 0]
        return found


@given(st.lists(st.tuples(st.sampled_from([2, 3]), ROWS), max_size=8))
def test_it_answers_as_the_database_does_and_asks_once(searches: list[tuple[int, list[int]]]) -> None:
    """Rows may come in any order, as they become visible in any order."""
    cache = ConditionCache()
    asked = {number: Asked(number) for number in (2, 3)}
    for number, rows in searches:
        found = cache.at(1)(f"multiple of {number}", np.array(rows, dtype=np.int64), asked[number])
        assert sorted(found.tolist()) == sorted(row for row in rows if row % number == 0)
    for one in asked.values():
        assert len(one.rows) == len(set(one.rows))


def test_another_generation_is_asked_again() -> None:
    """A restored database may have other items in the same rows."""
    cache, rows = ConditionCache(), np.arange(4)
    cache.at(1)("any", rows, Asked(2))
    again = Asked(3)
    assert cache.at(2)("any", rows, again).tolist() == [0, 3]
    assert again.rows == [0, 1, 2, 3]


def test_what_was_asked_for_last_is_kept() -> None:
    """The cache has room for a number of rows; a condition on more rows than that is asked each time."""
    cache, rows = ConditionCache(most_rows=20), np.arange(8)
    for condition in ("a", "b", "a", "c"):
        cache.at(1)(condition, rows, Asked(9))
    for condition, known in (("a", True), ("b", False)):
        asked = Asked(9)
        cache.at(1)(condition, rows, asked)
        assert (asked.rows == []) is known
    many = Asked(2)
    assert len(cache.at(1)("d", np.arange(100), many)) == 50
    assert len(cache.at(1)("d", np.arange(100), many)) == 50
    assert len(many.rows) == 200
