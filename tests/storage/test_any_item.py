"""Any item goes through every form and every collection unchanged."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given
from hypothesis import strategies as st

from devmem import MemoryItem
from devmem.storage import Collection, JsonCollection, SearchQuery, SqliteCollection
from devmem.stores import ModelIdentity
from tests.strategies import items

DIMENSION = 8
MODEL = ModelIdentity(name="testing", dimension=DIMENSION)
ROUNDED = 5e-3
BATCHES = st.lists(items(DIMENSION), max_size=4, unique_by=lambda item: item.id)


def same(found: list[MemoryItem], wanted: list[MemoryItem]) -> None:
    """Compare items; a file rounds a vector to a byte per component."""
    assert found == wanted
    for one, other in zip(found, wanted, strict=True):
        assert (one.embedding is None) == (other.embedding is None)
        if one.embedding is not None and other.embedding is not None:
            assert one.embedding == pytest.approx(other.embedding, abs=ROUNDED)


@given(batch=BATCHES)
def test_every_collection_gives_back_what_it_got_and_finds_it(batch: list[MemoryItem]) -> None:
    """No text breaks the search, and an item with a vector is its own best match."""
    with TemporaryDirectory() as folder:
        in_memory = SqliteCollection(model=MODEL)
        in_memory.add(batch)
        opened: list[Collection] = [in_memory]
        for kind in (SqliteCollection, JsonCollection):
            written = kind(Path(folder, kind.__name__), model=MODEL)
            written.add(batch)
            # As in another process: the file is opened again.
            written.close()
            opened.append(kind(Path(folder, kind.__name__), model=MODEL))
        for collection in opened:
            same(collection.get([item.id for item in batch]), batch)
            same(list(collection.scan()), batch)
            same(collection.recent(len(batch))[::-1], batch)
            for item in batch:
                collection.search(SearchQuery(text=item.content_summary, vector=item.embedding))
                if item.embedding is not None:
                    best, *_ = collection.search(SearchQuery(vector=item.embedding))
                    assert best.similarity == pytest.approx(1.0, abs=ROUNDED)
            collection.close()
