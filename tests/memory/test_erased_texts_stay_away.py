"""A text that was erased comes back by no run, no revert, no archive, and with no consolidation."""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from pathlib import Path

import pytest

import devmem
from devmem import Memory
from devmem.errors import RunStateError

CODE = "Ann's door code is 4711-Zeta."


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "notes.db"


@pytest.fixture
def memory(path: Path) -> Iterator[Memory]:
    with devmem.open(path, embedding=None) as opened:
        yield opened


def erase_twin(memory: Memory) -> None:
    """Erase another item that says the same, with a tombstone."""
    memory.add(f"Well. {CODE}", user="ann", id="twin")
    memory.forget("twin", tombstone=True, verify=True)


def texts(memory: Memory) -> list[str]:
    return [record.text for record in memory.list(50, user=devmem.ANY)]


def test_a_commit_leaves_it_out(memory: Memory) -> None:
    """The other changes of the run are made."""
    run = memory.run("r")
    run.memory.add(CODE, id="code", user="ann")
    run.memory.add("Tea is at three.", id="tea", user="ann")
    erase_twin(memory)
    run.commit()
    assert texts(memory) == ["Tea is at three."]


@pytest.mark.parametrize("change", ["update", "delete"])
def test_a_revert_leaves_it_out(memory: Memory, change: str) -> None:
    memory.add(CODE, id="code", user="ann")
    with memory.run("r") as run:
        if change == "update":
            run.update("code", "Ann's door code was changed.")
        else:
            run.store.delete(ids=["code"])
    erase_twin(memory)
    memory.revert("r")
    assert texts(memory) == []


def test_what_was_merged_goes_with_what_it_was_merged_into(memory: Memory, path: Path) -> None:
    """It is in no history, in no byte of the file, and the merging cannot be undone."""
    memory.add(CODE, id="a", user="ann")
    memory.add(f"Hi, {CODE}", id="b", user="ann")
    done = memory.consolidate(user="ann")
    (merge,) = done.merges
    assert memory.forget(merge.kept.id).items == 1
    assert [memory.history(each) for each in ("a", "b")] == [[], []]
    with pytest.raises(RunStateError):
        memory.revert(str(done.run))
    memory.close()
    assert b"4711-Zeta" not in path.read_bytes()


def test_an_item_under_the_id_of_a_merged_one_stays(memory: Memory) -> None:
    memory.add(CODE, id="a", user="ann")
    memory.add(f"Hi, {CODE}", id="b", user="ann")
    (merge,) = memory.consolidate(user="ann").merges
    (merged,) = {"a", "b"} - {merge.kept.id}
    memory.add("Bob likes tea.", id=merged, user="bob")
    memory.forget(merge.kept.id)
    assert texts(memory) == ["Bob likes tea."]


def test_the_indexes_beside_the_file_forget_it_too(path: Path) -> None:
    """They hold the names of users, also while the memory is open."""

    def content(file: Path) -> bytes:
        raw = file.read_bytes()
        places = [at for at in range(len(raw)) if raw.startswith(b"\x78\x01", at)]
        return b"".join([raw, *(unpacked(raw[at:]) for at in places)])

    def unpacked(raw: bytes) -> bytes:
        try:
            return zlib.decompressobj().decompress(raw)
        except zlib.error:
            return b""

    def holders() -> list[str]:
        return [file.name for file in path.parent.iterdir() if b"quillfeather" in content(file)]

    with devmem.open(path, embedding=None) as memory:
        memory.add([f"note {number} about tea" for number in range(300)], user="quillfeather")
        memory.search("tea", user="quillfeather")
    assert len(holders()) == 2
    with devmem.open(path, embedding=None) as memory:
        memory.forget(user="quillfeather", verify=True)
        assert holders() == []
