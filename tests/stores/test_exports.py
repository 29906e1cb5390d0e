"""Exports that are recorded beside the items, and named where something of them is forgotten."""

from __future__ import annotations

from pathlib import Path

from devmem import Filter, MemoryBase, MemoryItem, Scope
from devmem.stores.abilities import exports_of, record_export
from devmem.testing import ManualClock
from devmem_stores.simple import SimpleMemory
from tests.conftest import MakeStore


def item(text: str, created_at: float, *, user: str = "petronella", item_id: str = "diary-7") -> MemoryItem:
    return MemoryItem(id=item_id, content_summary=text, created_at=created_at, scope=Scope(user=user))


def places(store: MemoryBase, *items: MemoryItem) -> list[str]:
    return [export.place for export in exports_of(store, items)]


def test_an_item_that_is_written_again_is_still_in_earlier_exports(make_store: MakeStore, clock: ManualClock) -> None:
    store = make_store(SimpleMemory, memory_path="notes.db")
    before = clock()
    store.add([item("tea", before)])
    record_export(store, "all.json", items=1)
    record_export(store, "hers.json", items=1, where=Filter(scope=Scope(user="petronella")))
    record_export(store, "his.json", items=0, where=Filter(scope=Scope(user="bob")))
    clock.advance(60)
    store.add([item("rain", clock())])
    assert places(store, *store.get(["diary-7"])) == ["all.json", "hers.json"]
    assert places(store, item("new", clock(), item_id="other")) == []


def test_a_record_keeps_no_user_and_no_id_readable(make_store: MakeStore, clock: ManualClock, tmp_path: Path) -> None:
    """It stays in the file when the user is forgotten."""
    store = make_store(SimpleMemory, memory_path="notes.db")
    where = Filter(scope=Scope(user="petronella"))
    record_export(store, "hers.json", items=1, where=where, ids=["diary-7"])
    made = clock()
    assert places(store, item("tea", made)) == ["hers.json"]
    assert places(store, item("tea", made, user="bob")) == places(store, item("tea", made, item_id="x")) == []
    store.close()
    written = b"".join(file.read_bytes() for file in tmp_path.glob("notes.db*"))
    assert b"hers.json" in written
    assert b"petronella" not in written
    assert b"diary-7" not in written
