"""Several processes on one SQLite file, and processes that die, neither lose nor double an item."""

from __future__ import annotations

import random
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

import devmem
from devmem import MemoryItem
from devmem.storage import JsonCollection, SearchQuery, SqliteCollection
from devmem.testing import HashEmbedder
from tests.command_line import run_devmem
from tests.conftest import StartScript
from tests.processes import Script

KILLS = 24
_WRITER = """
import os, sys
from devmem import MemoryItem
from devmem.storage import SqliteCollection
from devmem.testing import HashEmbedder
path, name, count, batch = *sys.argv[1:3], *map(int, sys.argv[3:])
embedder = HashEmbedder(dimension=32)
collection = SqliteCollection(path, model=embedder.identity, durability="normal")
os.write(1, b"open\\n")
for start in range(0, count, batch):
    texts = [f"{name} {n}" for n in range(start, min(start + batch, count))]
    collection.add([MemoryItem(id=text, content_summary=text, embedding=embedder.vector(text)) for text in texts])
    # Unbuffered: what was named was stored before.
    os.write(1, "".join(f"{text}\\n" for text in texts).encode())
collection.close()
"""
"""Writes items, and names each on stdout after `add` returned."""


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
    tmp_path: Path, start_script: StartScript, embedder: HashEmbedder, attempts: int
) -> None:
    """All of them open it, and none takes the half-made file for a stranger's."""
    for attempt in range(attempts):
        # The folders are made by whoever is first, too.
        path = tmp_path / f"{attempt}" / "of" / "notes" / "store.db"
        processes = [start_script(_WRITER, path, f"writer {n}", 5, 1) for n in range(4)]
        acknowledged = {line for process in processes for line in finish(process)}
        assert len(acknowledged) == 20
        check_whole(path, embedder, acknowledged, exactly=True)


@pytest.mark.slow
def test_two_writers_and_a_reader(tmp_path: Path, start_script: StartScript, embedder: HashEmbedder) -> None:
    """4,000 items are written while another process searches: none is lost, none is there twice."""
    path = tmp_path / "store.db"
    writers = [start_script(_WRITER, path, f"writer {n}", 2000, 5) for n in range(2)]
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
def test_writers_that_are_killed(tmp_path: Path, start_script: StartScript, embedder: HashEmbedder) -> None:
    """Every item that was acknowledged is there, in every index, however often writers die; a batch is never torn."""
    path, chance = tmp_path / "store.db", random.Random(7)
    acknowledged: set[str] = set()
    batch = 3
    for kill in range(KILLS):
        writer = start_script(_WRITER, path, f"writer {kill}", 100_000, batch)
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


_VISITOR = """
import sys, devmem
with devmem.open(sys.argv[1], embedding=None) as memory:
    memory.add(sys.argv[2])
    print(len(memory))
"""
READS: dict[str, Callable[[devmem.Memory, Path], object]] = {
    "open": lambda _, file: devmem.open(file, embedding=None).close(),
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


_ELSEWHERE = """
import sys
from devmem import MemoryItem
from devmem.storage import JsonCollection, SearchQuery, SqliteCollection
from devmem.stores import PassageEmbeddings
from devmem.testing import HashEmbedder
path, embedder = sys.argv[1], HashEmbedder(dimension=32)
there = (JsonCollection if path.endswith("json") else SqliteCollection)(path, model=embedder.identity)
print("found", *sorted(hit.item.id for hit in there.search(SearchQuery(text="tea"))))
texts = {"theirs": "their tea", "ours": "a replacement of tea", "late": "late tea"}
there.add([MemoryItem(id=name, content_summary=text) for name, text in texts.items()])
there.set_embeddings({name: PassageEmbeddings.of(embedder.vector(text)) for name, text in texts.items()})
there.delete(ids=["gone"])
there.close()
"""


@pytest.mark.parametrize("kind", [SqliteCollection, JsonCollection])
def test_a_search_follows_another_process(
    tmp_path: Path, start_script: StartScript, embedder: HashEmbedder, kind: Any
) -> None:
    """Its adds, replacements, late embeddings and deletions; and it follows ours."""
    path = tmp_path / ("store.json" if kind is JsonCollection else "store.db")
    with closing(kind(path, model=embedder.identity)) as here:
        here.add([MemoryItem(id=name, content_summary=f"our tea, {name}") for name in ("ours", "gone")])
        assert len(here.search(SearchQuery(text="tea"))) == 2
        there = start_script(_ELSEWHERE, path)
        assert there.wait(60) == 0
        assert there.stdout is not None
        assert there.stdout.read() == "found gone ours\n"
        assert sorted(hit.item.id for hit in here.search(SearchQuery(text="tea"))) == ["late", "ours", "theirs"]
        for name, text in (("late", "late tea"), ("ours", "a replacement of tea")):
            assert here.search(SearchQuery(vector=embedder.vector(text)))[0].item.id == name
        assert here.count() == 3


def test_an_opening_that_slept_through_many_deletions(tmp_path: Path) -> None:
    path, kept = tmp_path / "store.db", MemoryItem(id="kept", content_summary="one note of rain")
    sleeper = SqliteCollection(path, durability="normal")
    sleeper.add([MemoryItem(id=str(n), content_summary=f"note {n}") for n in range(2_100)])
    sleeper.add([kept])
    assert len(sleeper.search(SearchQuery(text="note"))) == 10
    busy = SqliteCollection(path, durability="normal")
    for start in range(0, 2_100, 300):
        busy.delete(ids=[str(n) for n in range(start, start + 300)])
    busy.add([MemoryItem(id="new", content_summary="a new note")])
    for collection in (sleeper, busy):
        hits = collection.search(SearchQuery(text="note", limit=30_000))
        assert sorted(hit.item.id for hit in hits) == ["kept", "new"]
        assert collection.count() == 2
        collection.close()
