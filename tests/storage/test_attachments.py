"""Large attachments are kept once for items with the same content; none is lost, and none outlives its last item."""

from __future__ import annotations

import base64
import hashlib
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest

from devmem import MemoryContentSnapshot, MemoryItem
from devmem.errors import CollectionBusyError
from devmem.messages import AttachmentRef, MessageBlock
from devmem.storage import EraseRequest, PreparedItem, SqliteCollection
from devmem.storage.sqlite.examination import readable_items
from devmem.storage.version_copy import copy_versions
from devmem.stores import PassageEmbeddings, SnapshotBlock
from devmem.testing import ManualClock

LARGE_SIZE = 300_000
LARGE = "data:image/png;base64," + "AAAA" * (LARGE_SIZE // 3)


def pictured(name: str, uri: str = LARGE, expires_at: float | None = None) -> MemoryItem:
    ref = AttachmentRef(attachment_id=name, mime_type="image/png", data_uri=uri)
    block = SnapshotBlock(block=MessageBlock(type="image", attachment=ref))
    snapshot = MemoryContentSnapshot(text=name, blocks=(block,))
    return MemoryItem(id=name, content_summary=name, output_snapshot=snapshot, expires_at=expires_at)


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


def kept(path: Path) -> int:
    """Return the number of contents that the file holds."""
    with closing(sqlite3.connect(path)) as connection:
        return int(connection.execute("SELECT count(*) FROM attachments").fetchone()[0])


def test_equal_content_is_kept_once(collection: SqliteCollection, path: Path) -> None:
    stored = [pictured("one"), pictured("two")]
    collection.add(stored)
    assert list(collection.scan()) == stored
    assert kept(path) == 1
    assert LARGE_SIZE < collection.info().size_bytes < 3 * LARGE_SIZE


def test_an_attachment_goes_with_its_last_item(collection: SqliteCollection, path: Path) -> None:
    other = pictured("other", LARGE + "BBBB")
    collection.add([pictured("one"), pictured("two"), other])
    collection.delete(ids=["one"])
    assert kept(path) == 2
    collection.add([MemoryItem(id="two", content_summary="replaced by words")])
    assert kept(path) == 1
    assert collection.get(["other"]) == [other]


@pytest.mark.parametrize("way", ["expire", "trim", "clear", "delete", "erase"])
def test_no_way_of_forgetting_leaves_one(
    collection: SqliteCollection, path: Path, clock: ManualClock, way: str
) -> None:
    collection.add([pictured("one", expires_at=clock.now + 10)])
    match way:
        case "expire":
            clock.advance(11)
            collection.add([MemoryItem(content_summary="a write purges")])
        case "trim":
            collection.trim(keep=0)
        case "clear":
            collection.clear()
        case "delete":
            collection.delete(ids=["one"])
        case _:
            collection.erase(ids=["one"])
    assert kept(path) == 0


def test_a_write_that_fails_loses_none(collection: SqliteCollection, path: Path) -> None:
    """Neither a deletion that another process keeps out, nor a batch whose last item is refused."""
    stored = pictured("one")
    collection.add([stored])
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(CollectionBusyError):
            collection.delete(ids=["one"])
    broken = MemoryItem(id="broken", content_summary="one passage")
    three = PassageEmbeddings(vectors=np.eye(3, dtype=np.float32))
    replaced = MemoryItem(id="one", content_summary="replaced")
    with pytest.raises(ValueError, match="3 embeddings"):
        collection.add([replaced, PreparedItem(item=broken, passages=("one passage",), embeddings=three)])
    assert collection.get(["one"]) == [stored]


def test_one_stays_as_long_as_a_version_names_it(path: Path, clock: ManualClock) -> None:
    """In an earlier state, in the archive, and after a run was reverted; the last version takes it along."""
    stored = pictured("one")
    with closing(SqliteCollection(path, clock=clock)) as collection:
        collection.add([stored])
        then = clock()
        clock.advance(60)
        with closing(collection.run("r")) as view:
            view.add([MemoryItem(id="one", content_summary="without a picture")])
        collection.commit("r")
        with closing(collection.as_of(then)) as earlier:
            assert list(earlier.scan()) == [stored]
        assert collection.history("one")[0].item == stored
        collection.revert("r")
        collection.archive(["one"])
        collection.restore(["one"])
        assert collection.get(["one"]) == [stored]
        collection.delete(ids=["one"])
        clock.advance(40 * 86_400)
        collection.add([MemoryItem(content_summary="another")])
        assert kept(path) == 0


def test_a_copy_has_those_of_earlier_versions(path: Path, tmp_path: Path) -> None:
    stored, new = pictured("one"), MemoryItem(id="one", content_summary="without a picture")
    with closing(SqliteCollection(path)) as source, closing(SqliteCollection(tmp_path / "copy.db")) as target:
        source.add([stored])
        source.add([new])
        target.add([new])
        assert copy_versions(source, target, embedded=True) == 1
        assert target.history("one")[0].item == stored


def test_the_hash_of_an_attachment_in_its_place_is_no_attachment(path: Path) -> None:
    """In each version, in a pending run, in the archive, and in a copy."""
    stored = pictured("one")
    sha256 = hashlib.sha256(base64.b64decode("AAAA" * (LARGE_SIZE // 3))).hexdigest()
    forged = pictured("two", f"data:image/png;base64,@{sha256}")
    new = MemoryItem(id="two", content_summary="changed", output_snapshot=forged.output_snapshot)
    with closing(SqliteCollection(path)) as collection, closing(SqliteCollection(path.with_name("copy.db"))) as copy:
        collection.add([stored, forged])
        with closing(collection.run("r")) as view:
            view.add([new])
            assert view.get(["one", "two"]) == [stored, new]
        collection.commit("r")
        assert [version.item for version in collection.history("two")] == [forged, new]
        assert [(pair.before, pair.after) for pair in collection.diff("r")] == [(forged, new)]
        assert collection.select_erasable(EraseRequest(ids=("two",))) == [new]
        copy.add([new])
        copy_versions(collection, copy, embedded=True)
        assert [version.item for version in copy.history("two")] == [forged, new]
        collection.archive(["two"])
        collection.restore(["two"])
        assert collection.get(["two"]) == [new]
    assert [item for item in readable_items(path, {}) if item.id == "two"] == [new]
