"""Stores are saved and closed at the end, whatever happens, and what threads share of them stays right."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress
from pathlib import Path

import pytest

from devmem import MemoryBase, MemoryItem, Workflow, load_workflow, open_stores
from devmem.errors import CollectionClosedError, DevmemError
from devmem.models.embedder import EmbeddingRefusal
from devmem.plugins import StoreRegistry, StoreType
from devmem.storage import Collection, SqliteCollection
from devmem.stores import ConfigModel, PassageEmbeddings, StoreSetup
from devmem.stores.embedding_queue import EmbeddingQueue
from devmem.testing import FailingEmbedder, HashEmbedder, ManualClock
from devmem_stores.simple import SimpleConfig, SimpleMemory
from tests.workflow.doubles import ScriptedStore

from .doubles import said


class Stores:
    """A registry whose one type gives doubles, by name."""

    def __init__(self, folder: Path, *names: str) -> None:
        self.doubles = {name: ScriptedStore(name) for name in names}
        self.types = StoreRegistry(discover=list)
        described = StoreType(name="scripted", config_model=ConfigModel, factory=self._make)
        self.types.register(described, "these tests")
        file = folder / "workflow.yaml"
        file.write_text("memory:\n" + "".join(f"  - {{name: {name}, type: scripted}}\n" for name in names))
        self.workflow: Workflow = load_workflow(file, types=self.types)

    def _make(self, setup: StoreSetup) -> MemoryBase:
        return self.doubles[setup.name]

    def counts(self) -> list[tuple[int, int]]:
        return [(store.saved, store.closed) for store in self.doubles.values()]


@pytest.fixture
def two(tmp_path: Path) -> Stores:
    return Stores(tmp_path, "one", "two")


def test_all_are_saved_and_closed(two: Stores) -> None:
    with open_stores(two.workflow, types=two.types) as stores:
        assert list(stores) == ["one", "two"]
        assert two.counts() == [(0, 0), (0, 0)]
    assert two.counts() == [(1, 1), (1, 1)]


def test_only_the_named_ones_are_opened_and_each_once(two: Stores) -> None:
    with open_stores(two.workflow, ["two", "two"], types=two.types) as stores:
        assert list(stores) == ["two"]
    assert two.counts() == [(0, 0), (1, 1)]


def test_a_store_that_is_not_declared_is_a_key_error(two: Stores) -> None:
    with pytest.raises(KeyError, match="three"), open_stores(two.workflow, ["one", "three"], types=two.types):
        pass
    assert two.counts()[0][1] == 1


@pytest.mark.parametrize("error", [ValueError("mine"), KeyboardInterrupt()])
def test_they_are_saved_and_closed_after_an_error_too(two: Stores, error: BaseException) -> None:
    with pytest.raises(type(error)), open_stores(two.workflow, types=two.types):
        raise error
    assert two.counts() == [(1, 1), (1, 1)]


def test_a_store_that_cannot_be_saved_keeps_no_other_from_it_and_is_raised(two: Stores) -> None:
    two.doubles["two"].failing["save"] = DevmemError("disk full")
    with pytest.raises(DevmemError, match="disk full"), open_stores(two.workflow, types=two.types):
        pass
    assert two.counts() == [(1, 1), (0, 1)]


def test_a_store_that_cannot_be_saved_does_not_hide_the_error_before_it(
    two: Stores, caplog: pytest.LogCaptureFixture
) -> None:
    two.doubles["two"].failing["save"] = DevmemError("disk full")
    with pytest.raises(ValueError, match="mine"), open_stores(two.workflow, types=two.types):
        raise ValueError("mine")
    assert "'two'" in caplog.text
    assert "disk full" in caplog.text
    assert two.counts() == [(1, 1), (0, 1)]


def test_a_store_that_cannot_be_loaded_is_closed_and_not_saved(two: Stores) -> None:
    two.doubles["two"].failing["load"] = DevmemError("damaged")
    with pytest.raises(DevmemError, match="damaged"), open_stores(two.workflow, types=two.types):
        pytest.fail("a store that is damaged was opened")
    assert two.counts() == [(1, 1), (0, 1)]


@pytest.mark.parametrize(("one", "other"), [("a\u2010b", "a 10b"), ("a/b", "a%2fb"), ("a\u00a7", "a \u00a7")])
def test_no_two_stores_share_an_auto_file(one: str, other: str) -> None:
    places = [
        StoreSetup(name=name, store_type="notes", config=ConfigModel(), session_dir=Path("s")).location("auto")
        for name in (one, other)
    ]
    assert len(set(places)) == 2


THREADS = 8


def test_threads_that_use_a_store_first_open_one_collection() -> None:
    for turn in range(20):
        store = SimpleMemory(StoreSetup(name="notes", store_type="simple", config=SimpleConfig()))
        ready = threading.Barrier(THREADS)

        def write(number: int, store: SimpleMemory = store, ready: threading.Barrier = ready) -> None:
            ready.wait()
            store.update(said(f"This is what thread {number} has to say.", "Noted."))

        with ThreadPoolExecutor(THREADS) as pool:
            for done in [pool.submit(write, number) for number in range(THREADS)]:
                done.result()
        assert store.count() == THREADS, f"in turn {turn}"
        store.close()


class ClosedWhileOpening(SimpleMemory):
    """Is closed by another thread while the first use opens the collection."""

    def open_collection(self, *, claim: bool = True) -> Collection:
        self.opened = super().open_collection(claim=claim)
        begun = threading.Event()

        def close() -> None:
            begun.set()
            self.close()

        self.closer = threading.Thread(target=close)
        self.closer.start()
        begun.wait()
        # It ends only when it does not wait for what is being opened.
        self.closer.join(timeout=0.1)
        return self.opened


def test_closing_while_another_thread_opens_closes_what_is_opened() -> None:
    store = ClosedWhileOpening(StoreSetup(name="notes", store_type="simple", config=SimpleConfig()))
    # Loading goes on after opening, and may find that the store was closed meanwhile.
    with suppress(CollectionClosedError):
        store.load()
    store.closer.join()
    with pytest.raises(CollectionClosedError):
        store.add([MemoryItem(content_summary="Ann drinks oolong.")])
    with pytest.raises(CollectionClosedError):
        store.opened.count()


def test_a_closed_store_is_not_opened_by_reindexing() -> None:
    config = SimpleConfig.model_validate({"embedding": {}})
    store = SimpleMemory(
        StoreSetup(name="notes", store_type="simple", config=config, open_embedder=lambda _: HashEmbedder())
    )
    store.close()
    with pytest.raises(CollectionClosedError):
        store.reindex()


class WatchedCollection(SqliteCollection):
    """Lets a test act right before the collection says what waits, and fail where it takes embeddings."""

    before_waiting: Callable[[], None] = staticmethod(lambda: None)
    refused: Exception | None = None

    def waiting(self, limit: int) -> list[MemoryItem]:
        found = super().waiting(limit)
        self.before_waiting()
        return found

    def set_embeddings(self, embeddings: Mapping[str, PassageEmbeddings | EmbeddingRefusal]) -> int:
        if self.refused is not None:
            raise self.refused
        return super().set_embeddings(embeddings)


def test_a_write_that_fails_while_another_thread_catches_up_is_embedded_later() -> None:
    embedder, clock = FailingEmbedder(), ManualClock()
    queue, item = EmbeddingQueue("notes", embedder, clock), MemoryItem(content_summary="Ann drinks oolong.")
    with closing(WatchedCollection(model=embedder.identity)) as collection:

        def fail_meanwhile() -> None:
            collection.before_waiting = lambda: None
            collection.add(queue.embed([item]))

        collection.before_waiting = fail_meanwhile
        assert queue.catch_up_some(collection, 1) == 0
        embedder.recover()
        clock.advance(600)
        assert queue.catch_up(collection) == 1
        assert collection.info().waiting == 0


def test_items_still_wait_when_their_embeddings_could_not_be_stored() -> None:
    embedder, clock = FailingEmbedder(), ManualClock()
    queue = EmbeddingQueue("notes", embedder, clock)
    with closing(WatchedCollection(model=embedder.identity)) as collection:
        item = MemoryItem(content_summary="Ann drinks oolong.")
        collection.add(queue.embed([item]))
        embedder.recover()
        clock.advance(600)
        collection.refused = OSError("disk full")
        with pytest.raises(OSError, match="disk full"):
            queue.catch_up(collection)
        collection.refused = None
        assert queue.catch_up(collection) == 1
