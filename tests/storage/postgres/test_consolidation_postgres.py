"""Near-duplicates of a store in PostgreSQL are merged in a run, and restored when it is reverted."""

from __future__ import annotations

import pytest

import devmem
from devmem.model.items import dump_item

pytestmark = pytest.mark.postgres


def test_a_consolidation_and_its_revert(store_url: str) -> None:
    with devmem.open(store_url, embedding=None) as memory:
        memory.add(["Ann has two cats.", "ann has 2 cats", "Ann has three cats.", "安有两只猫。", "安有两只猫！"])
        memory.add("Ann has 2 cats!", user="ann")
        before = {record.id: dump_item(record.item) for record in memory.scan(user=devmem.ANY)}
        done = memory.consolidate(user=devmem.ANY)
        assert (done.items, done.removed, len(memory)) == (6, 2, 4)
        assert done.run is not None
        assert memory.consolidate(user=devmem.ANY).run is None
        memory.revert(done.run)
        assert {record.id: dump_item(record.item) for record in memory.scan(user=devmem.ANY)} == before
