"""Files of what people said are readable by their owner only; an existing file keeps its mode."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from devmem import MemoryItem
from devmem.storage import JsonCollection, Outbox, SearchQuery, SqliteCollection
from devmem.testing import HashEmbedder

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
