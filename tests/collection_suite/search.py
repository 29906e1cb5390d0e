"""A search finds by words, by vector and by both, and says what every hit was ranked by."""

from __future__ import annotations

import numpy as np
import pytest

from devmem.errors import EmbeddingMismatchError
from devmem.storage import Collection, SearchQuery, Weights
from devmem.testing.abilities import needs
from tests.collection_suite.fixtures import EMBEDDER, MODEL, OpenCollection, Opening, item, waiting_item

_NOTES = {
    "kettle": "the kettle in the kitchen is blue",
    "garden": "tomatoes grow in the garden behind the house",
    "train": "the night train to Vienna leaves at nine",
    "meeting": "the meeting about the budget was moved to Friday",
}


def _filled(collection: Collection) -> Collection:
    collection.add([item(text, id=name) for name, text in _NOTES.items()])
    return collection


def _found(collection: Collection, query: SearchQuery) -> list[str]:
    return [hit.item.id for hit in collection.search(query)]


class Searching(Opening):
    """Search, and the embeddings that it needs."""

    def test_by_words(self, collection: Collection) -> None:
        """The item with the query's words comes back, with its score by words and without a similarity."""
        (hit,) = _filled(collection).search(SearchQuery(text="Vienna trains"))
        assert hit.item.id == "train"
        assert hit.lexical is not None
        assert hit.lexical > 0
        assert hit.similarity is None

    def test_by_vector(self, collection: Collection) -> None:
        """The most similar comes first, and the similarity is the cosine, of vectors that may be rounded."""
        vector = EMBEDDER.vector("a blue kettle in the kitchen")
        hits = _filled(collection).search(SearchQuery(vector=vector))
        assert hits[0].item.id == "kettle"
        assert len(hits) == len(_NOTES)
        for hit in hits:
            assert hit.similarity == pytest.approx(float(EMBEDDER.vector(_NOTES[hit.item.id]) @ vector), abs=3e-3)
            assert hit.lexical == 0.0

    def test_a_similarity_does_not_depend_on_other_items(self, collection: Collection) -> None:
        """Not even on vectors of which one component is as large as it can be."""
        vector = EMBEDDER.vector("a blue kettle in the kitchen")
        collection.add([item(f"note number {at}", id=str(at)) for at in range(300)])
        before = {hit.item.id: hit.similarity for hit in collection.search(SearchQuery(vector=vector, limit=300))}
        axes = np.eye(len(vector), dtype=np.float32)
        collection.add([item(f"axis {at}", id=f"axis {at}", embedding=axis) for at, axis in enumerate(axes)])
        after = {hit.item.id: hit.similarity for hit in collection.search(SearchQuery(vector=vector, limit=400))}
        assert len(before) == 300
        assert {name: after[name] for name in before} == pytest.approx(before, abs=2e-6)

    def test_by_both(self, collection: Collection) -> None:
        """Every hit carries both signals, whichever of them found it."""
        text = "budget meeting on Friday"
        hits = _filled(collection).search(SearchQuery(text=text, vector=EMBEDDER.vector(text)))
        assert hits[0].item.id == "meeting"
        assert all(hit.similarity is not None and hit.lexical is not None for hit in hits)
        assert [hit.score for hit in hits] == sorted((hit.score for hit in hits), reverse=True)

    def test_an_item_without_embedding_is_found_by_its_words(self, collection: Collection) -> None:
        """An item that waits for its embedding is not lost meanwhile."""
        _filled(collection).add([waiting_item("the umbrella is in the hall", id="umbrella")])
        text = "where is my umbrella"
        hits = collection.search(SearchQuery(text=text, vector=EMBEDDER.vector(text)))
        assert hits[0].item.id == "umbrella" or "umbrella" in [hit.item.id for hit in hits]
        (umbrella,) = [hit for hit in hits if hit.item.id == "umbrella"]
        assert umbrella.similarity is None
        assert umbrella.lexical is not None
        assert umbrella.lexical > 0

    def test_a_search_for_nothing_finds_nothing(self, collection: Collection) -> None:
        """Without words and vector there is nothing to rank by; searching before the first write is no error."""
        assert list(collection.search(SearchQuery(text="kettle", vector=EMBEDDER.vector("kettle")))) == []
        _filled(collection)
        assert list(collection.search(SearchQuery(text=" \n "))) == []
        assert list(collection.search(SearchQuery(text="kettle", limit=0))) == []
        assert list(collection.search(SearchQuery(text="zeppelin"))) == []
        collection.add([item("a zeppelin", id="zeppelin")])
        assert _found(collection, SearchQuery(text="zeppelin")) == ["zeppelin"]

    def test_the_limit(self, collection: Collection) -> None:
        """No more hits than asked for, and they are the best ones."""
        _filled(collection)
        vector = EMBEDDER.vector("the garden behind the house")
        everything = _found(collection, SearchQuery(vector=vector, limit=10))
        assert _found(collection, SearchQuery(vector=vector, limit=2)) == everything[:2]
        collection.add([item(f"note number {n}") for n in range(120)])
        query = SearchQuery(text="note", vector=EMBEDDER.vector("note"), limit=100, candidates=5)
        assert len(collection.search(query)) == 100, "whatever the number of candidates"

    def test_the_least_similarity(self, collection: Collection) -> None:
        """Less similar items are left out, also when their words match."""
        _filled(collection)
        vector = EMBEDDER.vector(_NOTES["kettle"])
        query = SearchQuery(text="kettle garden", vector=vector, min_similarity=0.9)
        assert _found(collection, query) == ["kettle"]
        collection.add([waiting_item("umbrella", id="umbrella")])
        spared = SearchQuery(text="umbrella", vector=EMBEDDER.vector("kettle"), min_similarity=0.99)
        assert _found(collection, spared) == ["umbrella"], "what waits for its embedding cannot be too dissimilar"

    def test_the_weights(self, collection: Collection) -> None:
        """Each signal can decide alone."""
        _filled(collection)
        text, vector = "train", EMBEDDER.vector(_NOTES["kettle"])
        by_words = SearchQuery(text=text, vector=vector, weights=Weights(similarity=0.0, lexical=1.0))
        by_vector = SearchQuery(text=text, vector=vector, weights=Weights(similarity=1.0, lexical=0.0))
        assert _found(collection, by_words)[0] == "train"
        assert _found(collection, by_vector)[0] == "kettle"

    def test_replaced_words_are_not_found_any_more(self, collection: Collection) -> None:
        """A superseded text is gone from the index, not only from the list."""
        collection.add([item("the code word is tulip", id="1")])
        assert _found(collection, SearchQuery(text="tulip")) == ["1"]
        collection.add([item("the code word is rose", id="1")])
        assert _found(collection, SearchQuery(text="tulip")) == []
        assert _found(collection, SearchQuery(text="rose")) == ["1"]

    def test_a_query_of_another_length_is_refused(self, collection: Collection) -> None:
        """Vectors of two models are never compared."""
        _filled(collection)
        with pytest.raises(EmbeddingMismatchError):
            collection.search(SearchQuery(vector=np.ones(3, dtype=np.float32)))

    @needs("persists")
    def test_search_after_opening_again(self, opened: OpenCollection) -> None:
        """The indexes are made from what was stored, so a new process finds the same with the same scores."""
        text = "night train"
        query = SearchQuery(text=text, vector=EMBEDDER.vector(text), now=1_800_000_000.0)
        first = _filled(opened(model=MODEL))
        before = [(hit.item.id, hit.score, hit.similarity, hit.lexical) for hit in first.search(query)]
        first.close()
        second = opened(model=MODEL)
        assert [(hit.item.id, hit.score, hit.similarity, hit.lexical) for hit in second.search(query)] == before
