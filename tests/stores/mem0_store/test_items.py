"""Items that come back from mem0, and how they are listed, deleted and erased."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest

from devmem import Filter, MemoryContentSnapshot, MemoryItem, MemoryWritePayload, Scope
from devmem.errors import FilterError
from devmem.storage import EraseRequest
from devmem.stores import MemoryQuery, Provenance, SourceKind, WriteStatus
from devmem.testing import ManualClock
from devmem_stores.mem0 import Mem0Memory

from .conftest import MakeStore, mem0_error
from .fake_mem0 import FakeMem0, failure


def test_times_scores_and_categories_arrive(store: Mem0Memory, fake: FakeMem0) -> None:
    fake.remember("Ann likes tea", user_id="ann", categories=["food"], expiration_date="2030-01-31", metadata={"a": 1})
    (hit,) = store.search(MemoryQuery(text="likes tea"))
    assert hit.score == 1.0
    assert hit.item.created_at == datetime(2024, 5, 1, 12, tzinfo=UTC).timestamp()
    assert hit.item.expires_at == datetime(2030, 2, 1, tzinfo=UTC).timestamp()
    assert hit.item.metadata["categories"] == ["food"]
    assert hit.item.metadata["a"] == 1
    assert hit.item.scope == Scope(user="ann")
    assert hit.item.id == fake.memories[0]["id"]


def test_what_a_payload_says_of_itself_comes_back(store: Mem0Memory, fake: FakeMem0) -> None:
    store.update(
        MemoryWritePayload(
            inputs_text="I like tea",
            source="desk",
            event_time=1_600_000_000.0,
            trust=0.5,
            scope=Scope(user="ann", conversation="c1"),
            metadata={"topic": "food"},
        )
    )
    (item,) = store.retrieve("", "like tea")
    assert item.provenance == Provenance(kind=SourceKind.NODE, name="desk")
    assert (item.event_time, item.created_at, item.trust) == (1_600_000_000.0, 1_600_000_000.0, 0.5)
    assert item.scope == Scope(user="ann", conversation="c1")
    assert item.metadata["topic"] == "food"
    assert not [key for key in item.metadata if key.startswith("devmem")]


@pytest.mark.parametrize("foreign", ["text", {"scope": 3}, {"trust": "high"}])
def test_metadata_of_others_under_our_key_is_only_metadata(foreign: object, store: Mem0Memory, fake: FakeMem0) -> None:
    fake.remember("Ann likes tea", user_id="ann", metadata={"devmem": foreign})
    (item,) = store.retrieve("", "tea")
    assert item.content_summary == "Ann likes tea"


def test_time_that_is_none_is_left_out(store: Mem0Memory, fake: FakeMem0, caplog: pytest.LogCaptureFixture) -> None:
    fake.remember("Ann likes tea", user_id="ann", created_at="yesterday", updated_at=None)
    (item,) = store.retrieve("", "tea")
    assert item.content_summary == "Ann likes tea"
    assert "'yesterday'" in caplog.text


def test_every_page_is_read(store: Mem0Memory, fake: FakeMem0) -> None:
    for number in range(250):
        fake.remember(f"Fact {number}.", user_id="ann")
    fake.remember("Somebody else's.", user_id="bob")
    assert [item.content_summary for item in store.get_all()] == [f"Fact {n}." for n in range(250)]
    assert store.count() == 250
    assert [seen.query["page"] for seen in fake.called("/v3/memories/")[:3]] == ["1", "2", "3"]


def test_pages_that_do_not_end_are_an_error(store: Mem0Memory, fake: FakeMem0) -> None:
    """As of a proxy that answers every page with the last one."""
    for number in range(150):
        fake.remember(f"Fact {number}.", user_id="ann")
    fake.repeats_its_last_page = True
    with mem0_error("answer", match="page 3 repeats those before it"):
        list(store.get_all())
    with mem0_error("answer", match="repeats"):
        store.recent(2)


def test_filters_that_mem0_does_not_know_are_applied_here(store: Mem0Memory, fake: FakeMem0) -> None:
    fake.remember("old tea", user_id="ann", created_at="2020-01-01T00:00:00Z")
    fake.remember("new tea", user_id="ann", metadata={"kind": "drink"})
    query = MemoryQuery(text="tea", where=Filter(after=datetime(2023, 1, 1, tzinfo=UTC).timestamp()))
    assert [hit.item.content_summary for hit in store.search(query)] == ["new tea"]
    assert fake.called("/v3/memories/search/")[-1].body["top_k"] == 30
    assert store.count(Filter(metadata={"kind": "drink"})) == 1
    elsewhere = replace(query, where=Filter(scope=Scope(user="bob")))
    assert list(store.search(elsewhere)) == []


def test_deleting_by_id_by_filter_and_all(make_store: MakeStore, fake: FakeMem0) -> None:
    store = make_store(user_id="ann", agent_id="bot")
    one = fake.remember("one", user_id="ann")
    fake.remember("two", agent_id="bot", metadata={"kind": "x"})
    fake.remember("three", user_id="ann")
    fake.remember("not ours", user_id="bob")
    assert store.delete(ids=[one["id"], "unknown", "00000000-0000-0000-0000-000000000000"]) == 1
    assert store.delete(where=Filter(metadata={"kind": "x"})) == 1
    with pytest.raises(FilterError):
        store.delete()
    assert store.clear() == 1
    assert fake.texts() == ["not ours"]
    assert [seen.query for seen in fake.called("/v1/memories/", "DELETE")[-2:]] == [
        {"user_id": "ann"},
        {"agent_id": "bot"},
    ]


def test_deleting_all_of_nobody_deletes_nothing(make_store: MakeStore, fake: FakeMem0) -> None:
    """To mem0, no id at all means everybody's memories."""
    fake.remember("precious", user_id="bob")
    with mem0_error("scope"):
        make_store(nobody=True).clear()
    assert fake.requests == []


