"""Items wait for their embedding, get it later, and are embedded again when the model changes."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from devmem import MemoryItem, WriteStatus
from devmem.errors import EmbeddingMismatchError
from devmem.model.fields import embedded_hash
from devmem.models.embedder import EmbeddingRefusal
from devmem.storage import Collection, PreparedItem, SearchQuery
from devmem.stores import ModelIdentity, PassageEmbeddings
from devmem.testing import HashEmbedder
from devmem.testing.abilities import needs
from tests.collection_suite.fixtures import (
    EMBEDDER,
    MODEL,
    OpenCollection,
    Opening,
    encoded,
    ids,
    item,
    waiting_item,
)


def refusal(item: MemoryItem, reason: str) -> EmbeddingRefusal:
    """Return the refusal of an item's content."""
    return EmbeddingRefusal(reason=reason, content_hash=embedded_hash(item))


class Embedding(Opening):
    """Waiting, late embeddings, and another model."""

    def test_an_item_without_embedding_waits(self, collection: Collection) -> None:
        """Its outcome says so, and it is listed with those that wait, oldest first."""
        outcomes = collection.add([waiting_item("one", id="1"), item("two", id="2"), waiting_item("three", id="3")])
        assert [outcome.waiting for outcome in outcomes] == [True, False, True]
        assert ids(collection.waiting(10)) == ["1", "3"]
        assert ids(collection.waiting(1)) == ["1"]
        assert collection.info().waiting == 2
        (blank,) = collection.add([waiting_item(" \n\t\u2003", id="blank")])
        assert not blank.waiting, "there is nothing to embed"
        assert collection.replace_model("suite:other", 8) == 3
        assert ids(collection.waiting(10)) == ["1", "2", "3"]

    def test_a_late_embedding_is_searched(self, collection: Collection) -> None:
        """After the provider answered again an item is found by its vector, without a restart."""
        collection.add([item("about tea", id="tea"), waiting_item("about coffee", id="coffee")])
        query = SearchQuery(vector=EMBEDDER.vector("about coffee"))
        assert [hit.item.id for hit in collection.search(query)] == ["tea"]
        assert collection.set_embeddings({"coffee": PassageEmbeddings.of(EMBEDDER.vector("about coffee"))}) == 1
        assert [hit.item.id for hit in collection.search(query)] == ["coffee", "tea"]
        assert collection.waiting(10) == []
        other = PassageEmbeddings.of(EMBEDDER.vector("something else"))
        assert collection.set_embeddings({"tea": other, "nobody": other}) == 0
        assert [hit.item.id for hit in collection.search(query)] == ["coffee", "tea"]

    def test_an_embedding_of_another_text_is_refused(self, collection: Collection) -> None:
        """While it was made the item was replaced by one that says something else, which goes on waiting."""
        collection.add([waiting_item("about tea", id="1")])
        (before,) = collection.waiting(1)
        made = replace(PassageEmbeddings.of(EMBEDDER.vector("about tea")), content_hash=before.content_hash)
        collection.add([waiting_item("about coffee", id="1")])
        assert collection.set_embeddings({"1": made}) == 0
        (now,) = collection.waiting(5)
        assert (now.content_summary, now.embedding) == ("about coffee", None)

    @needs("persists")
    def test_a_refused_item_waits_by_itself(self, opened: OpenCollection) -> None:
        """It is not tried again with the others, in any process, until it gets an embedding after all."""
        first = opened(model=MODEL)
        first.add([waiting_item("too long", id="1"), waiting_item("one more", id="2")])
        refusals = {one.id: refusal(one, "status 413: too long") for one in first.waiting(1)}
        assert first.set_embeddings(refusals) == 0
        first.close()
        second = opened(model=MODEL)
        assert (ids(second.waiting(9)), second.info().waiting) == (["2"], 2)
        assert second.refusals() == {"1": "status 413: too long"}
        assert second.set_embeddings({"1": PassageEmbeddings.of(EMBEDDER.vector("too long"))}) == 1
        assert (second.refusals(), second.info().waiting) == ({}, 1)

    def test_an_item_can_be_stored_as_refused(self, collection: Collection) -> None:
        """Its model was asked right before."""
        refused = replace(PreparedItem.of(waiting_item("too long", id="1")), refusal="status 413: too long")
        (outcome,) = collection.add([refused])
        assert outcome.waiting
        assert (collection.waiting(9), collection.refusals()) == ([], {"1": "status 413: too long"})

    def test_only_the_refused_content_is_refused(self, collection: Collection) -> None:
        """Another text of the item is tried, and so is the same one with another model."""
        collection.add([waiting_item("too long", id="1"), waiting_item("also too long", id="2")])
        refusals = {one.id: refusal(one, "status 413: too long") for one in collection.waiting(9)}
        collection.add([waiting_item("short", id="1")])
        assert collection.set_embeddings(refusals) == 0
        assert (ids(collection.waiting(9)), list(collection.refusals())) == (["1"], ["2"])
        assert collection.replace_model("suite:other", 8) == 2
        assert (sorted(ids(collection.waiting(9))), collection.refusals()) == (["1", "2"], {})

    def test_two_texts_of_one_id_in_a_batch(self, collection: Collection) -> None:
        """The later one is kept, with what was made of it."""
        short, long = waiting_item("about tea", id="1"), waiting_item("Tea is a drink of leaves. " * 80, id="1")
        outcomes = collection.add(encoded([short, long]))
        assert [outcome.status for outcome in outcomes] == [WriteStatus.STORED, WriteStatus.SUPERSEDED]
        assert collection.waiting(5) == []
        assert collection.embeddings(["1"])["1"].is_of(long.content_hash)

    def test_an_embedding_of_another_length_is_refused(self, collection: Collection) -> None:
        """Neither a new item nor a waiting one takes a vector of another model."""
        collection.add([item("good"), waiting_item("waits", id="1")])
        short = np.ones(3, dtype=np.float32)
        with pytest.raises(EmbeddingMismatchError):
            collection.add([item("bad", embedding=short)])
        with pytest.raises(EmbeddingMismatchError):
            collection.set_embeddings({"1": PassageEmbeddings.of(short)})
        assert collection.count() == 2
        assert ids(collection.waiting(5)) == ["1"]

    def test_replacing_the_model(self, collection: Collection) -> None:
        """Every embedding is forgotten, nothing else is, and the new ones have the new length."""
        collection.add([item(f"note {n}", id=str(n)) for n in range(5)] + [waiting_item("late", id="late")])
        other = HashEmbedder(dimension=8, name="suite:other")
        assert collection.replace_model("suite:other", 8) == 6
        assert list(collection.search(SearchQuery(vector=other.vector("note 3")))) == []
        assert [hit.item.id for hit in collection.search(SearchQuery(text="late"))] == ["late"]
        waiting = collection.waiting(10)
        assert len(waiting) == 6
        assert all(one.embedding is None for one in waiting)
        assert (
            collection.set_embeddings(
                {one.id: PassageEmbeddings.of(other.vector(one.content_summary)) for one in waiting}
            )
            == 6
        )
        best, *_ = collection.search(SearchQuery(vector=other.vector("note 3")))
        assert (best.item.id, collection.info().embedding, collection.info().dimension) == ("3", "suite:other", 8)

    @needs("persists")
    def test_another_model_is_refused(self, opened: OpenCollection) -> None:
        """Opening with another model names both and the command that migrates."""
        first = opened(model=MODEL)
        first.add([item("made by the first")])
        first.close()
        with pytest.raises(EmbeddingMismatchError, match="devmem reindex") as caught:
            opened(model=ModelIdentity(name="suite:other", dimension=MODEL.dimension))
        assert MODEL.name in caught.value.recorded
        assert "suite:other" in caught.value.wanted
        assert opened(model=MODEL).count() == 1

    @needs("persists")
    def test_a_model_that_made_no_vectors_is_replaced(self, opened: OpenCollection) -> None:
        """Whoever lacked its package may take another one; the first vectors settle which it is."""
        first = opened(model=ModelIdentity(name="suite:not installed", dimension=None))
        first.add([replace(PreparedItem.of(waiting_item("not embedded yet", id="1")), refusal="status 413")])
        first.close()
        second = opened(model=MODEL)
        assert ids(second.waiting(9)) == ["1"]
        assert second.set_embeddings({"1": PassageEmbeddings.of(EMBEDDER.vector("not embedded yet"))}) == 1
        second.close()
        with pytest.raises(EmbeddingMismatchError):
            opened(model=ModelIdentity(name="suite:not installed", dimension=None))

    @needs("persists")
    def test_items_from_before_the_model_wait(self, opened: OpenCollection) -> None:
        """When a workflow gains an embedding, what it stored without one is embedded too."""
        first = opened()
        first.add([waiting_item("from before", id="1")])
        assert first.info().waiting == 0
        first.close()
        second = opened(model=MODEL)
        assert ids(second.waiting(5)) == ["1"]
        second.set_embeddings({"1": PassageEmbeddings.of(EMBEDDER.vector("from before"))})
        second.close()
        query = SearchQuery(vector=EMBEDDER.vector("from before"))
        assert [hit.item.id for hit in opened(model=MODEL).search(query)] == ["1"]
