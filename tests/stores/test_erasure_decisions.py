"""Decisions on what is erased are on disk until they are carried out, and hold nothing secret."""

from __future__ import annotations

import stat
import sys
from pathlib import Path

import pytest

from devmem.stores import StoreSetup
from devmem.stores.commit_log import EraseRecord, decide_erasure
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
