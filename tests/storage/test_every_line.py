"""An exception at any line of a write, a search, an open or a close leaves a store that works.

A line tracer raises at each line of devmem that an operation passes, one line a try; the product has no hooks for it.
`make test` tries every fifth line of the longer operations, `make test-kits` all of them.
"""

from __future__ import annotations

import sqlite3
import sys
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass, field
from dis import opmap
from pathlib import Path
from threading import Thread
from types import FrameType
from typing import Any

import pytest
from filelock import FileLock

import devmem
from devmem import MemoryContentSnapshot, MemoryItem
from devmem.messages import AttachmentRef, MessageBlock
from devmem.storage import JsonCollection, SearchQuery, SqliteCollection
from devmem.stores import SnapshotBlock
from devmem.testing import HashEmbedder

SOURCES = str(Path(devmem.__file__).parent)
EMBEDDER = HashEmbedder()
PICTURE = "data:image/png;base64," + "AAAA" * 20_000
Line = tuple[str, int]
STEPS = pytest.mark.parametrize("step", [5, pytest.param(1, marks=pytest.mark.kit)])
"""How many lines each interrupted one stands for."""


def traced(operation: Callable[[], object], at_line: Callable[[Line], None]) -> None:
    """Run an operation and call `at_line` before each line of devmem."""

    def trace(frame: FrameType, event: str, _: object) -> Any:
        if not frame.f_code.co_filename.startswith(SOURCES):
            return None
        # A line that is only `try:` does nothing, so that no signal arrives there; CPython protects it by no handler.
        if event == "line" and frame.f_code.co_code[frame.f_lasti] != opmap["NOP"]:
            at_line((frame.f_code.co_filename, frame.f_lineno))
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        operation()
    finally:
        sys.settrace(before)


def interrupted_everywhere(
    operation: Callable[[], object], after: Callable[[bool], object], raised: type[BaseException], *, step: int = 1
) -> int:
    """Repeat an operation until it was interrupted at each of its lines, or at every `step`th; return their number.

    `after` is called each time, with whether the operation returned.
    """
    tried: set[Line] = set()
    while True:
        hit = False

        def interrupt(line: Line) -> None:
            nonlocal hit
            if not hit and line not in tried:
                tried.add(line)
                hit = len(tried) % step == 0
                if hit:
                    raise raised

        try:
            traced(operation, interrupt)
        except raised:
            after(False)
            continue
        if not hit:
            return len(tried)
        # It was caught, where a failure of this kind costs less than the operation.
        after(True)


@dataclass(slots=True)
class Place:
    """A file, what was acknowledged as stored in it, and the collection that is interrupted."""

    path: Path
    collection: SqliteCollection
    acknowledged: set[str] = field(default_factory=set)
    written: int = 0

    def items(self) -> list[MemoryItem]:
        """Return two new items, one with an attachment."""
        self.written += 1
        ref = AttachmentRef(attachment_id="a", mime_type="image/png", data_uri=PICTURE)
        snapshot = MemoryContentSnapshot(blocks=(SnapshotBlock(block=MessageBlock(type="image", attachment=ref)),))
        texts = [f"note {self.written} about tea", f"note {self.written} about bread"]
        items = [MemoryItem(id=text, content_summary=text, embedding=EMBEDDER.vector(text)) for text in texts]
        return [
            items[0],
            MemoryItem(id=items[1].id, content_summary=items[1].content_summary, output_snapshot=snapshot),
        ]

    def check(self) -> None:
        """Check from another thread and another connection that nothing is locked, lost or half written."""
        failed: list[BaseException] = []

        def work() -> None:
            try:
                with closing(sqlite3.connect(self.path, timeout=0, isolation_level=None)) as other:
                    other.execute("BEGIN IMMEDIATE")
                    other.execute("ROLLBACK")
                with closing(opened(self.path)) as reader:
                    ids = {item.id for item in reader.scan()}
                assert ids >= self.acknowledged
                assert len(ids) % 2 == 0, "both items of a batch, or none"
                items = self.items()
                self.collection.add(items)
                self.acknowledged |= {item.id for item in items}
                query = SearchQuery(vector=items[0].embedding, text=items[0].content_summary, limit=1)
                assert [hit.item.id for hit in self.collection.search(query)] == [items[0].id]
                assert self.collection.count() == len(ids) + 2
                if len(ids) > 30:
                    self.acknowledged.clear()
                    self.collection.clear()
            except BaseException as error:  # noqa: BLE001 - raised again in the test's thread
                failed.append(error)

        thread = Thread(target=work, daemon=True)
        thread.start()
        thread.join(timeout=20)
        assert not thread.is_alive(), "it waits for a lock that nobody will release"
        if failed:
            raise failed[0]


def opened(path: Path) -> SqliteCollection:
    return SqliteCollection(path, model=EMBEDDER.identity, busy_timeout=5.0, durability="normal")


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    path = tmp_path / "store.db"
    made = Place(path=path, collection=opened(path))
    made.check()
    yield made
    made.collection.close()


@STEPS
@pytest.mark.parametrize("raised", [KeyboardInterrupt, MemoryError])
def test_a_write(place: Place, raised: type[BaseException], step: int) -> None:
    def write() -> None:
        items = place.items()
        place.collection.add(items)
        place.acknowledged |= {item.id for item in items}

    assert interrupted_everywhere(write, lambda _: place.check(), raised, step=step) > 150


@STEPS
def test_a_search(place: Place, step: int) -> None:
    other = opened(place.path)

    def search() -> None:
        place.collection.search(SearchQuery(text="note about tea", vector=EMBEDDER.vector("note about tea"), limit=3))

    def check(_: bool) -> None:
        place.check()
        items = place.items()
        other.add(items)
        place.acknowledged |= {item.id for item in items}

    assert interrupted_everywhere(search, check, KeyboardInterrupt, step=step) > 300
    other.close()


def test_a_deletion(place: Place) -> None:
    def delete() -> None:
        place.collection.delete(ids=sorted(place.acknowledged)[:2])

    def check(_: bool) -> None:
        place.acknowledged &= {item.id for item in place.collection.scan()}
        place.check()

    assert interrupted_everywhere(delete, check, KeyboardInterrupt) > 50


def test_an_open_and_a_close(place: Place) -> None:
    def open_again() -> None:
        place.collection = opened(place.path)

    def check(_: bool) -> None:
        place.check()

    assert interrupted_everywhere(open_again, check, KeyboardInterrupt) > 50

    def close() -> None:
        place.collection.close()

    def reopen(_: bool) -> None:
        place.collection.close()
        place.collection = opened(place.path)
        place.check()

    assert interrupted_everywhere(close, reopen, KeyboardInterrupt) > 20


# Between `open` and its `with`, nobody but the garbage collector can close a file.
@STEPS
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_a_write_of_a_json_file(tmp_path: Path, step: int) -> None:
    path = tmp_path / "store.json"
    collection, item = JsonCollection(path), MemoryItem(id="1", content_summary="tea")

    def check(acknowledged: bool) -> None:
        with FileLock(f"{path}.lock", timeout=0):
            there = [each.id for each in JsonCollection(path).scan()]
        assert there == ["1"] or not acknowledged
        assert [each.id for each in collection.scan()] == there
        collection.clear()

    assert interrupted_everywhere(lambda: collection.add([item]), check, KeyboardInterrupt, step=step) > 100
    JsonCollection(path)
    assert not list(tmp_path.glob("*.part")), "partial files are removed by the next opening"
