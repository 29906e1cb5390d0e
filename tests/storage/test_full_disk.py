"""A full disk costs the write that did not fit, says so, and nothing else."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import pytest

import devmem
from devmem import MemoryContentSnapshot, MemoryItem
from devmem.errors import CollectionUnwritableError
from devmem.messages import AttachmentRef, MessageBlock
from devmem.storage import Collection, JsonCollection, SearchQuery, SqliteCollection
from devmem.stores import SnapshotBlock
from devmem.testing import HashEmbedder

Notes = Callable[..., list[MemoryItem]]
FULL = 2 * 1024 * 1024


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of two megabytes."""
    folder = tmp_path / "small"
    folder.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", f"size={FULL}", "tmpfs", str(folder)]
    if os.geteuid() != 0 or subprocess.run(command, capture_output=True).returncode != 0:
        pytest.skip("a small file system can only be mounted by root")
    yield folder
    subprocess.run(["umount", "--lazy", str(folder)], check=True)


def fill_up(collection: Collection, notes: Notes) -> tuple[list[str], CollectionUnwritableError]:
    """Add items until the disk is full; gives the ids of those that were acknowledged."""
    stored: list[str] = []
    # Each write of a JSON file writes all of it.
    size = 400 if isinstance(collection, JsonCollection) else 50
    for start in range(0, 100_000, size):
        batch = notes(start, start + size)
        try:
            collection.add(batch)
        except CollectionUnwritableError as error:
            return stored, error
        stored += [item.id for item in batch]
    raise AssertionError("the disk is not full yet")


