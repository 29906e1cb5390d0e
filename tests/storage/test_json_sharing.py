"""One JSON file, several processes: no torn read, no lost write."""

from __future__ import annotations

import errno
import json
import os
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import pytest

from devmem import MemoryItem
from devmem.errors import CollectionUnwritableError
from devmem.storage import JsonCollection, SearchQuery
from tests.conftest import StartScript

_READER = """
import json, sys, threading
over = threading.Event()
threading.Thread(target=lambda: (sys.stdin.read(), over.set()), daemon=True).start()
reads = torn = most = 0
print("ready", flush=True)
while not over.is_set():
    try:
        count = len(json.load(open(sys.argv[1], encoding="utf-8")))
    except FileNotFoundError:
        continue
    except ValueError:
        count = -1
    reads, torn, most = reads + 1, torn + (count < most), max(most, count)
print(json.dumps({"reads": reads, "torn": torn}))
"""
"""Reads a JSON file as DevAll does, until stdin ends; says how often, and how often an item was missing."""
_WRITER = """
import sys
from devmem import MemoryItem
from devmem.storage import JsonCollection
collection = JsonCollection(sys.argv[1])
for n in range(60):
    collection.add([MemoryItem(id=f"{sys.argv[2]} {n}", content_summary="tea")])
"""


def test_a_reader_never_sees_half_a_file(tmp_path: Path, start_script: StartScript) -> None:
    """The file is replaced, not rewritten: whoever reads it meanwhile gets the state before or after."""
    path = tmp_path / "memory.json"
    reader = start_script(_READER, path)
    assert reader.stdin is not None
    assert reader.stdout is not None
    assert reader.stdout.readline() == "ready\n"
    collection = JsonCollection(path)
    for n in range(150):
        collection.add([MemoryItem(id=str(n), content_summary=f"note {n} " * 100)])
    reader.stdin.close()
    told = json.loads(reader.stdout.readline())
    assert told["torn"] == 0
    assert told["reads"] > 10
    assert reader.wait(timeout=60) == 0


def test_processes_that_write_at_once(tmp_path: Path, start_script: StartScript) -> None:
    """The same without taking turns."""
    path = tmp_path / "memory.json"
    writers = [start_script(_WRITER, path, f"writer {n}") for n in range(3)]
    assert [writer.wait(timeout=120) for writer in writers] == [0, 0, 0]
    ids = [entry["id"] for entry in json.loads(path.read_text())]
    assert sorted(ids) == sorted(f"writer {writer} {n}" for writer in range(3) for n in range(60))


def test_searches_run_side_by_side(tmp_path: Path) -> None:
    """Two searches meet inside: neither waits until the other one is over."""
    meeting, armed = threading.Barrier(2), threading.Event()

    def clock() -> float:
        if armed.is_set():
            meeting.wait(60)
        return 1_000.0

    collection = JsonCollection(tmp_path / "notes.json", clock=clock)
    collection.add([MemoryItem(id="1", content_summary="green tea")])
    armed.set()
    with ThreadPoolExecutor(2) as pool:
        found = list(pool.map(lambda _: collection.search(SearchQuery(text="tea")), range(2)))
    assert [[hit.item.id for hit in hits] for hits in found] == [["1"], ["1"]]
    armed.clear()
    collection.close()


def test_what_could_not_be_written_is_not_shown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with closing(JsonCollection(tmp_path / "notes.json")) as collection:
        collection.add([MemoryItem(id="before", content_summary="tea")])
        with monkeypatch.context() as patched:
            patched.setattr(os, "fsync", full)
            with pytest.raises(CollectionUnwritableError, match="No space"):
                collection.add([MemoryItem(id="lost", content_summary="rain")])
            with pytest.raises(CollectionUnwritableError, match="No space"):
                collection.delete(ids=["before"])
        assert [item.id for item in collection.scan()] == ["before"]
