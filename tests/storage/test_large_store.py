"""A store that is large enough for the approximate index: its snapshot, its damage, its configuration."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from devmem import Hit, MemoryItem
from devmem.config import IndexConfig
from devmem.search.indexes import index_set as snapshot
from devmem.search.indexes.index_set import load_indexes
from devmem.storage import SearchQuery, SqliteCollection
from devmem.stores import PassageEmbeddings
from devmem.testing import HashEmbedder

Notes = Callable[..., list[MemoryItem]]
MANY = 2400
CONFIG = IndexConfig(search="approximate")
TEXT = "number 7 about rain"
ROUNDING = 2e-3


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the store that the tests copy is made, by the first of them."""
    return tmp_path_factory.mktemp("large") / "store.db"


@pytest.fixture
def store(template: Path, tmp_path: Path, notes: Notes, embedder: HashEmbedder) -> Path:
    """A database of `MANY` items beside a snapshot with the approximate index."""
    if not template.exists():
        collection = opened(template, embedder)
        collection.add(notes(0, MANY))
        search(collection, embedder)
        settle(collection)
        collection.close()
    path = tmp_path / "store.db"
    shutil.copy(template, path)
    shutil.copy(snapshot_of(template), snapshot_of(path))
    return path


@pytest.fixture(params=["read", "mapped"])
def reading(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Have even small snapshots mapped, as large ones are."""
    if request.param == "mapped":
        monkeypatch.setattr(snapshot, "_MAP_FROM", 1)


def opened(path: Path, embedder: HashEmbedder, config: IndexConfig = CONFIG) -> SqliteCollection:
    return SqliteCollection(path, model=embedder.identity, index=config)


def settle(collection: SqliteCollection) -> None:
    collection._follower.indexes.wait_for_build()


def snapshot_of(path: Path) -> Path:
    return Path(f"{path}.faiss")


def search(collection: SqliteCollection, embedder: HashEmbedder, text: str = TEXT) -> list[Hit]:
    return collection.search(SearchQuery(text=text, vector=embedder.vector(text), limit=10))


def check(path: Path, embedder: HashEmbedder, text: str = TEXT) -> None:
    """Compare what is found with what an opening without a snapshot finds."""
    collection = opened(path, embedder)
    hits = search(collection, embedder, text)
    by_words = collection.search(SearchQuery(text=text, limit=10))
    matrix = np.array([item.embedding for item in collection.scan()])
    wanted = np.sort(matrix @ embedder.vector(text))[::-1][0]
    collection.close()
    snapshot_of(path).unlink(missing_ok=True)
    fresh = opened(path, embedder, IndexConfig(search="exact"))
    for found, again in (
        (hits, search(fresh, embedder, text)),
        (by_words, fresh.search(SearchQuery(text=text, limit=10))),
    ):
        for hit, other in zip(found, again, strict=True):
            # Hits whose scores differ by less than vectors are rounded may change places.
            assert hit.item.id == other.item.id or hit.score == pytest.approx(other.score, abs=ROUNDING)
        # Rows that were deleted since count in the words' statistics for a while.
        assert [hit.lexical for hit in found] == pytest.approx([hit.lexical for hit in again], rel=0.1)
    similarities = [hit.similarity for hit in hits if hit.similarity is not None]
    assert max(similarities) == pytest.approx(float(wanted), abs=5e-3)
    fresh.close()


def is_approximate(path: Path) -> bool:
    found = load_indexes(snapshot_of(path), CONFIG, lambda _: True)
    assert found is not None
    return found[0].approximate


def test_a_snapshot_whose_vectors_are_of_an_earlier_version(
    store: Path, embedder: HashEmbedder, caplog: pytest.LogCaptureFixture
) -> None:
    """Its other parts are used, and its vectors are read from the database and indexed again."""
    found = snapshot.load_snapshot(snapshot_of(store))
    assert found is not None
    parts = {name.replace("rotated_vectors/", "vectors/"): part for name, part in found[0].items()}
    assert parts.keys() != found[0].keys()
    assert snapshot.save_snapshot(snapshot_of(store), parts, found[1])
    assert not is_approximate(store)
    collection = opened(store, embedder)
    assert search(collection, embedder)
    settle(collection)
    assert collection._follower.indexes.approximate
    assert search(collection, embedder)
    collection.close()
    assert is_approximate(store), "it is written again"
    assert not caplog.records
    check(store, embedder)


@pytest.mark.usefixtures("reading")
def test_the_index_is_not_made_again(store: Path, embedder: HashEmbedder, caplog: pytest.LogCaptureFixture) -> None:
    before = snapshot_of(store).read_bytes()
    assert is_approximate(store)
    collection = opened(store, embedder)
    assert search(collection, embedder)
    assert collection._follower.indexes.approximate
    collection.close()
    assert snapshot_of(store).read_bytes() == before
    assert not caplog.records
    check(store, embedder)


@pytest.mark.usefixtures("reading")
def test_what_was_written_since_the_snapshot(store: Path, notes: Notes, embedder: HashEmbedder) -> None:
    """Adds, deletions and late embeddings are followed, in words and vectors."""
    collection = opened(store, embedder)
    late = MemoryItem(id="late", content_summary=f"{TEXT} and more")
    collection.add([late, *notes(MANY, MANY + 100)])
    collection.delete(ids=[item.id for item in notes(0, 20)])
    collection.set_embeddings({"late": PassageEmbeddings.of(embedder.vector(late.content_summary))})
    collection.close()
    again = opened(store, embedder)
    hits = search(again, embedder, late.content_summary)
    assert hits[0].item.id == "late"
    assert hits[0].similarity == pytest.approx(1, abs=1e-3)
    assert not {hit.item.id for hit in hits} & {item.id for item in notes(0, 20)}
    again.close()
    check(store, embedder)


@pytest.mark.usefixtures("reading")
@pytest.mark.parametrize(
    "place", [pytest.param(i / 8 + 0.001, marks=[pytest.mark.kit] if i % 2 else []) for i in range(8)]
)
def test_a_flipped_bit(store: Path, embedder: HashEmbedder, place: float) -> None:
    damaged = bytearray(snapshot_of(store).read_bytes())
    damaged[int(len(damaged) * place)] ^= 0x08
    snapshot_of(store).write_bytes(damaged)
    check(store, embedder)


@pytest.mark.usefixtures("reading")
@pytest.mark.parametrize(
    "share", [0.0, 0.002, 0.8, *(pytest.param(at, marks=pytest.mark.kit) for at in (0.0001, 0.3, 0.99))]
)
def test_a_truncated_snapshot(
    store: Path, embedder: HashEmbedder, share: float, caplog: pytest.LogCaptureFixture
) -> None:
    whole = snapshot_of(store).read_bytes()
    snapshot_of(store).write_bytes(whole[: int(len(whole) * share)])
    check(store, embedder)
    assert "the index is rebuilt" in caplog.text


def test_the_snapshot_of_another_configuration(store: Path, embedder: HashEmbedder) -> None:
    """Who wants an exact search gets one, and its snapshot takes the approximate one's place."""
    collection = opened(store, embedder, IndexConfig(search="exact"))
    search(collection, embedder)
    assert not collection._follower.indexes.approximate
    collection.close()
    assert not is_approximate(store)
    check(store, embedder)


def test_closing_while_the_index_is_made(tmp_path: Path, notes: Notes, embedder: HashEmbedder) -> None:
    """The items that are there are in the snapshot nevertheless."""
    path = tmp_path / "store.db"
    collection = opened(path, embedder)
    collection.add(notes(0, MANY))
    search(collection, embedder)
    collection.close()
    check(path, embedder)


def test_a_store_without_embeddings_has_a_snapshot_of_its_words(tmp_path: Path, notes: Notes) -> None:
    path = tmp_path / "store.db"
    collection = SqliteCollection(path)
    collection.add([MemoryItem(id=f"{n}", content_summary=f"note {n} of rain") for n in range(600)])
    before = [hit.item.id for hit in collection.search(SearchQuery(text="note 77"))]
    collection.close()
    found = load_indexes(snapshot_of(path), CONFIG, lambda _: True)
    assert found is not None
    assert found[0].size == 600
    again = SqliteCollection(path)
    assert [hit.item.id for hit in again.search(SearchQuery(text="note 77"))] == before
    again.close()
