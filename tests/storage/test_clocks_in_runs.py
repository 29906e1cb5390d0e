"""Runs under a clock that jumps: the run sees what it wrote, others what is committed, and recorded times grow."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from random import Random

import pytest

from devmem import MemoryItem
from devmem.memory import RunState
from devmem.storage import Collection, SearchQuery, SqliteCollection
from devmem.testing import ManualClock

JUMPS = (-1e7, -3600.0, -0.001, 0.0, 3600.0, 1e7)
IDS = [str(number) for number in range(6)]


@pytest.fixture
def clock() -> ManualClock:
    clock = ManualClock()
    clock.now = 1e9
    return clock


@pytest.fixture
def store(tmp_path: Path, clock: ManualClock) -> Iterator[SqliteCollection]:
    with closing(SqliteCollection(tmp_path / "notes.db", clock=clock, history_days=None)) as collection:
        yield collection


def state(collection: Collection) -> dict[str, str]:
    """Return the texts by their ids, as a scan and a search agree on them."""
    found = {item.id: item.content_summary for item in collection.scan()}
    hits = collection.search(SearchQuery(text="tea", limit=99))
    assert {hit.item.id: hit.item.content_summary for hit in hits} == found
    return found


@pytest.mark.parametrize("seed", range(3))
def test_a_run_under_a_clock_that_jumps(store: SqliteCollection, clock: ManualClock, seed: int) -> None:
    chance, committed = Random(seed), dict[str, str]()
    for run in map(str, range(8)):
        seen = dict(committed)
        with closing(store.run(run)) as view:
            for change in range(4):
                clock.now = max(1.0, clock.now + chance.choice(JUMPS))
                name = chance.choice(IDS)
                if name in seen and chance.random() < 0.3:
                    view.delete(ids=[name])
                    del seen[name]
                else:
                    seen[name] = f"tea {run} {change}"
                    view.add([MemoryItem(id=name, content_summary=seen[name])])
            assert state(view) == seen
        assert state(store) == committed
        clock.now = max(1.0, clock.now + chance.choice(JUMPS))
        if chance.random() < 0.7:
            assert store.commit(run).state is RunState.COMMITTED
            committed = seen
        else:
            store.discard(run)
        assert state(store) == committed
    for name in IDS:
        versions = store.history(name)
        begins = [each.began.at or 0.0 for each in versions]
        ends = [each.ended.at or 0.0 for each in versions if each.ended is not None]
        assert all(begin <= end for begin, end in zip(begins, ends, strict=False))
        assert all(end <= begin for end, begin in zip(ends, begins[1:], strict=False))
