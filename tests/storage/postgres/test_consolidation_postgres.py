"""Near-duplicates of a store in PostgreSQL are merged in a run, and restored when it is reverted."""

from __future__ import annotations

import pytest

import devmem
from devmem.model.items import MemoryItem, Scope, dump_item
from devmem.transfer.filling import ARCHIVED, Filler

pytestmark = pytest.mark.postgres


def test_a_consolidation_and_its_revert(store_url: str) -> None:
    with devmem.open(store_url, embedding=None) as memory:
        memory.add(["Ann has two cats.", "ann has 2 cats", "Ann has three cats.", "安有两只猫。", "安有两只猫！"])
        memory.add("Ann has 2 cats!", user="ann")
        before = {record.id: dump_item(record) for record in memory.scan(user=devmem.ANY)}
        done = memory.consolidate(user=devmem.ANY)
        assert (done.items, done.removed, len(memory)) == (6, 2, 4)
        assert done.run is not None
        assert memory.consolidate(user=devmem.ANY).run is None
        memory.revert(done.run)
        assert {record.id: dump_item(record) for record in memory.scan(user=devmem.ANY)} == before


def test_archived_items_of_one_user_are_out_of_reach_for_another(store_url: str) -> None:
    with devmem.open(store_url, embedding=None) as memory:
        old = [MemoryItem(id=user, content_summary=f"{user} 的鲸鱼", created_at=1.0, trust=0.4, scope=Scope(user=user))
               for user in ("ann", "bob")]  # fmt: skip
        memory.store.add(old)
        done = memory.consolidate(user=devmem.ANY, archive_before=1000.0)
        assert {item.id for item in done.archived} == {"ann", "bob"}
        filler = Filler(memory.store)
        filler.put(old[0])
        filler.flush()
        assert filler.counts[ARCHIVED] == 1
        assert (len(memory), memory.store.info().archived) == (0, 2)
        ann = memory.scoped(user="ann")
        with ann.archived() as found:
            assert [hit.id for hit in found.search("鲸鱼")] == ["ann"]
        assert [bool(outcome) for outcome in ann.restore("bob", "ann")] == [False, True]
        assert memory.forget(user="bob").items == 1
        assert memory.store.info().archived == 0
