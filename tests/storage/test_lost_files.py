"""A file that was deleted or emptied is reported, not replaced by an empty store."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

import devmem
from devmem import MemoryItem
from devmem.errors import CollectionDamagedError, CollectionUnwritableError
from devmem.storage import JsonCollection, SqliteCollection
from tests.command_line import run_devmem


def test_a_database_that_is_gone_beside_its_log(tmp_path: Path) -> None:
    """SQLite would delete the log, with commits that are nowhere else."""
    used = SqliteCollection(tmp_path / "used.db")
    used.add([MemoryItem(content_summary="tea")])
    log = tmp_path / "store.db-wal"
    shutil.copy(tmp_path / "used.db-wal", log)
    used.close()
    before = log.read_bytes()
    with pytest.raises(CollectionDamagedError, match=r"the file is missing.*remove .*-wal"):
        SqliteCollection(tmp_path / "store.db")
    assert log.read_bytes() == before


def test_a_database_without_the_log_of_its_commits(tmp_path: Path) -> None:
    """Moved or copied alone, it held no item: what was stored is in the log."""
    used = SqliteCollection(tmp_path / "used.db")
    used.add([MemoryItem(content_summary="tea")])
    moved, log = tmp_path / "moved.db", tmp_path / "moved.db-wal"
    shutil.copy(tmp_path / "used.db", moved)
    before = moved.read_bytes()
    for _ in range(2):
        with pytest.raises(CollectionDamagedError, match=r"without its log.*put the log beside it as moved\.db-wal"):
            SqliteCollection(moved)
        assert not log.exists()
    assert moved.read_bytes() == before
    with pytest.raises(CollectionDamagedError, match="without its log"):
        devmem.open(moved, embedding=None)
    assert not log.exists()
    for command in (["doctor", moved], ["backup", moved, tmp_path / "copy.db"]):
        assert "without its log" in run_devmem(*command, code=2).output
    assert not log.exists()
    shutil.copy(tmp_path / "used.db-wal", log)
    used.close()
    collection = SqliteCollection(moved)
    assert collection.count() == 1
    collection.close()


@pytest.mark.parametrize("use", ["read", "write"])
def test_a_json_file_that_is_deleted_while_it_is_open(tmp_path: Path, use: str) -> None:
    path = tmp_path / "memory.json"
    collection = JsonCollection(path)
    collection.add([MemoryItem(id="1", content_summary="tea")])
    moved = path.rename(tmp_path / "moved.json")
    for _ in range(2):
        with pytest.raises(CollectionUnwritableError, match=r"deleted or moved while it was open.*put it back"):
            collection.count() if use == "read" else collection.add([MemoryItem(content_summary="lost?")])
    assert not path.exists()
    moved.rename(path)
    assert collection.count() == 1
    path.unlink()
    again = JsonCollection(path)
    assert again.count() == 0, "opened again it starts empty"
