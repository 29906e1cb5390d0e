"""Exports, and decisions on what is erased: both are recorded, and hold nothing secret."""

from __future__ import annotations

import sqlite3
import stat
import sys
from contextlib import closing
from pathlib import Path

import pytest

from devmem import Filter, MemoryBase, MemoryItem, Scope
from devmem.stores import StoreSetup
from devmem.stores.abilities import exports_of, record_export
from devmem.stores.commit_log import EraseRecord, decide_erasure, erase_records
from devmem.testing import ManualClock
from devmem_stores.simple import SimpleConfig, SimpleMemory
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


@pytest.mark.parametrize(
    "location", ["postgresql://ann:hush-hush@db.example/memory", "postgresql://db.example/memory?password=hush-hush"]
)
def test_a_decision_keeps_no_password(tmp_path: Path, location: str) -> None:
    setup = StoreSetup(name="notes", store_type="simple", config=SimpleConfig(memory_path=location), base_dir=tmp_path)
    file = tmp_path / "state.db"
    with decide_erasure(file, [EraseRecord.of_store(setup, ["1"], user=None)]) as parts:
        assert parts[0].belongs_to(setup)
        assert b"db.example/memory" in file.read_bytes()
        assert b"hush-hush" not in file.read_bytes()
        if sys.platform != "win32":
            assert stat.S_IMODE(file.stat().st_mode) == 0o600


def test_a_damaged_decision_costs_itself_only(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    setup = StoreSetup(name="notes", store_type="simple", config=SimpleConfig(), base_dir=tmp_path)
    file, records = tmp_path / "state.db", [EraseRecord.of_store(setup, [name], user=None) for name in ("1", "2")]
    with decide_erasure(file, records):
        assert erase_records(file) == [], "they are this process's until the block ends"
    with closing(sqlite3.connect(file)) as db, db:
        db.execute("UPDATE pending SET payload = '{' WHERE number = 1")
    (left,) = erase_records(file, setup)
    assert left.names == ("2",)
    assert "run `devmem forget` again" in caplog.text
    left.done()
    assert erase_records(file, setup) == []
