"""One JSON file, several processes: no torn read, no lost write."""

from __future__ import annotations

import errno
import json
import os
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from devmem import MemoryItem
from devmem.errors import CollectionUnwritableError
from devmem.storage import JsonCollection
from devmem.testing import HashEmbedder
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


def test_what_could_not_be_written_is_not_shown(
    tmp_path: Path, embedder: HashEmbedder, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with closing(JsonCollection(tmp_path / "notes.json", model=embedder.identity)) as collection:
        collection.add([MemoryItem(id="before", content_summary="tea", embedding=embedder.vector("tea"))])
        writes: list[Callable[[], object]] = [
            lambda: collection.add([MemoryItem(id="lost", content_summary="rain")]),
            lambda: collection.delete(ids=["before"]),
            lambda: collection.replace_model("another", 32),
        ]
        with monkeypatch.context() as patched:
            patched.setattr(os, "fsync", full)
            for write in writes:
                with pytest.raises(CollectionUnwritableError, match="No space"):
                    write()
        assert [item.id for item in collection.scan()] == ["before"]
        assert collection.waiting(5) == []
        JsonCollection(tmp_path / "notes.json", model=embedder.identity).add([MemoryItem(content_summary="rain")])
        assert collection.replace_model("another", 32) == 2
