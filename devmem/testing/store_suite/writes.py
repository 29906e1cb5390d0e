"""Writes of a node are kept, whole and durably, or the outcome says why not."""

# ruff: noqa: S101 - a suite asserts
from __future__ import annotations

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from devmem.errors import DevmemError, FilterError
from devmem.model.filters import Filter
from devmem.model.items import MemoryContentSnapshot, MemoryItem, Scope, SnapshotBlock
from devmem.model.message import AttachmentRef, MessageBlock
from devmem.model.results import MemoryWritePayload, WriteStatus
from devmem.stores.collection_memory import CollectionMemory
from devmem.stores.memory import MemoryBase, MemoryQuery
from devmem.testing.abilities import needs
from devmem.testing.clock import ManualClock
from devmem.testing.embedders import HashEmbedder
from devmem.testing.store_suite.fixtures import Opening, OpenStore

_THREADS = 8


class Writing(Opening):
    """Update, and the life of a store."""

    def test_an_exchange_is_stored(self, store: MemoryBase) -> None:
        """The outcome names the item, and the item has both sides and who wrote it."""
        scope = Scope(user="ann", session="s1")
        payload = self.exchange(
            "Where is the key?",
            "The key is under the blue flowerpot.",
            agent_role="You are a butler.",
            scope=scope,
            source="butler",
            event_time=1_600_000_000.0,
            trust=0.5,
            metadata={"room": "hall"},
        )
        outcome = store.update(payload)
        assert outcome.status is WriteStatus.STORED
        assert outcome.item_id is not None
        (item,) = store.get([outcome.item_id])
        assert "flowerpot" in item.content_summary
        assert (item.input_snapshot, item.output_snapshot) == (payload.input_snapshot, payload.output_snapshot)
        assert (item.scope, item.provenance.name, item.event_time, item.trust) == (scope, "butler", 1.6e9, 0.5)
        assert item.metadata["room"] == "hall"
        assert item.created_at == store.setup.clock()

    def test_a_long_exchange_keeps_its_end(self, store: MemoryBase) -> None:
        """Whatever is shown of it, both sides are kept to the last word."""
        asked, answered = "a long question " * 500, "a long answer " * 500 + "which ends with zanzibar"
        payload = self.exchange(asked, answered)
        outcome = store.update(payload)
        assert outcome.item_id is not None
        (item,) = store.get([outcome.item_id])
        assert (item.input_snapshot, item.output_snapshot) == (payload.input_snapshot, payload.output_snapshot)

    def test_multimodal_blocks_are_kept(self, store: MemoryBase) -> None:
        """A picture in the answer is there when the item is recalled."""
        ref = AttachmentRef(
            attachment_id="a", mime_type="image/png", name="x.png", data_uri="data:image/png;base64,AA=="
        )
        block = SnapshotBlock(role="assistant", block=MessageBlock(type="image", attachment=ref))
        output = MemoryContentSnapshot(text="here is the picture you asked for", blocks=(block,))
        outcome = store.update(
            self.kept(MemoryWritePayload(inputs_text="draw a house, please", output_snapshot=output))
        )
        assert outcome.item_id is not None
        (item,) = store.get([outcome.item_id])
        assert item.output_snapshot == output

    @pytest.mark.parametrize(
        "payload",
        [
            MemoryWritePayload(),
            MemoryWritePayload(inputs_text=" \n", output_snapshot=MemoryContentSnapshot(text="\t ")),
            MemoryWritePayload(input_snapshot=MemoryContentSnapshot(), output_snapshot=MemoryContentSnapshot()),
        ],
    )
    def test_a_blank_payload_is_skipped_with_a_reason(self, store: MemoryBase, payload: MemoryWritePayload) -> None:
        """It is neither stored nor silently dropped."""
        outcome = store.update(payload)
        assert (outcome.status, outcome.item_id) == (WriteStatus.SKIPPED, None)
        assert outcome.reason
        assert store.count() == 0

    def test_what_expires_is_neither_found_nor_counted(self, open_store: OpenStore) -> None:
        """From its time on nothing of it is left to see, whatever else the store made of it."""
        clock = ManualClock()
        store = open_store(embedder=HashEmbedder(), clock=clock)
        payload = self.exchange("Where is the key?", "The key is under the blue flowerpot.", expires_at=clock.now + 60)
        outcome = store.update(payload)
        assert outcome.item_id is not None
        assert [item.expires_at for item in store.get([outcome.item_id])] == [clock.now + 60]
        assert "flowerpot" in store.retrieve("", "where is the key", 1)[0].content_summary
        clock.advance(60)
        assert store.retrieve("", "where is the key", 3) == store.recent(3) == []
        assert store.count() == 0

    @needs("persists")
    def test_what_was_written_is_there_when_opened_again(self, open_store: OpenStore) -> None:
        """Also without `save` and `close`: a process may be killed after a node has finished."""
        first = open_store(embedder=HashEmbedder())
        outcome = first.update(self.exchange("Where is the key?", "The key is under the blue flowerpot."))
        assert outcome.item_id is not None
        assert open_store(embedder=HashEmbedder()).get([outcome.item_id]) == first.get([outcome.item_id])
        first.close()
        again = open_store(embedder=HashEmbedder())
        assert "flowerpot" in again.retrieve("", "where is the key", 1)[0].content_summary

    def test_loading_saving_and_closing_twice(self, store: MemoryBase) -> None:
        """None of them minds being called again."""
        store.load()
        store.update(self.exchange("Where is the key?", "The key is under the blue flowerpot."))
        for _ in range(2):
            store.save()
        assert store.count() == 1
        for _ in range(2):
            store.close()

    def test_a_closed_store_says_so(self, store: MemoryBase) -> None:
        """Using it after `close` is one of our errors, and does not open it again."""
        store.close()
        with pytest.raises(DevmemError, match="closed"):
            store.update(self.exchange("Where is the key?", "The key is under the blue flowerpot."))
        with pytest.raises(DevmemError, match="closed"):
            store.retrieve("", "key")

    def test_many_threads(self, store: MemoryBase) -> None:
        """All nodes share one store: nothing is lost and nothing is there twice."""
        start = threading.Barrier(_THREADS)

        def work(thread: int) -> list[str]:
            start.wait()
            made = []
            for n in range(10):
                outcome = store.update(
                    self.exchange(f"question {n} of thread {thread}", f"the answer is {thread} and {n}")
                )
                assert outcome.status is WriteStatus.STORED
                assert outcome.item_id is not None
                made.append(outcome.item_id)
                assert store.retrieve("", f"question {n}", 3)
            return made

        with ThreadPoolExecutor(_THREADS) as pool:
            made = [item_id for part in pool.map(work, range(_THREADS)) for item_id in part]
        assert len(set(made)) == len(made) == 10 * _THREADS
        assert store.count() == len(made), (
            f"{store.count()} of {len(made)} items are left: the suite needs a store with room for {len(made)} items; "
            "give the test class a `config` with a larger capacity"
        )
        assert [item.id for item in store.get(made)] == made

    def test_finished_items_can_be_added(self, store: MemoryBase) -> None:
        """As an import does it: ids stay, twice is once, and progress is told."""
        items = [MemoryItem(id=f"import {n}", content_summary=f"imported note number {n}") for n in range(5)]
        told: list[int] = []
        assert {outcome.status for outcome in store.add(items, told.append)} == {WriteStatus.STORED}
        assert told[-1] == 5
        assert {outcome.status for outcome in store.add(items)} == {WriteStatus.DUPLICATE}
        assert store.get(["import 3"]) == [items[3]]

    def test_forgetting(self, store: MemoryBase) -> None:
        """By id, by age, and everything; nothing goes by accident."""
        store.add([MemoryItem(id=str(n), content_summary=f"note {n}", created_at=float(n)) for n in range(6)])
        assert [item.id for item in store.recent(2)] == ["5", "4"]
        for where in (None, Filter(), Filter(scope=Scope(agent=None))):
            with pytest.raises(FilterError, match="`clear`"):
                store.delete(where=where)
        assert store.delete(ids=["2", "nobody"]) == 1
        assert store.trim(stored_before=2.0) == 2
        assert store.trim(keep=2) == 1
        assert [item.id for item in store.recent(9)] == ["5", "4"]
        assert store.info().items == store.count() == 2
        assert store.clear() == 2
        assert store.count() == 0
        assert store.compress() == 0

    def test_pins_and_quarantine(self, store: MemoryBase) -> None:
        """No search returns an item with trust 0, and `get` does; trimming keeps what is pinned."""
        pinned = MemoryItem(id="pinned", content_summary="the harbour is closed", metadata={"pinned": True})
        hearsay = MemoryItem(id="hearsay", content_summary="the harbour is open today", trust=0.0)
        store.add([pinned, hearsay, MemoryItem(id="newest", content_summary="the harbour has cranes")])
        hits = store.search(MemoryQuery(text="is the harbour open", limit=1))
        assert "hearsay" not in [hit.item.id for hit in hits]
        assert store.get(["hearsay"]) == [hearsay]
        if isinstance(store, CollectionMemory):
            assert store.trim(keep=1) == 1
            assert [item.id for item in store.recent(9)] == ["newest", "pinned"]

    def test_the_async_twins(self, store: MemoryBase) -> None:
        """They do what the others do."""

        async def work() -> list[MemoryItem]:
            outcome = await store.aupdate(self.exchange("Where is the key?", "The key is under the blue flowerpot."))
            assert outcome.status is WriteStatus.STORED
            return await store.aretrieve("", "where is the key", 1)

        (item,) = asyncio.run(work())
        assert "flowerpot" in item.content_summary
