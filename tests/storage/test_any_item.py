"""Any item goes through every form and every collection unchanged."""

from __future__ import annotations

import re
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from devmem import MemoryContentSnapshot, MemoryItem
from devmem.messages import MessageBlock
from devmem.storage import Collection, JsonCollection, SearchQuery, SqliteCollection
from devmem.stores import ModelIdentity, SnapshotBlock
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


PAIR = re.compile("[\ud800-\udbff][\udc00-\udfff]")
"""Both halves of a surrogate pair, which JSON takes for the character."""


def _nested(levels: int) -> Any:
    value: Any = "core"
    for level in range(levels):
        value = [value] if level % 2 else {"a": value}
    return value


EXTREMES = st.dictionaries(
    st.text(st.characters(exclude_categories=[]), max_size=3).filter(lambda key: not PAIR.search(key)),
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


def test_half_a_surrogate_pair_in_a_key_is_kept_or_refused() -> None:
    """Pydantic writes another character for it, without a word."""
    collection = SqliteCollection(model=MODEL)
    kept = MemoryItem(id="kept", content_summary="\ufffd", metadata={"\udc00": 1, "a": [{"\ud800": "\ufffd"}]})
    alone = MemoryItem(id="alone", content_summary="tea", metadata={"\udc00": 1})
    collection.add([kept, alone])
    same(list(collection.scan()), [kept, alone])
    block = SnapshotBlock(block=MessageBlock(type="data", data={"a": [{"\udc00": 1}]}))
    refused = MemoryItem(content_summary="tea", output_snapshot=MemoryContentSnapshot(blocks=(block,)))
    with pytest.raises(ValueError, match=r"the key '\\udc00' of a block"):
        collection.add([refused])
    assert collection.count() == 2
    collection.close()
