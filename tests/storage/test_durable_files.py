"""Files: synced against a loss of power, replaced in order, and readable by their owner only."""

from __future__ import annotations

import os
import sqlite3
import stat
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from devmem import MemoryItem
from devmem.errors import CollectionDamagedError
from devmem.storage import Durability, JsonCollection, Outbox, SearchQuery, SqliteCollection
from devmem.testing import HashEmbedder


class _Spied(sqlite3.Connection):
    """A connection that shows how it syncs whenever it commits."""

    seen: list[int]

    def execute(self, sql: str, parameters: Any = (), /) -> sqlite3.Cursor:
        if sql.startswith("COMMIT"):
            (level,) = super().execute("PRAGMA synchronous").fetchone()
            self.seen.append(level)
        return super().execute(sql, parameters)


@pytest.fixture
def spied(monkeypatch: pytest.MonkeyPatch) -> type[_Spied]:
    """Every connection shows how it syncs."""
    connect: Callable[..., sqlite3.Connection] = sqlite3.connect
    monkeypatch.setattr(_Spied, "seen", [], raising=False)
    monkeypatch.setattr(sqlite3, "connect", lambda *args, **options: connect(*args, **options, factory=_Spied))
    return _Spied


@pytest.mark.parametrize(("durability", "level"), [("full", 2), ("normal", 1)])
def test_each_commit_syncs_as_the_store_was_told(
    durability: Durability, level: int, tmp_path: Path, spied: type[_Spied]
) -> None:
    with closing(SqliteCollection(tmp_path / "notes.db", durability=durability)) as collection:
        spied.seen.clear()
        collection.add([MemoryItem(id="x", content_summary="The launch is in June.")])
        collection.delete(ids=["x"])
    assert set(spied.seen) == {level}


def test_a_write_that_waits_in_an_outbox_is_synced(tmp_path: Path, spied: type[_Spied]) -> None:
    outbox: Outbox[str] = Outbox(tmp_path / "box.db", dump=str, load=str)
    outbox.put({"1": "The launch is in June."})
    outbox.close()
    assert spied.seen == [2]


def test_a_replaced_file_is_synced_before_it_has_its_name_and_its_folder_after(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    target, events = tmp_path / "notes.json", []
    fsync = os.fsync

    def synced(handle: int) -> None:
        path = Path(f"/proc/self/fd/{handle}").readlink()
        has_name = b"new" in target.read_bytes()
        events.append(("folder" if path.is_dir() else "file", has_name))
        fsync(handle)

    with closing(JsonCollection(target)) as collection:
        collection.add([MemoryItem(id="x", content_summary="old")])
        monkeypatch.setattr(os, "fsync", synced)
        collection.add([MemoryItem(id="x", content_summary="new")])
    assert events == [("file", False), ("folder", True)]


def test_a_file_that_ends_within_a_page_is_refused_and_left_unchanged(tmp_path: Path) -> None:
    """SQLite itself notices only when whole pages are missing."""
    file = tmp_path / "notes.db"
    with closing(SqliteCollection(file)) as collection:
        collection.add([MemoryItem(id="x", content_summary="The launch is in June.")])
    whole = file.read_bytes()
    file.write_bytes(whole[:-100])
    with pytest.raises(CollectionDamagedError, match="cut off"):
        SqliteCollection(file)
    assert file.read_bytes() == whole[:-100]


Notes = Callable[..., list[MemoryItem]]


@pytest.fixture(autouse=True)
def lenient_umask() -> Iterator[None]:
    """Let everybody read what is created without a mode."""
    before = os.umask(0o000)
    yield
    os.umask(before)


def modes(folder: Path) -> dict[str, int]:
    return {file.name: stat.S_IMODE(file.stat().st_mode) for file in folder.iterdir()}


def test_every_file_of_a_new_store_is_its_owners(tmp_path: Path, notes: Notes, embedder: HashEmbedder) -> None:
    path = tmp_path / "store.db"
    collection = SqliteCollection(path, model=embedder.identity)
    collection.add(notes(0, 300))
    collection.search(SearchQuery(text="note"))
    assert modes(tmp_path).keys() >= {"store.db", "store.db-wal", "store.db-shm"}
    assert set(modes(tmp_path).values()) == {0o600}
    collection.close()
    assert set(modes(tmp_path).values()) == {0o600}


def test_an_existing_file_keeps_its_mode(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    SqliteCollection(path).close()
    path.chmod(0o640)
    collection = SqliteCollection(path)
    collection.add([MemoryItem(content_summary="tea")])
    assert set(modes(tmp_path).values()) == {0o640}
    collection.close()


def test_a_json_file_and_an_outbox(tmp_path: Path) -> None:
    JsonCollection(tmp_path / "memory.json").add([MemoryItem(content_summary="tea")])
    outbox: Outbox[str] = Outbox(tmp_path / "box.db", dump=str, load=str)
    outbox.put({"1": "tea"})
    outbox.close()
    assert modes(tmp_path) == dict.fromkeys(["memory.json", "memory.json.lock", "box.db"], 0o600)
    (tmp_path / "box.db").chmod(0o640)
    again: Outbox[str] = Outbox(tmp_path / "box.db", dump=str, load=str)
    again.put({"2": "tea"})
    again.close()
    assert modes(tmp_path)["box.db"] == 0o640
