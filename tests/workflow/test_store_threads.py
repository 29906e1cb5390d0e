"""State that stores share between threads: a collection, and whether items wait for their embedding."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress

import pytest

from devmem import MemoryItem
from devmem.errors import CollectionClosedError
from devmem.models.embedder import EmbeddingRefusal
from devmem.storage import Collection, SqliteCollection
from devmem.stores import PassageEmbeddings, StoreSetup
from devmem.stores.embedding_queue import EmbeddingQueue
from devmem.testing import FailingEmbedder, HashEmbedder, ManualClock
from devmem_stores.simple import SimpleConfig, SimpleMemory

from .doubles import said

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
