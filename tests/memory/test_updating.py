"""An update changes what is there now, and loses nobody else's change."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest

import devmem
from devmem.collections import Order
from devmem.errors import VersionConflictError


def test_updates_at_the_same_time_are_all_kept() -> None:
    """Each adds a value of its own."""
    with devmem.open(":memory:", embedding=None) as memory, ThreadPoolExecutor(4) as pool:
        note = memory.add("The launch is in June.")
        list(pool.map(lambda n: memory.update(note, metadata={f"key {n}": n}), range(40)))
        record = memory.get(note)
        assert record is not None
        assert sorted(record.metadata.values(), key=str) == sorted(range(40), key=str)


def test_an_expected_version() -> None:
    """Whoever read an older version is told, and changes nothing."""
    with devmem.open(":memory:", embedding=None) as memory:
        note = memory.add("The launch is in June.")
        seen = memory.get(note)
        assert seen is not None
        newer = memory.update(note, metadata={"by": "ann"}, expected=seen.version)
        with pytest.raises(VersionConflictError):
            memory.update(note, "The launch is in July.", expected=seen.version)
        assert memory.get(note) == newer
        assert memory.update(note, metadata={"by": "ann"}) == newer


def test_pages_in_the_order_of_events() -> None:
    """As in a calendar, the last first."""
    with devmem.open(":memory:", embedding=None) as memory:
        for day in (3, 1, 2):
            memory.add(f"day {day}", time=f"2026-05-0{day}")
        assert [record.text for record in memory.recent(order=Order.EVENT)] == ["day 3", "day 2", "day 1"]
        assert [record.text for record in memory.recent(1, order=Order.EVENT, offset=1)] == ["day 2"]
