"""Writers wait for one another before they read, searches do not, and each sees one moment."""

from __future__ import annotations

import sqlite3
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import pytest

from devmem import MemoryItem, Scope, WriteStatus
from devmem.errors import CollectionBusyError, CollectionClosedError
from devmem.storage import Collection, Filter, SearchQuery, SqliteCollection, open_collection
from devmem.testing import HashEmbedder


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


WAIT = 60.0
"""Seconds after which a thread that should have come counts as blocked."""
BATCH = 7
TOPICS = ("rain", "trains", "oolong", "tax")


@pytest.fixture(params=["file", "memory"])
def collection(request: pytest.FixtureRequest, tmp_path: Path, embedder: HashEmbedder) -> Iterator[SqliteCollection]:
    location = tmp_path / "store.db" if request.param == "file" else ":memory:"
    collection = SqliteCollection(location, model=embedder.identity, durability="normal")
    yield collection
    collection.close()


def batch(number: int, embedder: HashEmbedder) -> list[MemoryItem]:
    """Return items that are stored and deleted together."""
    texts = [f"note {TOPICS[at % len(TOPICS)]} {number} {at} of batch{number}" for at in range(BATCH)]
    return [
        MemoryItem(
            id=f"{number}.{at}",
            content_summary=text,
            embedding=embedder.vector(text),
            scope=Scope(user=f"user {number % 2}", conversation=f"c{number % 3}"),
            trust=1.0 if at % 2 else 0.5,
        )
        for at, text in enumerate(texts)
    ]


def together(work: list[Callable[[], object]]) -> list[object]:
    """Run each in a thread of its own, all begun at the same time."""
    begin = threading.Barrier(len(work), timeout=WAIT)

    def begun(one: Callable[[], object]) -> object:
        begin.wait()
        return one()

    with ThreadPoolExecutor(len(work)) as threads:
        return [future.result() for future in [threads.submit(begun, one) for one in work]]


@pytest.mark.parametrize("name", [":memory:", "store.db", "store.json"])
def test_searches_do_not_wait_for_one_another(tmp_path: Path, name: str) -> None:
    """Each is in the middle of its work when all the others are."""
    meeting: list[threading.Barrier] = []

    def clock() -> float:
        if meeting:
            meeting[0].wait()
        return 0.0

    collection: Collection = open_collection(None if name == ":memory:" else str(tmp_path / name), clock=clock)
    collection.add([MemoryItem(content_summary="rain")])
    meeting.append(threading.Barrier(6, timeout=WAIT))
    hits = together([lambda: len(collection.search(SearchQuery(text="rain")))] * 6)
    meeting.clear()
    assert hits == [1] * 6
    collection.close()


def test_beside_a_writer_each_sees_one_moment(collection: SqliteCollection, embedder: HashEmbedder) -> None:
    """Of what is stored and deleted together, all is found or nothing, and at the end what a new opening finds."""
    writing = threading.Event()
    writing.set()

    def write() -> None:
        try:
            for number in range(60):
                collection.add(batch(number, embedder))
                if number % 3 == 2:
                    collection.delete(ids=[item.id for item in batch(number - 1, embedder)])
        finally:
            writing.clear()

    def search() -> int:
        done = 0
        while writing.is_set() or not done:
            hits = collection.search(SearchQuery(text="note", vector=embedder.vector("note"), limit=1000))
            counts = Counter(hit.item.id.split(".")[0] for hit in hits)
            assert set(counts.values()) <= {BATCH}
            scoped = collection.search(SearchQuery(text="note", limit=1000, where=Filter(scope=Scope(user="user 1"))))
            counts = Counter(hit.item.id.split(".")[0] for hit in scoped)
            assert set(counts.values()) <= {BATCH}
            assert all(int(number) % 2 for number in counts)
            done += 1
        return done

    assert all(together([write, search, search, search])[1:])
    if collection.location != ":memory:":
        with closing(SqliteCollection(collection.location, model=embedder.identity)) as fresh:
            for text in ("note", *TOPICS):
                query = SearchQuery(text=text, limit=1000, where=Filter(min_trust=0.9))
                here, there = (sorted(hit.item.id for hit in each.search(query)) for each in (collection, fresh))
                assert here == there
    assert collection.count() == 40 * BATCH


def test_closing_beside_searches(collection: SqliteCollection, embedder: HashEmbedder) -> None:
    """A search that is running ends as ever; a later one is refused with the collection's own error."""
    collection.add(batch(1, embedder))
    begun = threading.Semaphore(0)

    def search() -> bool:
        try:
            while True:
                assert len(collection.search(SearchQuery(text="note"))) == BATCH
                begun.release()
        except CollectionClosedError:
            return True

    def close() -> None:
        assert begun.acquire(timeout=WAIT)
        collection.close()

    assert together([close, search, search, search])[1:] == [True] * 3
