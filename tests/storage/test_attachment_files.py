"""Large attachments live in files beside the database: none is lost, and none outlives its last item."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest

from devmem import MemoryContentSnapshot, MemoryItem
from devmem.errors import CollectionBusyError
from devmem.messages import AttachmentRef, MessageBlock
from devmem.storage import PreparedItem, SqliteCollection
from devmem.stores import PassageEmbeddings, SnapshotBlock
from devmem.testing import ManualClock

SMALL_SIZE, LARGE_SIZE = 100, 300_000
LARGE = "data:image/png;base64," + "AAAA" * (LARGE_SIZE // 3)


def pictured(name: str, uri: str = LARGE, expires_at: float | None = None) -> MemoryItem:
    ref = AttachmentRef(attachment_id=name, mime_type="image/png", data_uri=uri)
    block = SnapshotBlock(block=MessageBlock(type="image", attachment=ref))
    snapshot = MemoryContentSnapshot(text=name, blocks=(block,))
    return MemoryItem(id=name, content_summary=name, output_snapshot=snapshot, expires_at=expires_at)


def attachment(item: MemoryItem) -> AttachmentRef:
    assert item.output_snapshot is not None
    found = item.output_snapshot.blocks[0].block.attachment
    assert found is not None
    return found


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "store.db"


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def collection(path: Path, clock: ManualClock) -> Iterator[SqliteCollection]:
    opened = SqliteCollection(path, clock=clock, busy_timeout=0.05, history_days=0)
    yield opened
    opened.close()


def files(path: Path) -> list[Path]:
    folder = Path(f"{path}.files")
    return sorted(folder.iterdir()) if folder.exists() else []


def test_the_row_refers_to_the_file(collection: SqliteCollection, path: Path) -> None:
    """Named by its content, with its size and hash; equal content is one file."""
    collection.add([pictured("one"), pictured("two")])
    (file,) = files(path)
    for item in collection.scan():
        ref = attachment(item)
        assert ref.data_uri is None
        assert (ref.local_path, ref.sha256, ref.size) == (str(file), file.name, LARGE_SIZE)
    assert path.stat().st_size < LARGE_SIZE
    assert collection.info().size_bytes > LARGE_SIZE


def test_a_file_goes_with_its_last_item(collection: SqliteCollection, path: Path) -> None:
    collection.add([pictured("one"), pictured("two"), pictured("other", LARGE + "BBBB")])
    assert len(files(path)) == 2
    collection.delete(ids=["one"])
    assert len(files(path)) == 2
    collection.add([MemoryItem(id="two", content_summary="replaced by words")])
    assert len(files(path)) == 1
    assert Path(attachment(collection.get(["other"])[0]).local_path or "").exists()
    collection.clear()
    assert files(path) == []


@pytest.mark.parametrize("way", ["expire", "trim", "clear", "delete"])
def test_no_way_of_forgetting_leaves_the_file(
    collection: SqliteCollection, path: Path, clock: ManualClock, way: str
) -> None:
    """Deleted items are deleted with their pictures."""
    collection.add([pictured("one", expires_at=clock.now + 10)])
    match way:
        case "expire":
            clock.advance(11)
            collection.add([MemoryItem(content_summary="a write purges")])
        case "trim":
            collection.trim(keep=0)
        case "clear":
            collection.clear()
        case _:
            collection.delete(ids=["one"])
    assert files(path) == []


def test_a_deletion_that_fails_deletes_no_file(collection: SqliteCollection, path: Path) -> None:
    """The item is still there, so its picture has to be."""
    collection.add([pictured("one")])
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    with pytest.raises(CollectionBusyError):
        collection.delete(ids=["one"])
    other.execute("ROLLBACK")
    other.close()
    (file,) = files(path)
    assert attachment(collection.get(["one"])[0]).local_path == str(file)


def test_a_batch_that_fails_deletes_no_file(collection: SqliteCollection, path: Path) -> None:
    """An item that was superseded in it is back, with its picture."""
    collection.add([pictured("one")])
    broken = MemoryItem(id="broken", content_summary="one passage")
    three = PassageEmbeddings(vectors=np.eye(3, dtype=np.float32))
    replaced = MemoryItem(id="one", content_summary="replaced")
    with pytest.raises(ValueError, match="3 embeddings"):
        collection.add([replaced, PreparedItem(item=broken, passages=("one passage",), embeddings=three)])
    (file,) = files(path)
    assert attachment(collection.get(["one"])[0]).local_path == str(file)
    collection.add([MemoryItem(content_summary="unrelated")])
    assert files(path) == [file]


def test_a_store_that_was_renamed(collection: SqliteCollection, path: Path) -> None:
    """The file and the folder beside it move together."""
    collection.add([pictured("one")])
    collection.close()
    moved = path.with_name('a "new" name.db')
    path.rename(moved)
    Path(f"{path}.files").rename(f"{moved}.files")
    again = SqliteCollection(moved, history_days=0)
    ref = attachment(again.get(["one"])[0])
    assert Path(ref.local_path or "").read_bytes() == bytes(LARGE_SIZE)
    again.clear()
    again.close()
    assert files(moved) == []


def test_a_file_stays_as_long_as_a_version_names_it(path: Path, clock: ManualClock) -> None:
    """An earlier state has its attachments; the last version takes the file with it."""
    with closing(SqliteCollection(path, clock=clock)) as collection:
        collection.add([pictured("one")])
        then = clock()
        clock.advance(60)
        collection.add([MemoryItem(id="one", content_summary="without a picture")])
        with closing(collection.as_of(then)) as earlier:
            (old,) = earlier.scan()
        assert Path(attachment(old).local_path or "").read_bytes() == bytes(LARGE_SIZE)
        assert attachment(collection.history("one")[0].item).local_path == attachment(old).local_path
        clock.advance(40 * 86_400)
        collection.add([MemoryItem(content_summary="another")])
        assert files(path) == []


def test_erasing_takes_the_file(collection: SqliteCollection, path: Path) -> None:
    with closing(SqliteCollection(path)) as kept:
        kept.add([pictured("one")])
        kept.clear()
        assert len(files(path)) == 1
        kept.erase(ids=["one"])
        assert files(path) == []