def test_trimming(store: Mem0Memory, fake: FakeMem0) -> None:
    for day in range(1, 6):
        fake.remember(f"day {day}", user_id="ann", created_at=f"2024-01-0{day}T00:00:00Z")
    assert store.trim(stored_before=datetime(2024, 1, 2, tzinfo=UTC).timestamp()) == 1
    assert store.trim(keep=2) == 2
    assert fake.texts() == ["day 4", "day 5"]


def test_items_keep_their_ids_and_are_stored_once(store: Mem0Memory, fake: FakeMem0) -> None:
    item = MemoryItem(
        id="item-1",
        content_summary="I like tea. And cake.",
        created_at=1_500_000_000.0,
        metadata={"topic": "food"},
        scope=Scope(user="bob", session="s"),
        input_snapshot=MemoryContentSnapshot(text="lost"),
    )
    counted: list[int] = []
    assert [o.status for o in store.add([item], counted.append)] == [WriteStatus.STORED]
    assert [o.status for o in store.add([item])] == [WriteStatus.DUPLICATE]
    assert fake.texts() == ["I like tea. And cake."]
    (copy,) = store.get(["item-1"])
    assert copy.content_summary == item.content_summary
    assert (copy.id, copy.created_at, copy.scope) == ("item-1", 1_500_000_000.0, Scope(user="bob", session="s"))
    changed = replace(item, content_summary="I like coffee.")
    assert [o.status for o in store.add([changed])] == [WriteStatus.SUPERSEDED]
    assert fake.texts() == ["I like coffee."]
    assert store.delete(ids=["item-1"]) == 1
    assert [o.status for o in store.add([replace(item, content_summary=" ")])] == [WriteStatus.SKIPPED]
    assert counted == [1]


def test_closed_store_says_so(store: Mem0Memory) -> None:
    store.close()
    store.close()
    with pytest.raises(Exception, match="was closed"):
        store.retrieve("", "tea")


def test_importing_devmem_and_the_store_type_imports_no_mem0() -> None:
    code = (
        "import sys, devmem, devmem_stores.mem0\n"
        "devmem.plugins.registry.get('mem0')\n"
        "store = devmem_stores.mem0.Mem0Memory(devmem.stores.StoreSetup(name='n', store_type='mem0',"
        " config=devmem_stores.mem0.Mem0Config(api_key='key-123')))\n"
        "store.load()\n"
        "assert not {'mem0', 'httpx', 'posthog', 'qdrant_client'} & set(sys.modules), sorted(sys.modules)\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def by_user(user: str) -> EraseRequest:
    return EraseRequest(where=Filter(scope=Scope(user=user)))


def test_a_users_memories_go_and_others_stay(make_store: MakeStore) -> None:
    store = make_store(nobody=True)
    for user in ("ann", "bob"):
        store.add([MemoryItem(id=f"item-{user}", content_summary=f"{user} likes tea.", scope=Scope(user=user))])
    request = by_user("ann")
    assert [item.id for item in store.select_erasable(request)] == ["item-ann"]
    done = store.erase_selected(request)
    assert done.items == 1
    assert ["history" in left.reason for left in done.residues] == [True]
    assert list(store.get_all(request.where)) == []
    assert [item.id for item in store.get_all(Filter(scope=Scope(user="bob")))] == ["item-bob"]


def test_what_waits_is_never_sent(make_store: MakeStore, fake: FakeMem0, clock: ManualClock, tmp_path: Path) -> None:
    store = make_store(nobody=True)
    fake.faults += [failure(500) for _ in range(6)]
    for user in ("ann", "bob"):
        store.update(MemoryWritePayload(inputs_text=f"Quillfeather {user}", scope=Scope(user=user)))
    waiting = store.unsent
    assert waiting == 2
    fake.faults.clear()
    clock.advance(600)
    assert store.erase_selected(by_user("ann")).items == 1
    content = b"".join(file.read_bytes() for file in tmp_path.rglob("*.db"))
    assert b"Quillfeather ann" not in content
    assert b"Quillfeather bob" in content


def test_mem0_lists_nobody_without_an_id(make_store: MakeStore) -> None:
    """Ids of other stores are none of its own; a selection without a user cannot be answered."""
    store = make_store(nobody=True)
    assert store.select_erasable(EraseRequest(ids=("of-another-store",))) == []
    assert store.derived_from(["of-another-store"]) == []
    with mem0_error("scope"):
        store.select_erasable(EraseRequest(text="tea"))
