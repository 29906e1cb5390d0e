"""Entries of a `blackboard` store: which are kept, and which are shown."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from devmem import MemoryBase, MemoryContentSnapshot, MemoryItem, MemoryWritePayload, Scope
from devmem.stores import MemoryQuery, WriteStatus
from devmem.testing import ManualClock
from devmem_stores.blackboard import BlackboardMemory
from tests.conftest import MakeStore

Exchange = Callable[..., MemoryWritePayload]


def written(store: MemoryBase, exchange: Exchange, count: int) -> MemoryBase:
    for n in range(count):
        store.update(exchange("What is new?", f"entry {n}"))
    return store


def shown(store: MemoryBase, top_k: int = 99) -> list[str]:
    return [hit.item.content_summary for hit in store.search(MemoryQuery(text="whatever", limit=top_k))]


def test_the_last_entries_whatever_the_query(make_store: MakeStore, exchange: Exchange) -> None:
    store = written(make_store(BlackboardMemory), exchange, 5)
    assert shown(store, 2) == ["entry 4", "entry 3"]
    assert [item.content_summary for item in store.retrieve("", "", 2, 0.99)] == ["entry 4", "entry 3"]


@pytest.mark.parametrize("order", ["newest", "chronological"])
def test_the_conversations_of_the_last_entries(make_store: MakeStore, order: str) -> None:
    store = make_store(BlackboardMemory, order=order)
    store.add([MemoryItem(content_summary=f"entry {n}", scope=Scope(conversation=f"c{n}")) for n in range(5)])
    groups = store.search_conversations(MemoryQuery(text="whatever", limit=2))
    assert [group.conversation for group in groups] == ["c4", "c3"]


def test_the_oldest_are_pushed_out(make_store: MakeStore, exchange: Exchange) -> None:
    store = written(make_store(BlackboardMemory, max_items=3, memory_path="board.json"), exchange, 7)
    assert shown(store) == ["entry 6", "entry 5", "entry 4"]
    assert store.count() == 3
    again = make_store(BlackboardMemory, max_items=3, memory_path="board.json")
    assert shown(again) == [
        "entry 6",
        "entry 5",
        "entry 4",
    ]


def test_entries_leave_with_age(make_store: MakeStore, exchange: Exchange, clock: ManualClock) -> None:
    store = make_store(BlackboardMemory, max_age=60)
    store.update(exchange("What is new?", "old news"))
    clock.advance(59)
    store.update(exchange("What is new?", "fresh news"))
    assert shown(store) == ["fresh news", "old news"]
    clock.advance(1)
    assert shown(store) == ["fresh news"]
    assert store.count() == 1


def test_the_same_words_twice_are_two_entries(make_store: MakeStore, exchange: Exchange) -> None:
    """It is a log: `done` said twice happened twice."""
    store = make_store(BlackboardMemory)
    ids = {store.update(exchange("Is it done?", "done")).item_id for _ in range(2)}
    assert len(ids) == 2
    assert shown(store) == ["done", "done"]


@pytest.mark.parametrize(
    ("payload", "text"),
    [
        (MemoryWritePayload(inputs_text="in", output_snapshot=MemoryContentSnapshot(text=" out ")), "out"),
        (MemoryWritePayload(inputs_text="in", input_snapshot=MemoryContentSnapshot(text="(user) in")), "in"),
        (MemoryWritePayload(input_snapshot=MemoryContentSnapshot(text="snapshot")), "snapshot"),
        (MemoryWritePayload(inputs_text="=== INPUT FROM a (user) ===\n\nin"), "in"),
        (MemoryWritePayload(inputs_text="in", output_snapshot=MemoryContentSnapshot(text=" ")), "in"),
    ],
)
def test_what_an_entry_says(make_store: MakeStore, payload: MemoryWritePayload, text: str) -> None:
    """The answer, or else what was asked."""
    store = make_store(BlackboardMemory)
    assert store.update(payload).status is WriteStatus.STORED
    assert shown(store) == [text]
