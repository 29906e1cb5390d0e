"""A store's `index:` block decides how its vectors are searched."""

from __future__ import annotations

from pathlib import Path

import pytest

from devmem import MemoryItem
from devmem.storage import SqliteCollection
from devmem.stores import EmbeddingConfig, StoreSetup
from devmem.testing import HashEmbedder
from devmem_stores.simple import SimpleConfig, SimpleMemory

MANY = 1700


@pytest.mark.parametrize("search", ["exact", "approximate"])
def test_the_index_block(tmp_path: Path, search: str) -> None:
    """A store of moderate size is searched approximately when that is asked for, and finds the same."""
    config = SimpleConfig.model_validate(
        {"memory_path": "store.db", "embedding": {"provider": "minilm"}, "index": {"search": search}}
    )
    embedder = HashEmbedder(dimension=32)

    def opened(_: EmbeddingConfig) -> HashEmbedder:
        return embedder

    setup = StoreSetup(name="notes", store_type="simple", config=config, base_dir=tmp_path, open_embedder=opened)
    store = SimpleMemory(setup)
    store.add([MemoryItem(id=str(n), content_summary=f"note {n} about rain") for n in range(MANY)])
    assert [item.id for item in store.retrieve("", "note 77 about rain", top_k=1)] == ["77"]
    collection = store.collection
    assert isinstance(collection, SqliteCollection)
    indexes = collection.database.follower.indexes
    indexes.wait_for_build()
    assert indexes.approximate == (search == "approximate")
    assert [item.id for item in store.retrieve("", "note 77 about rain", top_k=1)] == ["77"]
    store.close()
