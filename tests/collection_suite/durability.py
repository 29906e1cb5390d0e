"""Stored items are whole, unique and in order, there when opened again, and neither lost nor doubled by threads."""

from __future__ import annotations

import random
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from devmem import Filter, MemoryItem, Scope, WriteStatus
from devmem.errors import CollectionClosedError, EmbeddingMismatchError, VersionConflictError
from devmem.storage import Collection, SearchQuery, Unique, version_hash
from devmem.stores import ModelIdentity, PassageEmbeddings, Provenance, SourceKind
from devmem.testing.abilities import needs
from tests.collection_suite.fixtures import (
    EMBEDDER,
    MODEL,
    OpenCollection,
    Opening,
    add_encoded,
    ids,
    item,
    waiting_item,
)


class Keeping(Opening):
    """Adding, getting and listing."""

    def test_what_was_added_can_be_got(self, collection: Collection) -> None:
        """An item loses nothing on its way in and out."""
        stored = item("the kettle is blue", metadata={"n": 1, "deep": {"list": [1, None, "x"]}}, trust=0.5)
        (outcome,) = collection.add([stored])
        assert (outcome.status, outcome.item_id, outcome.waiting) == (WriteStatus.STORED, stored.id, False)
        assert collection.get([stored.id]) == [stored]

    def test_get_follows_the_order_asked_for(self, collection: Collection) -> None:
        """Ids that are not there are passed over, the others keep their order."""
        collection.add([item("one", id="1"), item("two", id="2"), item("three", id="3")])
        assert ids(collection.get(["3", "nobody", "1"])) == ["3", "1"]
        assert collection.get([]) == []
        assert collection.add([]) == []

    def test_embeddings_come_back(self, collection: Collection) -> None:
        """A vector is float32 of unit length, and rounded to a byte a component at most."""
        stored = item("almost this")
        collection.add([stored])
        (found,) = collection.get([stored.id])
        assert found.embedding is not None
        assert found.embedding.dtype == np.float32
        assert float(found.embedding @ EMBEDDER.vector("almost this")) == pytest.approx(1, abs=1e-3)
        (scanned,) = collection.scan()
        assert scanned.embedding is not None
        assert np.array_equal(scanned.embedding, found.embedding)

    def test_given_vectors_come_back_bit_for_bit(self, opened: OpenCollection) -> None:
        """A vector that the caller made is neither rounded nor scaled."""
        collection = opened(model=ModelIdentity(name="given:own", dimension=MODEL.dimension))
        stored = item("exactly this")
        collection.add([stored])
        (found,) = collection.get([stored.id])
        assert found.embedding is not None
        assert np.array_equal(found.embedding, EMBEDDER.vector("exactly this"))

    def test_recent_gives_the_newest_first(self, collection: Collection) -> None:
        """The order is that of storing, whatever the items' times say."""
        collection.add([item("a", id="a", created_at=300.0)])
        collection.add([item("b", id="b", created_at=100.0), item("c", id="c", created_at=200.0)])
        assert ids(collection.recent(2)) == ["c", "b"]
        assert ids(collection.recent(99)) == ["c", "b", "a"]
        assert collection.recent(0) == []

    def test_the_same_item_twice_is_a_duplicate(self, collection: Collection) -> None:
        """Storing an item again changes nothing and says so."""
        stored = item("once")
        collection.add([stored])
        (outcome,) = collection.add([stored])
        assert (outcome.status, outcome.item_id) == (WriteStatus.DUPLICATE, stored.id)
        assert outcome.reason
        assert collection.count() == 1

    def test_an_id_with_other_content_supersedes(self, collection: Collection) -> None:
        """The newer content takes the older one's place, and the outcome names what it replaced."""
        older, newer = item("the old plan", id="plan"), item("the new plan", id="plan")
        collection.add([older])
        (outcome,) = collection.add([newer])
        assert (outcome.status, outcome.replaced) == (WriteStatus.SUPERSEDED, older.content_hash)
        assert collection.get(["plan"]) == [newer]
        assert collection.count() == 1

    def test_content_is_stored_once_when_asked(self, collection: Collection) -> None:
        """The outcome of a duplicate names the item that holds the content."""
        collection.add([item("same words", id="first")], unique=Unique.CONTENT)
        (outcome,) = collection.add([item("same words", id="second")], unique=Unique.CONTENT)
        assert (outcome.status, outcome.item_id) == (WriteStatus.DUPLICATE, "first")
        assert collection.get(["second"]) == []
        twins = [item("other words", id="third"), item("other words", id="fourth")]
        outcomes = collection.add(twins, unique=Unique.CONTENT)
        assert [outcome.status for outcome in outcomes] == [WriteStatus.STORED, WriteStatus.DUPLICATE]
        collection.add([item("same words", id="second")])
        assert collection.count() == 3, "two items may say the same where that is not asked for"

    @pytest.mark.parametrize("part", ["agent", "user"])
    def test_content_is_unique_within_its_agent_and_user(self, collection: Collection, part: str) -> None:
        """The same words of another user are an item of their own."""
        for owner in ("ann", "bob", None):
            scope = Scope(**{part: owner})
            (outcome,) = collection.add([item("same words", scope=scope)], unique=Unique.CONTENT)
            assert outcome.status is WriteStatus.STORED
        assert collection.count() == 3

    def test_a_batch_is_stored_whole_or_not_at_all(self, collection: Collection) -> None:
        """A wrong vector at the end of a batch leaves nothing of its beginning behind."""
        collection.add([item("before")])
        wrong = item("wrong", embedding=np.ones(MODEL.dimension or 0, dtype=np.float32)[:-1])
        with pytest.raises(EmbeddingMismatchError):
            collection.add([item("good"), wrong])
        assert [one.content_summary for one in collection.scan()] == ["before"]
        collection.add([item("after")])
        assert collection.count() == 2

    @needs("persists")
    def test_everything_is_there_when_opened(self, opened: OpenCollection) -> None:
        """Added items survive closing, with their order and their vectors."""
        wanted = [item(f"note {n}", id=str(n)) for n in range(20)]
        first = opened(model=MODEL)
        first.add(wanted)
        first.delete(ids=["7"])
        assert opened(model=MODEL).count() == 19, "not only once the first one is closed"
        first.close()
        second = opened(model=MODEL)
        assert list(second.scan()) == [one for one in wanted if one.id != "7"]
        assert all(one.embedding is not None for one in second.scan())

    def test_info_counts(self, collection: Collection) -> None:
        """The collection says what it is."""
        collection.add([item("one"), item("two")])
        info = collection.info()
        assert (info.items, info.waiting, info.embedding, info.dimension) == (2, 0, MODEL.name, MODEL.dimension)
        assert info.location
        assert info.size_bytes >= 0

    def test_the_random_numbers_of_a_program_are_its_own(self, collection: Collection) -> None:
        """One that seeds them gets the same ones whatever it stores."""
        before = random.getstate()
        collection.add([item("a", id="1"), item("b", id="2")])
        collection.delete(ids=["1"])
        assert random.getstate() == before

    def test_a_closed_collection_says_so(self, collection: Collection) -> None:
        """Using it after `close` is our error, not the database's."""
        collection.add([item("one", id="1")])
        collection.close()
        collection.close()
        uses = [
            lambda: collection.add([item("two")]),
            lambda: collection.get(["1"]),
            lambda: collection.recent(1),
            lambda: list(collection.scan()),
            lambda: collection.delete(ids=["1"]),
            collection.clear,
            lambda: collection.trim(keep=1),
            collection.count,
            lambda: collection.waiting(1),
            lambda: collection.set_embeddings({"1": PassageEmbeddings.of(EMBEDDER.vector("one"))}),
            lambda: collection.replace_model("other", 8),
            collection.info,
        ]
        for use in uses:
            with pytest.raises(CollectionClosedError):
                use()


