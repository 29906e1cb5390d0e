"""Remains of items that are gone in the indexes of a database: hashes of words, and codes of vectors."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import closing
from functools import cache

import pytest

from devmem.errors import CollectionError
from devmem.model.items import MemoryItem
from devmem.models import ModelIdentity
from devmem.storage import SearchQuery
from devmem.storage.erasure import EraseRequest
from devmem.storage.postgres.collection import PostgresCollection
from devmem.storage.postgres.server import maintenance
from devmem.storage.postgres.server.maintenance import IndexCleaner, IndexMaintenance, IndexSteps
from tools.bench.synthetic import Corpus, make_corpus

pytestmark = pytest.mark.postgres

SIZE = 60
MODEL = ModelIdentity(name="cleaned", dimension=16)


@cache
def corpus() -> Corpus:
    """Return the texts and vectors, made when the first test asks."""
    return make_corpus(SIZE, dimension=16, words=4)


@pytest.fixture
def store(store_url: str) -> Iterator[PostgresCollection]:
    """A store with everything in one segment and one block."""
    with closing(_open(store_url)) as opened:
        opened.add([_item(at) for at in range(SIZE)])
        opened.maintain()
        yield opened


def _open(url: str, mode: str = "server") -> PostgresCollection:
    return PostgresCollection(f"{url}&mode={mode}", model=MODEL)


def _item(at: int) -> MemoryItem:
    return MemoryItem(
        id=str(at), content_summary=corpus().texts[at], embedding=corpus().vectors[at], created_at=float(at)
    )


def _indexed(store: PostgresCollection) -> list[int]:
    """Return the number of passages of each segment and block."""
    query = (
        "SELECT octet_length(passages) / 8 FROM segments WHERE store = %s "
        "UNION ALL SELECT octet_length(passages) / 8 FROM vector_codes WHERE store = %s"
    )
    return [count for (count,) in store._fetch(query, [store._store] * 2)]


def _fails(*_arguments: object, **_options: object) -> None:
    raise CollectionError("", "the process died")


@pytest.fixture
def cleaned(monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """A function that waits until indexes were cleaned in the background."""
    ended = threading.Event()
    clean = IndexCleaner._clean

    def observed(self: IndexCleaner) -> None:
        clean(self)
        ended.set()

    monkeypatch.setattr(IndexCleaner, "_clean", observed)

    def wait() -> None:
        assert ended.wait(timeout=60)
        ended.clear()

    return wait


def test_a_forgetting_cleans_at_once(store: PostgresCollection) -> None:
    """Of what was deleted before, too."""
    store.delete(ids=["7"])
    assert _indexed(store) == [SIZE, SIZE]
    plan = store.begin_erasure(EraseRequest(ids=("8",)))
    store.erase(ids=plan.ids)
    store.finish_erasure(plan)
    assert _indexed(store) == [SIZE - 2, SIZE - 2]
    found = store.search(SearchQuery(vector=corpus().vectors[8], limit=SIZE))
    assert {hit.item.id for hit in found} == {str(at) for at in range(SIZE) if at not in (7, 8)}


@pytest.mark.parametrize("plans", [True, False])
def test_what_was_deleted_before_is_cleaned_without_versions_too(
    store_url: str, cleaned: Callable[[], None], plans: bool
) -> None:
    """A store deletes items before it erases their versions, of which there may be none."""
    with closing(PostgresCollection(f"{store_url}&mode=server", model=MODEL, history_days=0)) as store:
        store.add([_item(at) for at in range(SIZE)])
        store.maintain()
        if plans:
            plan = store.begin_erasure(EraseRequest(ids=("8",)))
        store.delete(ids=["8"])
        if plans:
            store.finish_erasure(plan)
        else:
            store.erase(ids=["8"])
            cleaned()
        assert _indexed(store) == [SIZE - 1, SIZE - 1]


@pytest.mark.parametrize("mode", ["follow", "server"])
def test_an_erasure_cleans_in_the_background(
    store: PostgresCollection, store_url: str, cleaned: Callable[[], None], mode: str
) -> None:
    """Whether the process that erases searches these indexes itself or not."""
    with closing(_open(store_url, mode)) as other:
        for count, name in enumerate(("7", "8"), 1):
            assert other.erase(ids=[name]) == 1
            cleaned()
            assert _indexed(store) == [SIZE - count, SIZE - count]


@pytest.mark.parametrize("mode", ["follow", "server"])
def test_who_opens_the_store_cleans_after_a_process_that_died(
    store: PostgresCollection, store_url: str, cleaned: Callable[[], None], monkeypatch: pytest.MonkeyPatch, mode: str
) -> None:
    with closing(_open(store_url, mode)) as other, monkeypatch.context() as dying:
        dying.setattr(IndexCleaner, "start", lambda _: None)
        other.erase(ids=["7"])
    assert _indexed(store) == [SIZE, SIZE]
    with closing(_open(store_url, mode)):
        cleaned()
    assert _indexed(store) == [SIZE - 1, SIZE - 1]


def test_a_forgetting_that_died_while_it_cleaned_is_finished(
    store: PostgresCollection, store_url: str, cleaned: Callable[[], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The items are gone by then, and nothing is planned any more."""
    plan = store.begin_erasure(EraseRequest(ids=("8",)))
    with monkeypatch.context() as dying:
        dying.setattr(maintenance, "rewrite_sparse", _fails)
        with pytest.raises(CollectionError, match="died"):
            store.finish_erasure(plan)
    assert store.planned_erasures() == []
    with closing(_open(store_url, "follow")):
        cleaned()
    assert _indexed(store) == [SIZE - 1, SIZE - 1]


