"""Fields of the items' metadata that are searched beside their text, each by itself."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Final, cast

import pytest

from devmem import Hit, MemoryItem, WriteStatus
from devmem.model.fields import embedded_hash
from devmem.storage import Collection, SearchQuery, SupportsFieldIndex, VersionedCollection
from devmem.stores import PassageEmbeddings
from devmem.testing import ManualClock
from devmem.testing.abilities import needs
from tests.collection_suite.fixtures import EMBEDDER, MODEL, OpenCollection, Opening, encoded, ids
from tests.collection_suite.versions import Versioning

_BOOK: Final = {"title": "The night train", "chapters": [{"content": "A ticket to Oslo"}, {"content": "Snow at noon"}]}
_FIELDS: Final = ("title", "chapters[*].content")


def _note(name: str, text: str = "a note", **fields: Any) -> MemoryItem:
    return MemoryItem(id=name, content_summary=text, **fields)


def _by_vector(collection: Collection, text: str) -> list[Hit]:
    return list(collection.search(SearchQuery(vector=EMBEDDER.vector(text))))


def _by_words(collection: Collection, text: str) -> list[str]:
    return [hit.item.id for hit in collection.search(SearchQuery(text=text))]


class SearchingFields(Opening):
    """Each field is found by itself, and an item is as good as its best one."""

    def test_an_item_is_as_similar_as_its_best_field(self, collection: Collection) -> None:
        """The hit names the field, and where it stands among several."""
        collection.add(encoded([_note("book", metadata=_BOOK, indexed_fields=_FIELDS), _note("other", metadata=_BOOK)]))
        best = _by_vector(collection, "Snow at noon")[0]
        assert (best.item.id, best.field, best.passage) == ("book", "chapters[1].content", "Snow at noon")
        assert best.similarity == pytest.approx(1.0, abs=1e-3)
        own = _by_vector(collection, "a note")[0]
        assert (own.field, own.passage) == (None, None)

    def test_the_words_of_fields_are_found(self, collection: Collection) -> None:
        """Only of those that the item names: what else its metadata holds is not text."""
        collection.add([_note("book", metadata=_BOOK, indexed_fields=("title",)), _note("other", metadata=_BOOK)])
        assert _by_words(collection, "night train") == ["book"]
        assert _by_words(collection, "Oslo") == []

    def test_a_text_that_a_field_has_is_searched_once(self, collection: Collection) -> None:
        """An item whose text is made of its fields has one vector for each field, and none of all together."""
        whole = _note("book", "One\n\nTwo", metadata={"a": "One", "b": "Two"}, indexed_fields=("a", "b"))
        collection.add(encoded([whole]))
        assert len(collection.embeddings(["book"])["book"].vectors) == 2
        assert [hit.field for hit in _by_vector(collection, "Two")] == ["b"]

    def test_an_item_of_fields_alone_waits_for_its_embeddings(self, collection: Collection) -> None:
        """It has no summary, but there is a text to embed."""
        (outcome,) = collection.add([_note("book", "", metadata=_BOOK, indexed_fields=("title",))])
        assert outcome.waiting
        assert ids(collection.waiting(5)) == ["book"]

    def test_another_text_of_a_field_needs_another_embedding(self, collection: Collection) -> None:
        """The content is the same, so the old vectors would be taken over, and those made meanwhile stored."""
        before = _note("1", metadata={"title": "tea"}, indexed_fields=("title",))
        after = replace(before, metadata={"title": "coffee"})
        collection.add(encoded([before]))
        assert collection.add([after])[0].status is WriteStatus.SUPERSEDED
        assert ids(collection.waiting(5)) == ["1"]
        assert collection.set_embeddings(_embeddings([before])) == 0
        assert collection.set_embeddings(_embeddings([after])) == 1
        assert collection.embeddings(["1"])["1"].is_of(embedded_hash(after))

    def test_the_same_fields_keep_their_embeddings(self, collection: Collection) -> None:
        """A change of what is not searched costs no call of the model."""
        before = _note("1", metadata={"title": "tea", "room": 1}, indexed_fields=("title",))
        collection.add(encoded([before]))
        collection.add([replace(before, metadata={"title": "tea", "room": 2})])
        assert collection.waiting(5) == []
        assert _by_vector(collection, "tea")[0].field == "title"

    def test_other_fields_are_another_version(self, collection: Collection) -> None:
        """No field at all, and what the store thinks right, are told apart."""
        choices: Sequence[tuple[str, ...] | None] = (None, (), ("title",))
        for fields in choices:
            (outcome,) = collection.add([_note("1", metadata=_BOOK, indexed_fields=fields)])
            assert outcome.status is not WriteStatus.DUPLICATE
            assert [item.indexed_fields for item in collection.get(["1"])] == [fields]

    @needs("persists")
    def test_fields_are_kept(self, opened: OpenCollection) -> None:
        """A place that is opened again finds by them."""
        opened(model=MODEL).add([_note("book", metadata=_BOOK, indexed_fields=_FIELDS)])
        assert _by_words(opened(model=MODEL), "Oslo") == ["book"]


class RecordingFields(Opening):
    """The collection records the fields of items that name none; needs a `SupportsFieldIndex`."""

    @needs("records_fields")
    def test_items_are_searched_by_other_fields(self, collection: Collection) -> None:
        """In place: their order and their content stay, and only what has another text waits."""
        fielded = _fielded(collection)
        plain = [_note(f"{n}", f"note {n}", metadata={"title": f"title {n}"} if n % 2 else {}) for n in range(6)]
        collection.add(encoded([*plain, _note("own", metadata={"title": "title 9"}, indexed_fields=())]))
        assert fielded.indexed_fields() == ()
        assert fielded.index_fields(["title"]) == 3
        assert fielded.indexed_fields() == ("title",)
        assert ids(collection.recent(9)) == ["own", "5", "4", "3", "2", "1", "0"]
        assert ids(collection.waiting(9)) == ["1", "3", "5"]
        assert _by_words(collection, "title 3")[0] == "3"
        assert set(_by_words(collection, "title")) == {"1", "3", "5"}
        assert _by_vector(collection, "note 4")[0].item.id == "4"
        collection.set_embeddings(_embeddings(collection.waiting(9)))
        assert [(hit.item.id, hit.field) for hit in _by_vector(collection, "title 5")[:1]] == [("5", "title")]
        assert fielded.index_fields([]) == 3
        assert _by_words(collection, "title") == []

    @needs("records_fields", "persists")
    def test_other_readers_learn_of_other_fields(self, opened: OpenCollection) -> None:
        """The indexes of an open collection follow, with items that are added afterwards."""
        writer, reader = opened(model=MODEL), opened(model=MODEL)
        writer.add([_note("1", metadata={"title": "tea"}), _note("2", metadata={"title": "rain"})])
        assert _by_words(reader, "tea") == []
        _fielded(writer).index_fields(("title",))
        assert _by_words(reader, "tea") == ["1"]
        writer.add([_note("3", "more tea")])
        assert sorted(_by_words(reader, "tea")) == ["1", "3"]
        assert _fielded(reader).indexed_fields() == ("title",)


class FieldsOfVersions(Versioning):
    """Fields of what was; needs a `VersionedCollection` that is a `SupportsFieldIndex` too."""

    @needs("records_fields")
    def test_an_earlier_state_is_searched_by_other_fields_too(
        self, versioned: VersionedCollection, clock: ManualClock
    ) -> None:
        """Versions get them as the items do, and what has a higher row still has the higher passages."""
        versioned.add(encoded([_note(f"{n}", f"note {n}", metadata={"title": f"tea {n}"}) for n in range(4)]))
        then = clock()
        clock.advance(60)
        versioned.add(encoded([_note("1", "note 1", metadata={"title": "rain"})]))
        versioned.delete(ids=["2"])
        assert _fielded(versioned).index_fields(("title",)) == 3
        earlier = versioned.as_of(then)
        assert sorted(_by_words(earlier, "tea")) == ["0", "1", "2", "3"]
        assert ids(earlier.recent(9)) == ["3", "2", "1", "0"]
        earlier.close()
        assert sorted(_by_words(versioned, "tea")) == ["0", "3"]
        assert _by_words(versioned, "rain") == ["1"]


def _fielded(collection: Collection) -> SupportsFieldIndex:
    assert isinstance(collection, SupportsFieldIndex)
    return cast("SupportsFieldIndex", collection)


def _embeddings(items: Sequence[MemoryItem]) -> dict[str, PassageEmbeddings]:
    made = {each.item.id: each.embeddings for each in encoded(list(items))}
    return {name: found for name, found in made.items() if found is not None}
