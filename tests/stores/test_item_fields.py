"""A store's `index: {fields: [...]}` searches the items' metadata beside their text."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from devmem import MemoryItem
from devmem.storage import SqliteCollection, SupportsFieldIndex
from devmem.stores import EmbeddingConfig, MemoryQuery, StoreSetup
from devmem.stores.items import ItemFields
from devmem.testing import HashEmbedder
from devmem_stores.simple import SimpleConfig, SimpleMemory

OPENED: list[SimpleMemory] = []
BOOK = MemoryItem(id="book", content_summary="a book", metadata={"title": "the night train", "genre": "crime"})
NOTE = MemoryItem(id="note", content_summary="tea at three", metadata={"genre": "note"})


@pytest.fixture(autouse=True)
def closing_stores() -> Iterator[None]:
    yield
    while OPENED:
        OPENED.pop().close()


def opened(folder: Path, path: str = "store.db", embedder: Any = None, **config: Any) -> SimpleMemory:
    block = {"memory_path": path, "embedding": {"provider": "minilm"}, **config}
    model = embedder or HashEmbedder(dimension=32)

    def embedder_of(_: EmbeddingConfig) -> Any:
        return model

    config_model = SimpleConfig.model_validate(block)
    setup = StoreSetup(
        name="notes", store_type="simple", config=config_model, base_dir=folder, open_embedder=embedder_of
    )
    store = SimpleMemory(setup)
    OPENED.append(store)
    store.load()
    return store


def by_title(store: SimpleMemory) -> list[tuple[str, str | None]]:
    hits = store.search(MemoryQuery(text="the night train", limit=1))
    return [(hit.item.id, hit.field) for hit in hits if (hit.similarity or 0) > 0.99]


def test_items_are_found_by_the_fields_of_their_store(tmp_path: Path) -> None:
    """Whoever opens the store later, without its configuration, adds items that are found likewise."""
    store = opened(tmp_path, index={"fields": ["title"]})
    store.add([BOOK, NOTE])
    assert by_title(store) == [("book", "title")]
    store.delete(ids=["book"])
    store.close()
    other = opened(tmp_path)
    other.add([BOOK])
    assert by_title(other) == [("book", "title")]


def test_items_that_are_there_are_searched_by_new_fields_after_a_reindex(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Until then the store says so; embeddings of what is not affected stay."""
    before = opened(tmp_path)
    before.add([BOOK, NOTE])
    before.close()
    with caplog.at_level(logging.WARNING):
        store = opened(tmp_path, index={"fields": ["title"]})
    assert "'notes': its items are searched by the fields (), the configuration names (title)" in caplog.text
    assert by_title(store) == []
    assert store.reindex() == 1
    assert by_title(store) == [("book", "title")]
    store.close()
    caplog.clear()
    again = opened(tmp_path, index={"fields": ["title"]})
    assert caplog.text == ""
    assert again.reindex() == 0
    again.close()
    assert opened(tmp_path, index={"fields": []}).reindex() == 1


def test_items_that_were_written_before_a_reindex_are_the_stores_too(tmp_path: Path) -> None:
    """Those that followed a configuration that no reindex ever saw must not keep its fields for good."""
    opened(tmp_path, embedding=None, index={"fields": ["author"]}).add([NOTE])
    opened(tmp_path, embedding=None, index={"fields": ["title"]}).add([BOOK])
    store = opened(tmp_path, embedding=None, index={"fields": ["genre"]})
    store.reindex()
    assert [item.id for item in store.retrieve("", "crime", 3)] == ["book"]
    assert store.retrieve("", "train", 3) == []
    late = opened(tmp_path, embedding=None)
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


def test_a_changed_field_is_embedded_again_and_an_unchanged_one_is_not(tmp_path: Path) -> None:
    model = HashEmbedder(dimension=32)
    store = opened(tmp_path, embedder=model, index={"fields": ["title"]})
    store.add([BOOK])
    before = len(model.texts)
    store.add([MemoryItem(id="book", content_summary="a book", metadata={**BOOK.metadata, "genre": "novel"})])
    assert model.texts[before:] == []
    store.add([MemoryItem(id="book", content_summary="a book", metadata={"title": "the day train"})])
    assert model.texts[before:] == ["a book", "the day train"]


def test_a_json_file_has_its_fields_in_its_items(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """DevAll's form has no place for those of the store."""
    store = opened(tmp_path, "store.json", index={"fields": ["title"]})
    store.add([BOOK])
    assert not isinstance(store.collection, SupportsFieldIndex)
    assert by_title(store) == [("book", "title")]
    store.close()
    assert opened(tmp_path, "store.json").get(["book"])[0].indexed_fields == ("title",)
    opened(tmp_path, "store.json", index={"fields": ["genre"]}).reindex()
    assert "'notes': items of this kind of file keep the fields that they were written with" in caplog.text
