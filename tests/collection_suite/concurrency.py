"""Several threads, and several openings of one place, neither lose nor double an item."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

from devmem import WriteStatus
from devmem.storage import Collection, SearchQuery, Unique
from devmem.stores import PassageEmbeddings
from devmem.testing.abilities import needs
from tests.collection_suite.fixtures import EMBEDDER, MODEL, OpenCollection, Opening, ids, item, waiting_item

_THREADS = 8
_EACH = 12


def _search(collection: Collection, text: str) -> list[str]:
    return [hit.item.id for hit in collection.search(SearchQuery(text=text, vector=EMBEDDER.vector(text), limit=500))]


class Sharing(Opening):
    """Concurrency within one process."""

    def test_threads_that_write_and_search(self, collection: Collection) -> None:
        """Every item of every thread is there once, and every search in between works."""
        start = threading.Barrier(_THREADS)

        def work(thread: int) -> None:
            start.wait()
            for n in range(_EACH):
                name = f"thread {thread} item {n}"
                collection.add([item(name, id=name)])
                assert name in _search(collection, name)
                assert collection.get([name])

        with ThreadPoolExecutor(_THREADS) as pool:
            list(pool.map(work, range(_THREADS)))
        wanted = sorted(f"thread {thread} item {n}" for thread in range(_THREADS) for n in range(_EACH))
        assert sorted(ids(list(collection.scan()))) == wanted
        assert sorted(_search(collection, "thread item")) == wanted
        assert collection.count() == len(wanted)

    def test_threads_that_store_the_same(self, collection: Collection) -> None:
        """One of them stores it, the others are told that it is there."""
        start = threading.Barrier(_THREADS)

        def work(thread: int) -> WriteStatus:
            start.wait()
            return collection.add([item("the same words", id=str(thread))], unique=Unique.CONTENT)[0].status

        with ThreadPoolExecutor(_THREADS) as pool:
            statuses = list(pool.map(work, range(_THREADS)))
        assert sorted(statuses) == sorted([WriteStatus.STORED] + [WriteStatus.DUPLICATE] * (_THREADS - 1))
        assert collection.count() == 1

    def test_threads_that_delete(self, collection: Collection) -> None:
        """Each item is deleted by one of them, and the counts add up."""
        names = [f"item {n}" for n in range(40)]
        collection.add([item(name, id=name) for name in names])
        with ThreadPoolExecutor(_THREADS) as pool:
            deleted = sum(pool.map(lambda name: collection.delete(ids=[name]), names * 2))
        assert (deleted, collection.count()) == (len(names), 0)

    def test_scanning_while_writing(self, collection: Collection) -> None:
        """A scan gives every item that was there when it began, one that is changed too, and no item twice."""
        before = [f"item {n}" for n in range(1100)]
        collection.add([item(name, id=name) for name in before])
        seen = []
        for at, one in enumerate(collection.scan()):
            seen.append(one.id)
            if at == 600:
                collection.add([item("changed meanwhile", id="item 1050")])
            if at % 400 == 0:
                collection.add([item(f"new {at}", id=f"new {at}")])
                collection.delete(ids=[one.id])
        assert "item 1050" in seen
        others = [name for name in seen if not name.startswith("new") and name != "item 1050"]
        assert others == [name for name in before if name != "item 1050"]
        assert len(seen) == len(set(seen))

    @needs("persists")
    def test_another_opening_follows(self, opened: OpenCollection) -> None:
        """The next search of another opening sees additions, replacements, embeddings and deletions."""
        one, two = opened(model=MODEL), opened(model=MODEL)
        one.add([item("first note", id="1"), item("second note", id="2")])
        assert sorted(_search(two, "note")) == ["1", "2"]
        one.delete(ids=["1"])
        assert _search(two, "note") == ["2"]
        two.add([item("third note", id="3")])
        assert sorted(_search(one, "note")) == ["2", "3"]
        two.add([item("a verse instead", id="2")])
        assert [hit.item.id for hit in one.search(SearchQuery(text="second"))] == []
        one.add([waiting_item("late note", id="4")])
        _search(two, "note")
        two.set_embeddings({"4": PassageEmbeddings.of(EMBEDDER.vector("late note"))})
        (best, *_) = one.search(SearchQuery(vector=EMBEDDER.vector("late note")))
        assert best.item.id == "4"
        one.clear()
        assert (two.count(), _search(two, "note")) == (0, [])
