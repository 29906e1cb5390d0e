"""A store's `index:` block: fields of the metadata that are searched, and how vectors are searched."""

from __future__ import annotations

import logging
from collections.abc import Callable
from contextlib import closing
from typing import Any

import pytest

from devmem import MemoryItem
from devmem.storage import SqliteCollection, SupportsFieldIndex
from devmem.stores import Embedder, MemoryQuery
from devmem.stores.items import ItemFields
from devmem.testing import HashEmbedder
from devmem_stores.simple import SimpleMemory
from tests.conftest import MakeStore

Open = Callable[..., SimpleMemory]
BOOK = MemoryItem(id="book", content_summary="a book", metadata={"title": "the night train", "genre": "crime"})
NOTE = MemoryItem(id="note", content_summary="tea at three", metadata={"genre": "note"})


@pytest.fixture
def opened(make_store: MakeStore) -> Open:
    def opened(path: str = "store.db", embedder: Embedder | None = None, **config: Any) -> SimpleMemory:
        model = embedder or HashEmbedder(dimension=32)
        return make_store(SimpleMemory, **{"memory_path": path, "embedder": model, **config})

    return opened


def by_title(store: SimpleMemory) -> list[tuple[str, str | None]]:
    hits = store.search(MemoryQuery(text="the night train", limit=1))
    return [(hit.item.id, hit.field) for hit in hits if (hit.similarity or 0) > 0.99]


def test_items_are_found_by_the_fields_of_their_store(opened: Open) -> None:
    """Whoever opens the store later, without its configuration, adds items that are found likewise."""
    store = opened(index={"fields": ["title"]})
    store.add([BOOK, NOTE])
    assert by_title(store) == [("book", "title")]
    store.delete(ids=["book"])
    store.close()
    other = opened()
    other.add([BOOK])
    assert by_title(other) == [("book", "title")]


def test_items_that_are_there_are_searched_by_new_fields_after_a_reindex(
    opened: Open, caplog: pytest.LogCaptureFixture
) -> None:
    """Until then the store says so; embeddings of what is not affected stay."""
    before = opened()
    before.add([BOOK, NOTE])
    before.close()
    with caplog.at_level(logging.WARNING):
        store = opened(index={"fields": ["title"]})
    assert "'notes': its items are searched by the fields (), the configuration names (title)" in caplog.text
    assert by_title(store) == []
    assert store.reindex() == 1
    assert by_title(store) == [("book", "title")]
    store.close()
    caplog.clear()
    again = opened(index={"fields": ["title"]})
    assert caplog.text == ""
    assert again.reindex() == 0
    again.close()
    assert opened(index={"fields": []}).reindex() == 1


def test_items_that_were_written_before_a_reindex_are_the_stores_too(opened: Open) -> None:
    """Those that followed a configuration that no reindex ever saw must not keep its fields for good."""
    opened(embedding=None, index={"fields": ["author"]}).add([NOTE])
    opened(embedding=None, index={"fields": ["title"]}).add([BOOK])
    store = opened(embedding=None, index={"fields": ["genre"]})
    store.reindex()
    assert [item.id for item in store.retrieve("", "crime", 3)] == ["book"]
    assert store.retrieve("", "train", 3) == []
    late = opened(embedding=None)
    late.add([MemoryItem(id="late", content_summary="x", metadata=dict(BOOK.metadata))])
    assert late.get(["late"])[0].indexed_fields == ("genre",)


def test_fields_that_another_process_changes_hold_for_new_items_soon() -> None:
    now = [0.0]
    fields = ItemFields("notes", None, clock=lambda: now[0])
    with closing(SqliteCollection()) as collection:

        def stamped() -> Any:
            return fields.stamped([BOOK], lambda: collection)[0].indexed_fields

        assert stamped() is None
        collection.index_fields(["title"])
        now[0] += 5
        assert stamped() == ("title",)


def test_a_json_file_has_its_fields_in_its_items(opened: Open, caplog: pytest.LogCaptureFixture) -> None:
    """DevAll's form has no place for those of the store."""
    store = opened("store.json", index={"fields": ["title"]})
    store.add([BOOK])
    assert not isinstance(store.collection, SupportsFieldIndex)
    assert by_title(store) == [("book", "title")]
    store.close()
    assert opened("store.json").get(["book"])[0].indexed_fields == ("title",)
    opened("store.json", index={"fields": ["genre"]}).reindex()
    assert "'notes': items of this kind of file keep the fields that they were written with" in caplog.text


MANY = 1700


@pytest.mark.parametrize("search", ["exact", "approximate"])
def test_the_index_block(make_store: MakeStore, search: str) -> None:
    """A store of moderate size is searched approximately when that is asked for, and finds the same."""
    store = make_store(
        SimpleMemory, embedder=HashEmbedder(dimension=32), memory_path="store.db", index={"search": search}
    )
    store.add([MemoryItem(id=str(n), content_summary=f"note {n} about rain") for n in range(MANY)])
    assert [item.id for item in store.retrieve("", "note 77 about rain", top_k=1)] == ["77"]
    collection = store.collection
    assert isinstance(collection, SqliteCollection)
    indexes = collection.database.follower.indexes
    indexes.wait_for_build()
    assert indexes.approximate == (search == "approximate")
    assert [item.id for item in store.retrieve("", "note 77 about rain", top_k=1)] == ["77"]