@pytest.mark.parametrize("kind", [SqliteCollection, JsonCollection])
def test_a_full_disk(small_disk: Path, notes: Notes, embedder: HashEmbedder, kind: Any) -> None:
    """The error names the file; everything acknowledged is there; a deletion works or says why; later it goes on."""
    path = small_disk / ("store.json" if kind is JsonCollection else "store.db")
    ballast = small_disk / "ballast"
    ballast.write_bytes(bytes(FULL // 4))
    collection = kind(path, model=embedder.identity)
    stored, error = fill_up(collection, notes)
    assert str(path) in str(error)
    assert error.location == str(path)
    assert stored
    assert [item.id for item in collection.scan()] == stored
    hits = collection.search(SearchQuery(text="note", limit=99_999))
    assert sorted(hit.item.id for hit in hits) == sorted(stored)
    with pytest.raises(CollectionUnwritableError):
        collection.add(notes(0, 2000, about="too much"))
    said: list[str] = []
    for name in stored[: 4 if kind is JsonCollection else 20]:
        try:
            assert collection.delete(ids=[name]) == 1
            stored.remove(name)
        except CollectionUnwritableError as refused:
            said.append(str(refused))
    assert all(str(path) in each and ("full" in each or "No space" in each) for each in said)
    assert [item.id for item in collection.scan()] == stored
    ballast.unlink()
    collection.add(notes(0, 1, about="again"))
    collection.close()
    again = kind(path, model=embedder.identity)
    assert [item.id for item in again.scan()] == [*stored, "again 0"]
    again.close()
    assert not list(small_disk.glob("*.part"))


def test_a_deletion_without_any_room_names_the_way_out(small_disk: Path, notes: Notes, embedder: HashEmbedder) -> None:
    path, ballast = small_disk / "store.db", small_disk / "ballast"
    with closing(SqliteCollection(path, model=embedder.identity)) as collection:
        collection.add(notes(0, 200))
        before = collection.count()
        _fill_the_rest(small_disk, ballast)
        with pytest.raises(CollectionUnwritableError, match=r"nothing was deleted.*free a few megabytes"):
            collection.delete(ids=["note 1"])
        assert collection.count() == before
        ballast.unlink()
        assert collection.delete(ids=["note 1"]) == 1


def _fill_the_rest(disk: Path, ballast: Path) -> None:
    """Leave not one free page."""
    free = os.statvfs(disk)
    ballast.write_bytes(bytes(free.f_bavail * free.f_frsize))


@pytest.mark.parametrize("room", range(0, 8192, 4096))
def test_a_log_that_could_not_be_moved_into_the_file(
    small_disk: Path, notes: Notes, embedder: HashEmbedder, room: int
) -> None:
    """Closing on a full disk may leave a part of a page in the file; with room again the log has the rest."""
    path, ballast = small_disk / "store.db", small_disk / "ballast"
    collection = SqliteCollection(path, model=embedder.identity)
    collection.add(notes(0, 200))
    free = os.statvfs(small_disk)
    ballast.write_bytes(bytes(free.f_bavail * free.f_frsize - 4096 - room))
    with suppress(CollectionUnwritableError):
        collection.close()
    ballast.unlink()
    with closing(SqliteCollection(path, model=embedder.identity)) as again:
        assert again.count() == 200


def test_an_attachment_that_does_not_fit(small_disk: Path) -> None:
    """Neither the item nor half of its attachment stays behind."""
    uri = "data:image/png;base64," + "AAAA" * FULL
    block = SnapshotBlock(block=MessageBlock(type="image", attachment=AttachmentRef(attachment_id="x", data_uri=uri)))
    collection = SqliteCollection(small_disk / "store.db")
    collection.add([MemoryItem(id="before", content_summary="before")])
    with pytest.raises(CollectionUnwritableError, match="disk is full"):
        collection.add(
            [MemoryItem(id="huge", content_summary="huge", output_snapshot=MemoryContentSnapshot(blocks=(block,)))]
        )
    collection.add([MemoryItem(id="after", content_summary="after")])
    assert [item.id for item in collection.scan()] == ["before", "after"]
    collection.close()
    assert not list(small_disk.rglob("*.part"))


_LIMITED = """
import resource, signal, sys
from devmem import MemoryItem
from devmem.errors import CollectionUnwritableError
from devmem.storage import JsonCollection, SqliteCollection
from devmem.testing import HashEmbedder
# Without this the process is killed instead of told.
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
path, embedder = sys.argv[1], HashEmbedder(dimension=32)
collection = (JsonCollection if path.endswith(".json") else SqliteCollection)(path, model=embedder.identity)
resource.setrlimit(resource.RLIMIT_FSIZE, (300_000, resource.RLIM_INFINITY))
try:
    for at in range(0, 100_000, 40):
        texts = [f"note {n}" for n in range(at, at + 40)]
        collection.add([MemoryItem(id=text, content_summary=text, embedding=embedder.vector(text)) for text in texts])
        print(*texts, sep="\\n")
except CollectionUnwritableError:
    resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    collection.add([MemoryItem(id="last", content_summary="fits again")])
    print("last", "refused, then fine", sep="\\n")
collection.close()
"""


@pytest.mark.parametrize("name", ["store.db", "store.json"])
def test_a_file_that_may_not_grow(
    tmp_path: Path, start_script: Callable[..., Any], name: str, embedder: HashEmbedder
) -> None:
    """The same with the process's own limit of file sizes, which needs no root."""
    process = start_script(_LIMITED, tmp_path / name)
    lines = process.stdout.read().splitlines()
    assert process.wait(timeout=60) == 0
    assert lines[-1] == "refused, then fine"
    kind = JsonCollection if name.endswith(".json") else SqliteCollection
    collection = kind(tmp_path / name, model=embedder.identity)
    assert [item.id for item in collection.scan()] == lines[:-1]
    collection.close()


def test_forgetting_on_a_full_disk_works_or_leaves_everything(small_disk: Path, notes: Notes) -> None:
    """An erasure that was refused is not done later, unless the error says so, and the store opens all the same."""
    path, ballast, reserve = small_disk / "store.db", small_disk / "ballast", small_disk / "reserve"
    reserve.write_bytes(bytes(FULL // 4))
    # The first opening as a memory records that it is one, for which there may be no room later.
    devmem.open(path, embedding=None).close()
    with closing(SqliteCollection(path)) as collection:
        stored, _ = fill_up(collection, notes)
    refused, decided = [], set()
    with devmem.open(path, embedding=None) as memory:
        _fill_the_rest(small_disk, ballast)
        for name in stored[:10]:
            try:
                assert memory.forget(name).items == 1
            except CollectionUnwritableError as error:
                refused.append(name)
                decided |= {name} if "stays decided" in str(error) else set()
        assert {record.id for record in memory} == {*stored[10:], *refused}
    with devmem.open(path, embedding=None) as memory:
        assert {record.id for record in memory} == {*stored[10:], *refused}
        assert memory.search("note", limit=3)
    reserve.unlink()
    with devmem.open(path, embedding=None) as memory:
        assert {record.id for record in memory} == {*stored[10:], *refused} - decided
        assert memory.forget(stored[-1]).items == 1
