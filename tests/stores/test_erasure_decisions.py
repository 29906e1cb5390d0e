"""Decisions on what is erased are on disk until they are carried out, and hold nothing secret."""

from __future__ import annotations

import sqlite3
import stat
import sys
from contextlib import closing
from pathlib import Path

import pytest

from devmem.stores import StoreSetup
from devmem.stores.commit_log import EraseRecord, decide_erasure, erase_records
from devmem_stores.simple import SimpleConfig


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
