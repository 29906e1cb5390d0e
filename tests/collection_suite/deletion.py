"""Deleting, trimming and expiring take away what they should and nothing else."""

from __future__ import annotations

import pytest

from devmem import Filter, Scope, WriteStatus
from devmem.errors import FilterError
from devmem.storage import Collection, SearchQuery, Unique
from devmem.testing import ManualClock
from tests.collection_suite.fixtures import EMBEDDER, MODEL, OpenCollection, Opening, ids, item


def _found(collection: Collection, text: str) -> list[str]:
    query = SearchQuery(text=text, vector=EMBEDDER.vector(text), limit=50)
    return [hit.item.id for hit in collection.search(query)]


class Forgetting(Opening):
    """Delete, clear, trim, expiry."""

    def test_deleting_by_id(self, collection: Collection) -> None:
        """Only the named items go; ids that are not there do not count."""
        collection.add([item("tea", id="1"), item("tea with milk", id="2"), item("tea with lemon", id="3")])
        assert collection.delete(ids=["1", "nobody", "3"]) == 2
        assert ids(list(collection.scan())) == ["2"]
        assert _found(collection, "tea") == ["2"]

    def test_deleting_by_id_and_filter_needs_both(self, collection: Collection) -> None:
        """A filter beside ids narrows them: nobody deletes another session's items by guessing ids."""
        collection.add([item("a", id="a", scope=Scope(session="s1")), item("b", id="b", scope=Scope(session="s2"))])
        assert collection.delete(ids=["a", "b"], where=Filter(scope=Scope(session="s1"))) == 1
        assert ids(list(collection.scan())) == ["b"]
        assert collection.delete(where=Filter(scope=Scope(session="s2"))) == 1
        assert collection.count() == 0

    def test_deleting_without_saying_what_is_refused(self, collection: Collection) -> None:
        """A call without ids and without a filter that restricts must not empty the collection."""
        collection.add([item("stays", id="1")])
        for where in (
            None,
            Filter(),
            Filter(scope=Scope(agent=None), include_unscoped=True),
            Filter(any_of=(Filter(),)),
        ):
            with pytest.raises(FilterError, match="`clear` deletes everything"):
                collection.delete(where=where)
        assert collection.delete(ids=[]) == 0
        assert collection.delete(ids=[], where=Filter()) == 0
        assert collection.count() == 1

    def test_clear_forgets_everything(self, collection: Collection) -> None:
        """Afterwards there is nothing, and new items are stored as usual."""
        collection.add([item(f"note {n}") for n in range(30)])
        assert collection.clear() == 30
        assert (collection.count(), _found(collection, "note"), list(collection.scan())) == (0, [], [])
        collection.add([item("a new note", id="new")])
        assert _found(collection, "note") == ["new"]
        assert collection.clear() == 1
        assert collection.clear() == 0

    def test_trim_keeps_the_newest(self, collection: Collection) -> None:
        """The items stored last stay, whatever their times say."""
        collection.add([item(f"note {n}", id=str(n), created_at=100.0 - n) for n in range(6)])
        assert collection.trim(keep=2) == 4
        assert ids(list(collection.scan())) == ["4", "5"]
        assert collection.trim(keep=2) == 0
        assert sorted(_found(collection, "note")) == ["4", "5"]
        assert collection.trim() == 0
        collection.add([item("note", id="old", created_at=95.0), item("note", id="older", created_at=94.9)])
        assert collection.trim(stored_before=95.0) == 1, "one that was stored at that very time stays"
        assert ids(list(collection.scan())) == ["4", "5", "old"]
        assert collection.trim(keep=0) == 3

    def test_trim_passes_over_pinned_items(self, collection: Collection) -> None:
        """Pinned items stay beside the newest, however old; nothing but `true` pins."""
        collection.add([item(str(n), id=str(n), created_at=float(n)) for n in range(6)])
        collection.add([item("pinned", id="pinned", created_at=0.0, metadata={"pinned": True})])
        collection.add([item("not", id="not", created_at=0.0, metadata={"pinned": 1})])
        collection.add([item("newest", id="newest", created_at=9.0)])
        assert collection.trim(stored_before=5.0) == 6
        assert ids(list(collection.scan())) == ["5", "pinned", "newest"]
        assert collection.trim(keep=1) == 1
        assert ids(list(collection.scan())) == ["pinned", "newest"]
        collection.add([item("later", id="later")])
        assert collection.trim(keep=1) == 1
        assert ids(list(collection.scan())) == ["pinned", "later"]

    def test_an_expired_item_is_not_found(self, opened: OpenCollection) -> None:
        """Once its time is over an item is neither listed, counted, nor found in any way."""
        clock = ManualClock()
        collection = opened(model=MODEL, clock=clock)
        collection.add([item("brief note", id="brief", expires_at=clock.now + 10), item("lasting note", id="lasting")])
        assert collection.count() == 2
        assert sorted(_found(collection, "note")) == ["brief", "lasting"]
        clock.advance(10)
        assert collection.count() == 1
        assert _found(collection, "brief note") == ["lasting"]
        assert ids(collection.recent(5)) == ids(list(collection.scan())) == ["lasting"]
        collection.add([item("new", id="new")])
        assert collection.get(["brief"]) == []
        assert collection.info().items == 2

    def test_what_expired_is_no_work_for_a_search(self, opened: OpenCollection) -> None:
        """It is no candidate, so that the others are compared with no more than before."""
        clock = ManualClock()
        collection = opened(model=MODEL, clock=clock)
        brief = [item(f"tea number {n}", id=f"brief {n}", expires_at=clock.now + 10) for n in range(300)]
        collection.add([*brief, item("tea at five", id="lasting"), item("rain", id="other")])
        query = SearchQuery(text="tea", limit=5, explain=True)
        assert collection.search(query).candidates > 50
        clock.advance(10)
        found = collection.search(query)
        assert (found.candidates, [hit.item.id for hit in found.hits]) == (1, ["lasting"])

    def test_many_expired_items_go_a_few_at_a_time(self, opened: OpenCollection) -> None:
        """No write waits for all of them; what is still there is in no way seen, and is taken for nothing."""
        clock = ManualClock()
        collection = opened(model=MODEL, clock=clock)
        old = [item(f"brief {n}", id=f"brief {n}", expires_at=clock.now + 10) for n in range(700)]
        collection.add([*old, item("lasting", id="lasting")])
        clock.advance(11)
        again = item("brief 600", id="brief 600")
        assert [each.status for each in collection.add([again])] == [WriteStatus.STORED]
        twin = item("brief 601", id="twin")
        assert collection.add([twin], unique=Unique.CONTENT, expected={"twin": None})[0].status is WriteStatus.STORED
        assert collection.add([item("b", id="brief 602")], expected={"brief 602": None})[0].replaced is None
        assert collection.get(["brief 699", "brief 600"]) == [again]
        assert collection.trim(keep=4) == 0
        assert ids(collection.recent(9)) == ["brief 602", "twin", "brief 600", "lasting"]
        assert collection.count() == 4
        assert collection.waiting(9) == []
        for n in range(4):
            collection.add([item(f"new {n}")])
        assert collection.info().items == collection.count() == 8

    def test_an_item_can_come_back(self, collection: Collection) -> None:
        """A deleted item may be stored again, and is found again."""
        again = item("boomerang", id="1")
        collection.add([again])
        collection.delete(ids=["1"])
        assert _found(collection, "boomerang") == []
        collection.add([again])
        assert _found(collection, "boomerang") == ["1"]