def test_one_thread_cleans_however_much_is_erased_meanwhile(
    store: PostgresCollection, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each thread would take one of the connections that writes and searches need, too."""
    begun, may_end = threading.Semaphore(0), threading.Semaphore(0)

    def clean(_steps: IndexSteps, *, stopped: Callable[[], bool]) -> None:
        assert not stopped()
        begun.release()
        assert may_end.acquire(timeout=60)

    monkeypatch.setattr(maintenance, "clean_indexes", clean)
    others = _timers()
    with closing(IndexCleaner(IndexSteps(store._database, store.location, store._store))) as cleaner:
        cleaner.start()
        assert begun.acquire(timeout=60)
        for _ in range(3):
            cleaner.start()
        assert len(_timers() - others) == 1
        # What was erased meanwhile is cleaned after it, once.
        monkeypatch.setattr(maintenance, "_PAUSE", 0.0)
        may_end.release(2)
        assert begun.acquire(timeout=60)
    assert not begun.acquire(blocking=False)
    assert not _timers() - others


def _timers() -> set[threading.Thread]:
    return {thread for thread in threading.enumerate() if isinstance(thread, threading.Timer)}


def test_nothing_of_an_erased_item_stays_in_the_caches(store: PostgresCollection) -> None:
    """Of processes that are searching, with the next search that they run."""
    query = SearchQuery(text=corpus().texts[8], vector=corpus().vectors[8], limit=SIZE)
    store.search(query)
    searches = store._searcher._searches  # type: ignore[attr-defined]
    before, vectors = searches._caches._cache, searches._vectors.current
    assert before.postings._lists
    plan = store.begin_erasure(EraseRequest(ids=("8",)))
    store.erase(ids=plan.ids)
    store.finish_erasure(plan)
    store.search(query)
    after = searches._caches._cache
    assert after.postings is not before.postings
    assert after.tokens is not before.tokens
    assert after.fields is not before.fields
    assert searches._vectors.current is not vectors
    rows = searches._codes._coded.passages
    assert len(rows) == SIZE - 1


@pytest.mark.parametrize("kind", ["replaced", "expired"])
def test_replaced_and_expired_items_count_as_deleted(
    store: PostgresCollection, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    """So that a process which only adds makes sparse segments again."""
    counted: list[int] = []
    monkeypatch.setattr(
        IndexMaintenance, "note", lambda _, *, written=0, deleted=0: counted.append(deleted) if deleted else None
    )
    if kind == "replaced":
        store.add([MemoryItem(id=str(at), content_summary="tea") for at in range(5)])
    else:
        store.add([MemoryItem(id=f"old {at}", content_summary="tea", expires_at=1.0) for at in range(5)])
        store.add([MemoryItem(id="new", content_summary="rain")])
    assert counted == [5]


def test_steps_are_transactions_of_their_own(store: PostgresCollection, monkeypatch: pytest.MonkeyPatch) -> None:
    """None of them keeps the locks of others: here, of two segments."""
    store.add([MemoryItem(id="tea", content_summary="tea")])
    store.maintain()
    assert len(_indexed(store)) == 3
    steps: list[object] = []
    run = IndexSteps.run

    def counted(self: IndexSteps, operation: Callable[..., object]) -> object:
        steps.append(operation)
        return run(self, operation)

    monkeypatch.setattr(IndexSteps, "run", counted)
    plan = store.begin_erasure(EraseRequest(ids=("8",)))
    store.finish_erasure(plan)
    # Two lists, two segments, one block, and that it is done.
    assert len(steps) == 6
