"""Rows of filters that are kept in memory: how many, and of which state of the indexes."""

from __future__ import annotations

import weakref

import numpy as np
import pytest

from devmem.search.indexes.columns import Rows
from devmem.storage.postgres.database import Snapshot
from devmem.storage.postgres.server import admitted
from devmem.storage.postgres.server.admitted import RowSet, RowSets
from devmem.storage.postgres.server.segments import SegmentMap

FIRST = Snapshot.parse("5:5:", "server")
LATER = Snapshot.parse("9:9:", "server")


def test_sets_of_many_filters_that_admit_nothing_are_not_kept_for_good(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(admitted, "_MOST_ROWS", 1000)
    sets, read = RowSets(), list[int]()
    for key in [*range(100), 99, 0]:

        def rows(since: Snapshot | None, key: int = key) -> Rows:
            if since is None:
                read.append(key)
            return np.empty(0, dtype=np.int64)

        sets.of(key, "state", FIRST, rows)
    assert read == [*range(100), 0]


def test_places_keep_no_index_in_memory_that_nobody_searches() -> None:
    index, found = SegmentMap.of({}), RowSet(np.array([1, 2]), FIRST)
    assert found.places(index, lambda: "places") == found.places(index, lambda: "found again") == "places"
    gone = weakref.ref(index)
    del index
    assert gone() is None
    assert found.places(SegmentMap.of({}), lambda: "others") == "others"


def test_a_set_of_an_earlier_state_is_not_kept_in_a_later_one() -> None:
    """As when another search found the contents replaced while the rows were read."""
    sets = RowSets()

    def none(_since: Snapshot | None) -> Rows:
        return np.empty(0, dtype=np.int64)

    def meanwhile(_since: Snapshot | None) -> Rows:
        sets.of("other filter", "replaced", LATER, none)
        return np.array([1, 2])

    assert sets.of("filter", "original", FIRST, meanwhile).rows.tolist() == [1, 2]
    assert sets.of("filter", "replaced", LATER, none).rows.tolist() == []
