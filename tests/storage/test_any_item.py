"""Any item goes through every form and every collection unchanged."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from devmem.model.items import MemoryItem
from devmem.models.embedder import ModelIdentity
from devmem.storage import JsonCollection, SearchQuery, SqliteCollection
from devmem.testing.strategies import items

DIMENSION = 8
MODEL = ModelIdentity(name="testing", dimension=DIMENSION)
BATCHES = st.lists(items(DIMENSION), max_size=4, unique_by=lambda item: item.id)


def same(found: list[MemoryItem], wanted: list[MemoryItem]) -> None:
    assert found == wanted
    for one, other in zip(found, wanted, strict=True):
        assert (one.embedding is None) == (other.embedding is None)
        if one.embedding is not None and other.embedding is not None:
            assert np.array_equal(one.embedding, other.embedding)


@given(batch=BATCHES)
def test_a_collection_in_memory_gives_back_what_it_got(batch: list[MemoryItem]) -> None:
    collection = SqliteCollection(model=MODEL)
    collection.add(batch)
    same(collection.get([item.id for item in batch]), batch)
    same(list(collection.scan()), batch)
    same(collection.recent(len(batch))[::-1], batch)
    collection.close()


@pytest.mark.parametrize("kind", [SqliteCollection, JsonCollection])
@given(batch=BATCHES)
def test_a_file_gives_back_what_it_got(kind: Any, batch: list[MemoryItem]) -> None:
    """In another process, as it were: the file is opened again."""
    with TemporaryDirectory() as folder:
        path = Path(folder) / "store"
        collection = kind(path, model=MODEL)
        collection.add(batch)
        collection.close()
        again = kind(path, model=MODEL)
        same(list(again.scan()), batch)
        again.close()


@given(batch=BATCHES)
def test_whatever_was_stored_can_be_searched(batch: list[MemoryItem]) -> None:
    """No text breaks the search, and an item with a vector is its own best match."""
    collection = SqliteCollection(model=MODEL)
    collection.add(batch)
    for item in batch:
        collection.search(SearchQuery(text=item.content_summary, vector=item.embedding))
        if item.embedding is not None:
            best, *_ = collection.search(SearchQuery(vector=item.embedding))
            assert best.similarity == pytest.approx(1.0, abs=1e-5)
    collection.close()


def _nested(levels: int) -> Any:
    value: Any = "core"
    for level in range(levels):
        value = [value] if level % 2 else {"a": value}
    return value


EXTREMES = st.dictionaries(
    st.text(max_size=3),
    st.integers(0, 260).map(_nested)
    | st.integers(0, 4_500).map(lambda digits: -(10**digits))
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.just(-0.0),
    max_size=3,
)


@given(batch=BATCHES, metadata=EXTREMES, at=st.sampled_from([-0.0, 0.0, 1e300, -1e300, 10**400, 2**63]))
def test_whatever_is_accepted_is_returned_by_every_call(
    batch: list[MemoryItem], metadata: dict[str, Any], at: float
) -> None:
    """An item that cannot be read back is refused; it would break every call that meets it."""
    extreme = MemoryItem(id="extreme", content_summary="tea at four", metadata=metadata, created_at=at)
    wanted = [each for each in batch if each.id != extreme.id]
    collection = SqliteCollection(model=MODEL)
    collection.add(wanted)
    try:
        collection.add([extreme])
    except ValueError as error:
        assert "item 'extreme' cannot be stored" in str(error)  # noqa: PT017 - most are accepted
    else:
        wanted.append(extreme)
    same(collection.get([item.id for item in wanted]), wanted)
    same(list(collection.scan()), wanted)
    found = {hit.item.id for hit in collection.search(SearchQuery(text="tea at four", limit=99))}
    assert ("extreme" in found) == (extreme in wanted)
    assert [version.item for item in wanted for version in collection.history(item.id)] == wanted
    assert collection.info().damaged == 0
    assert collection.delete(ids=[item.id for item in wanted]) == len(wanted)
    collection.close()
