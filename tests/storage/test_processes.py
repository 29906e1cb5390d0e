"""Several processes on one SQLite file, and processes that die, neither lose nor double an item."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import devmem
from devmem import MemoryItem
from devmem.storage import SearchQuery, SqliteCollection
from devmem.testing import HashEmbedder
from tests.command_line import run_devmem
from tests.conftest import StartScript
from tests.processes import Script

KILLS = 24


def finish(process: Script) -> list[str]:
    """Wait until it ends well; gives what it acknowledged."""
    assert process.stdout is not None
    lines = process.stdout.read().splitlines()
    assert process.wait(timeout=120) == 0
    return lines[1:]


def check_whole(path: Path, embedder: HashEmbedder, wanted: set[str], *, exactly: bool) -> list[str]:
    """Compare the items, the full-text index and the vectors with one another; gives the ids."""
    collection = SqliteCollection(path, model=embedder.identity)
    items = list(collection.scan())
    ids = [item.id for item in items]
    assert len(ids) == len(set(ids)) == collection.count()
    assert (set(ids) == wanted) if exactly else (set(ids) >= wanted)
    assert all(item.embedding is not None for item in items)
    for query in (SearchQuery(text="writer", limit=len(ids) + 1), SearchQuery(vector=embedder.vector("x"), limit=9999)):
        assert sorted(hit.item.id for hit in collection.search(query)) == sorted(ids)
    collection.close()
    return ids


@pytest.mark.slow
@pytest.mark.parametrize("attempts", [1, pytest.param(5, marks=pytest.mark.kit)])
def test_processes_that_make_the_file_at_once(
    tmp_path: Path, start_script: StartScript, workers: Path, embedder: HashEmbedder, attempts: int
) -> None:
    """All of them open it, and none takes the half-made file for a stranger's."""
    for attempt in range(attempts):
        # The folders are made by whoever is first, too.
        path = tmp_path / f"{attempt}" / "of" / "notes" / "store.db"
        processes = [start_script(workers / "write_items.py", path, f"writer {n}", 5, 1) for n in range(4)]
        acknowledged = {line for process in processes for line in finish(process)}
        assert len(acknowledged) == 20
        check_whole(path, embedder, acknowledged, exactly=True)


@pytest.mark.slow
def test_two_writers_and_a_reader(
    tmp_path: Path, start_script: StartScript, workers: Path, embedder: HashEmbedder
) -> None:
    """4,000 items are written while another process searches: none is lost, none is there twice."""
    path = tmp_path / "store.db"
    writers = [start_script(workers / "write_items.py", path, f"writer {n}", 2000, 5) for n in range(2)]
    reader = SqliteCollection(path, model=embedder.identity)
    seen = 0
    while any(writer.poll() is None for writer in writers):
        hits = reader.search(SearchQuery(text="writer", vector=embedder.vector("writer 0"), limit=5000))
        names = [hit.item.id for hit in hits]
        assert len(names) == len(set(names))
        assert len(names) >= seen, "what was found once stays found"
        seen = len(names)
    reader.close()
    acknowledged = {line for writer in writers for line in finish(writer)}
    assert len(acknowledged) == 4000
    check_whole(path, embedder, acknowledged, exactly=True)


@pytest.mark.kit
def test_writers_that_are_killed(
    tmp_path: Path, start_script: StartScript, workers: Path, embedder: HashEmbedder
) -> None:
    """Every item that was acknowledged is there, in every index, however often writers die; a batch is never torn."""
    path, chance = tmp_path / "store.db", random.Random(7)
    acknowledged: set[str] = set()
    batch = 3
    for kill in range(KILLS):
        writer = start_script(workers / "write_items.py", path, f"writer {kill}", 100_000, batch)
        assert writer.stdout is not None
        for _ in range(chance.randrange(200)):
            if line := writer.stdout.readline().strip():
                acknowledged.add(line)
        writer.kill()
        rest = writer.stdout.read()
        acknowledged |= set(rest[: rest.rfind("\n") + 1].splitlines())
        writer.wait()
    acknowledged.discard("open")
    assert acknowledged
    ids = check_whole(path, embedder, acknowledged, exactly=False)
    per_writer = [sum(name.startswith(f"writer {kill} ") for name in ids) for kill in range(KILLS)]
    assert all(count % batch == 0 for count in per_writer), "a batch is stored whole or not at all"
    assert len(ids) <= len(acknowledged) + KILLS * batch, "only what was being written when the kill came may be more"


def test_a_file_that_is_opened_twice_in_one_process(
    tmp_path: Path, operator: Callable[[Path], Any], embedder: HashEmbedder
) -> None:
    """The second opening takes no lock from the first: another process would throw the log away under it."""
    path = tmp_path / "store.db"
    first = SqliteCollection(path, model=embedder.identity)
    first.add([MemoryItem(id="1", content_summary="tea")])
    second = SqliteCollection(path, model=embedder.identity)
    assert operator(path).finish() == 0
    first.add([MemoryItem(id="2", content_summary="more tea")])
    second.add([MemoryItem(id="3", content_summary="tea again")])
    other = operator(path)
    assert sorted(other("search", text="tea")) == ["1", "2", "3"]
    assert other.finish() == 0


_VISITOR = """
import sys, devmem
with devmem.open(sys.argv[1], embedding=None) as memory:
    memory.add(sys.argv[2])
    print(len(memory))
"""
READS: dict[str, Callable[[devmem.Memory, Path], object]] = {
    "examine": lambda memory, _: list(memory.store.examine()),
    "erase": lambda memory, _: memory.forget(memory.add("Quillfeather is erased."), tombstone=True, verify=True),
    "backup": lambda _, file: run_devmem("backup", file, file.with_name("copy.db")),
}


@pytest.mark.parametrize("read", READS)
def test_reading_the_bytes_of_an_open_file_releases_none_of_its_locks(
    read: str, tmp_path: Path, start_script: StartScript
) -> None:
    """Without its locks, a process that closes the file would remove the log into which this one goes on writing."""
    file = tmp_path / "notes.db"
    with devmem.open(file, embedding=None) as memory:
        memory.add("The first item.")
        READS[read](memory, file)
        finish(start_script(_VISITOR, file, "Another process was here."))
        memory.add("An item after it.")
        finish(start_script(_VISITOR, file, "A third one too."))
    with devmem.open(file, embedding=None) as memory:
        assert len(memory) == 4
