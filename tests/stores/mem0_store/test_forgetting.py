"""Erasing from mem0: its memories by user, what waits in the outbox, and what the receipt claims."""

from __future__ import annotations

from pathlib import Path

from devmem import MemoryItem, MemoryWritePayload, Scope
from devmem.storage import EraseRequest, Filter
from devmem.testing import ManualClock

from .conftest import MakeStore, mem0_error
from .fake_mem0 import FakeMem0, failure


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
