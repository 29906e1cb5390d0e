"""Durability against a loss of power: how SQLite is told to sync, and the order in which files are replaced."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from devmem import MemoryItem
from devmem.errors import CollectionDamagedError
from devmem.storage import Durability, EraseRequest, Outbox, SqliteCollection
from devmem.text.files import replace_file


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
        has_name = target.exists() and target.read_bytes() == b"new"
        events.append(("folder" if path.is_dir() else "file", has_name))
        fsync(handle)

    target.write_bytes(b"old")
    monkeypatch.setattr(os, "fsync", synced)
    replace_file(target, [b"new"])
    assert events == [("file", False), ("folder", True)]


def test_nothing_is_pending_after_a_run_was_committed(tmp_path: Path) -> None:
    """Even of a deletion, whose record names the actor and the run."""
    file = tmp_path / "notes.db"
    with closing(SqliteCollection(file)) as collection:
        collection.add([MemoryItem(id=name, content_summary=f"note {name}") for name in ("old", "kept")])
        with closing(collection.run("plan", actor="ann")) as run:
            run.add([MemoryItem(id="new", content_summary="note new")])
            run.delete(ids=["old"])
        collection.commit("plan")
        assert sorted(item.id for item in collection.scan()) == ["kept", "new"]
    with closing(sqlite3.connect(file)) as database:
        pending = "SELECT count(*) FROM versions WHERE change_run IS NOT NULL AND recorded_until IS NULL"
        assert database.execute(pending).fetchone() == (0,)


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


def test_an_erasure_leaves_neither_name_nor_actor_of_a_run_that_it_empties(tmp_path: Path) -> None:
    file = tmp_path / "notes.db"
    with closing(SqliteCollection(file)) as collection:
        with closing(collection.run("zymurgy plan", actor="the zymurgist")) as run:
            run.add([MemoryItem(id="x", content_summary="The launch is in June.")])
        plan = collection.begin_erasure(EraseRequest(ids=("x",)))
        result = collection.finish_erasure(plan, ["zymurgy plan", "the zymurgist"])
        assert result.residues == ()
        assert collection.runs() == []
    assert b"zymurg" not in file.read_bytes()
