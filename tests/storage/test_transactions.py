"""Writers wait for one another before they read, and what is raised anywhere leaves no transaction open."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from devmem import MemoryItem, WriteStatus
from devmem.errors import CollectionBusyError
from devmem.storage import SearchQuery, SqliteCollection


def test_a_write_takes_the_lock_before_it_reads(tmp_path: Path) -> None:
    """Issue 11, defect 2: begun as a read, it would fail when another process commits before its first write."""
    refused: list[CollectionBusyError] = []

    def write_elsewhere() -> float:
        """Try to write with another connection while the first one is in its transaction."""
        if path.exists() and not refused:
            with closing(SqliteCollection(path, busy_timeout=0.0)) as other:
                with pytest.raises(CollectionBusyError) as caught:
                    other.add([MemoryItem(id="other", content_summary="from elsewhere")])
                refused.append(caught.value)
        return 0.0

    path = tmp_path / "store.db"
    with closing(SqliteCollection(path, clock=write_elsewhere)) as first:
        first.add([MemoryItem(id="first", content_summary="from here")])
        assert refused
        assert [item.id for item in first.scan()] == ["first"]


def test_a_writer_waits_for_no_reader(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    with closing(SqliteCollection(path, busy_timeout=0.0)) as writer, closing(sqlite3.connect(path)) as reader:
        writer.add([MemoryItem(id="first", content_summary="from here")])
        reader.execute("BEGIN")
        before = list(reader.iterdump())
        writer.add([MemoryItem(id="second", content_summary="from here")])
        assert list(reader.iterdump()) == before
        assert writer.count() == 2


def test_a_scan_that_was_left_in_the_middle_keeps_no_reader_in_the_past(tmp_path: Path) -> None:
    """Its statement is still open where an exception, or a frame that is kept, holds on to it."""
    with closing(SqliteCollection(tmp_path / "store.db")) as collection:
        collection.add([MemoryItem(id=f"{number}", content_summary=f"tea {number}") for number in range(2000)])
        scan = collection.scan()
        assert next(scan).id == "0"
        collection.add([MemoryItem(id="new", content_summary="coffee")])
        assert [hit.item.id for hit in collection.search(SearchQuery(text="coffee"))] == ["new"]
        assert collection.count() == 2001
        assert next(scan).id == "1"


def test_every_acknowledged_write_is_in_the_file(tmp_path: Path) -> None:
    """A few hundred, each a commit: none is lost, not even one in a hundred."""
    file = tmp_path / "notes.db"
    with closing(SqliteCollection(file, durability="normal")) as writer:
        for number in range(800):
            (outcome,) = writer.add([MemoryItem(id=str(number), content_summary=f"note {number}")])
            assert outcome.status is WriteStatus.STORED
        with closing(SqliteCollection(file)) as reader:
            assert [item.id for item in reader.scan()] == [str(number) for number in range(800)]
            assert reader.count() == 800
