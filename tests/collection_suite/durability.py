"""Stored items are whole, unique, in order, and still there when the collection is opened again."""

from __future__ import annotations

import random

import numpy as np
import pytest

from devmem import Scope, WriteStatus
from devmem.errors import CollectionClosedError, EmbeddingMismatchError
from devmem.storage import Collection, Unique
from devmem.stores import ModelIdentity, PassageEmbeddings
from devmem.testing.abilities import needs
from tests.collection_suite.fixtures import EMBEDDER, MODEL, OpenCollection, Opening, ids, item


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
