"""A store of anyone that defines `load`, `save`, `retrieve` and `update`: everything else has a default."""

from __future__ import annotations

import asyncio

import pytest

from devmem import (
    Filter,
    Memory,
    MemoryBase,
    MemoryContentSnapshot,
    MemoryItem,
    MemoryManager,
    MemoryWritePayload,
    Scope,
    Stage,
    WriteOutcome,
)
from devmem.config import Attachment
from devmem.storage import Order
from devmem.stores import ConfigModel, MemoryQuery, StoreSetup, WriteStatus
from devmem.testing import ManualClock


class Shelf(MemoryBase):
    """Keeps what agents say, and finds the items that share a word with the query."""

    config_model = ConfigModel

    def load(self) -> None:
        self.loaded = True

    def save(self) -> None:
        self.saved = len(self.contents)

    def retrieve(
        self, agent_role: str, query: MemoryContentSnapshot | str, top_k: int = 3, similarity_threshold: float = -1.0
    ) -> list[MemoryItem]:
        text = query if isinstance(query, str) else query.text
        words = set(text.lower().split())
        return [item for item in self.contents if words & set(item.content_summary.lower().split())][:top_k]

    def update(self, payload: MemoryWritePayload) -> WriteOutcome:
        item = MemoryItem(content_summary=payload.output_text(), scope=payload.scope)
        self.contents.append(item)
        return WriteOutcome(status=WriteStatus.STORED, item_id=item.id)


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(1000.0)


@pytest.fixture
def shelf(clock: ManualClock) -> Shelf:
    made = Shelf(StoreSetup(name="shelf", store_type="shelf", config=ConfigModel(), clock=clock))
    made.load()
    return made


def said(text: str, user: str | None) -> MemoryWritePayload:
    return MemoryWritePayload(output_snapshot=MemoryContentSnapshot(text=text), scope=Scope(user=user))


def test_hits_are_those_that_the_filter_admits(shelf: Shelf) -> None:
    """However many items of others `retrieve` puts before them."""
    for number in range(5):
        shelf.update(said(f"tea number {number}", "bob"))
    shelf.update(said("tea for Ann", "ann"))
    query = MemoryQuery(text="tea", limit=1, where=Filter(scope=Scope(user="ann")))
    assert [hit.item.content_summary for hit in shelf.search(query)] == ["tea for Ann"]
    assert [item.content_summary for item in asyncio.run(shelf.aretrieve("", "tea", 2))] == [
        "tea number 0",
        "tea number 1",
    ]
    scores = [hit.score for hit in shelf.search(MemoryQuery(text="tea", limit=3))]
    assert scores == sorted(scores, reverse=True)


def test_items_are_added_listed_and_deleted(shelf: Shelf, clock: ManualClock) -> None:
    items = [
        MemoryItem(id=name, content_summary=f"note {name}", created_at=created, event_time=happened)
        for name, created, happened in (("a", 100.0, 300.0), ("b", 200.0, 100.0), ("c", 300.0, 200.0))
    ]
    expired = MemoryItem(id="d", content_summary="note d", created_at=400.0, expires_at=500.0)
    done: list[int] = []
    assert [one.status for one in shelf.add([*items, items[0], expired], done.append)] == [
        *[WriteStatus.STORED] * 3,
        WriteStatus.DUPLICATE,
        WriteStatus.STORED,
    ]
    assert (done, shelf.saved, shelf.info().items, clock()) == ([5], 4, 3, 1000.0)
    assert [item.id for item in shelf.get(["c", "x", "a", "d"])] == ["c", "a"]
    assert [item.id for item in shelf.recent(2)] == ["c", "b"]
    assert [item.id for item in shelf.recent(2, order=Order.EVENT, offset=1)] == ["c", "b"]
    assert shelf.delete(ids=["b"]) == 1
    assert shelf.trim(stored_before=250.0) == 1
    assert shelf.trim(keep=1) == 1
    assert [item.id for item in shelf.contents] == ["d"]
    assert shelf.clear() == 1
    assert shelf.saved == 0
    shelf.close()


def test_a_memory_and_the_manager_work_on_it(shelf: Shelf) -> None:
    memory = Memory(shelf)
    memory.add(["Ann drinks tea."], user="ann")
    assert memory.search("drinks") == []
    assert [hit.text for hit in memory.search("drinks", user="ann")] == ["Ann drinks tea."]
    assert memory.forget(user="ann").items == 1
    manager = MemoryManager([Attachment(name="shelf")], {"shelf": shelf})
    manager.update(said("Bob drinks cocoa.", None), current_stage=Stage.FINISHED)
    found = manager.retrieve(query="cocoa drinks", current_stage=Stage.GEN)
    assert found is not None
    assert [hit.item.content_summary for hit in found.hits] == ["Bob drinks cocoa."]
