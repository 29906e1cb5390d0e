"""A store's `index:` block decides how its vectors are searched."""

from __future__ import annotations

import pytest

from devmem import MemoryItem
from devmem.storage import SqliteCollection
from devmem.testing import HashEmbedder
from devmem_stores.simple import SimpleMemory
from tests.conftest import MakeStore

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