_SAVED = item("the launch is on Friday", id="1", metadata={"room": 1}, scope=Scope(user="ann"), created_at=5.0)
_CHANGES: dict[str, dict[str, Any]] = {
    "metadata": {"metadata": {"room": 2}},
    "no metadata": {"metadata": {}},
    "event time": {"event_time": 7.0},
    "expiry": {"expires_at": 9e9},
    "trust": {"trust": 0.5},
    "scope": {"scope": Scope(user="bob")},
    "source": {"provenance": Provenance(kind=SourceKind.TOOL, name="calendar")},
}


class Updating(Opening):
    """Versions of one item."""

    @pytest.mark.parametrize("unique", list(Unique))
    @pytest.mark.parametrize("change", _CHANGES)
    def test_the_same_text_with_another_field_is_an_update(
        self, collection: Collection, change: str, unique: Unique
    ) -> None:
        """It must not be dropped as a duplicate."""
        collection.add([_SAVED])
        changed = replace(_SAVED, **_CHANGES[change])
        (outcome,) = collection.add([changed], unique=unique)
        assert (outcome.status, outcome.replaced) == (WriteStatus.SUPERSEDED, _SAVED.content_hash)
        assert list(collection.scan()) == [changed]

    @pytest.mark.parametrize("unique", list(Unique))
    def test_the_same_item_is_a_duplicate(self, collection: Collection, unique: Unique) -> None:
        """Also when it is stored later, without its embedding, or with its metadata in another order."""
        collection.add([replace(_SAVED, metadata={"a": 1, "b": [1, {"c": None}]})])
        again = replace(_SAVED, metadata={"b": [1, {"c": None}], "a": 1}, created_at=9.0, embedding=None)
        (outcome,) = collection.add([again], unique=unique)
        assert (outcome.status, outcome.item_id) == (WriteStatus.DUPLICATE, "1")
        assert [one.created_at for one in collection.scan()] == [5.0]

    def test_an_update_keeps_the_embeddings_of_its_content(self, collection: Collection) -> None:
        """Those of all passages, and their tokens; with another text it waits for new ones."""
        long = "\n\n".join(f"part {n}: " + "words " * 200 for n in range(4))
        add_encoded(collection, [item(long, id="1", embedding=None)])
        before = collection.embeddings(["1"])["1"]
        (stored,) = collection.get(["1"])
        collection.add([replace(stored, metadata={"room": 2}, embedding=None)])
        after = collection.embeddings(["1"])["1"]
        assert len(after.vectors) == len(before.vectors) > 1
        assert (after.vectors == before.vectors).all()
        assert (after.tokens is None) == (before.tokens is None)
        collection.add([MemoryItem(id="1", content_summary="another text")])
        assert ids(collection.waiting(5)) == ["1"]

    def test_compare_and_set(self, collection: Collection) -> None:
        """Of two who change the same version, the second one is told, and writes nothing."""
        collection.add([_SAVED])
        (seen,) = collection.get(["1"])
        first, second = replace(seen, metadata={"by": "first"}), replace(seen, metadata={"by": "second"})
        expected = {"1": version_hash(seen)}
        assert collection.add([first], expected=expected)[0].status is WriteStatus.SUPERSEDED
        with pytest.raises(VersionConflictError, match="'1' was changed") as error:
            collection.add([second, item("beside")], expected=expected)
        assert (error.value.expected, error.value.found) == (version_hash(seen), version_hash(first))
        assert list(collection.scan()) == [first]

    def test_compare_and_set_of_what_is_not_there(self, collection: Collection) -> None:
        """None expects no version; and a version that is gone is a conflict."""
        assert collection.add([_SAVED], expected={"1": None})[0].status is WriteStatus.STORED
        with pytest.raises(VersionConflictError, match="is stored already"):
            collection.add([_SAVED], expected={"1": None})
        collection.delete(ids=["1"])
        with pytest.raises(VersionConflictError, match="is not stored any more"):
            collection.add([_SAVED], expected={"1": version_hash(_SAVED)})
        assert list(collection.scan()) == []

    def test_what_is_expected_need_not_be_written(self, collection: Collection) -> None:
        """An item may depend on another one that is there, or is not."""
        assert collection.add([_SAVED], expected={"absent": None})[0].status is WriteStatus.STORED
        with pytest.raises(VersionConflictError, match="'1' is stored already"):
            collection.add([item("beside")], expected={"1": None})
        assert list(collection.scan()) == [_SAVED]

    def test_what_must_not_match_a_filter(self, collection: Collection) -> None:
        """Whatever is stored, and not expired, is compared in the transaction of the write."""
        assert collection.add([_SAVED], absent=Filter(metadata={"room": 2}))[0].status is WriteStatus.STORED
        collection.add([item("old", id="old", expires_at=1.0)])
        kept = list(collection.scan())
        with pytest.raises(VersionConflictError, match="'1' is stored already"):
            collection.add([item("beside")], absent=Filter(metadata={"room": 1}))
        assert list(collection.scan()) == kept


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
