"""Whatever happens to the snapshot file of the indexes, a search returns what is in the database."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from devmem import MemoryItem
from devmem.storage import SearchQuery, SqliteCollection
from devmem.stores import PassageEmbeddings
from devmem.testing import HashEmbedder

Notes = Callable[..., list[MemoryItem]]
MANY = 300
"""More than the least number of items for which a snapshot is written."""


def check_search(path: Path, embedder: HashEmbedder, text: str = "number 7 about rain") -> None:
    """Compare the search with a product over the vectors that the database has."""
    query = embedder.vector(text)
    collection = SqliteCollection(path, model=embedder.identity)
    items = list(collection.scan())
    matrix = np.array([item.embedding for item in items])
    wanted = np.sort(matrix @ query)[::-1][:20]
    hits = collection.search(SearchQuery(vector=query, limit=20))
    collection.close()
    by_id = {item.id: item for item in items}
    assert [hit.similarity for hit in hits] == pytest.approx(wanted.tolist(), abs=8e-3)
    for hit in hits:
        vector = by_id[hit.item.id].embedding
        assert vector is not None
        assert hit.similarity == pytest.approx(float(vector @ query), abs=8e-3)


@pytest.fixture
def store(tmp_path: Path, notes: Notes, embedder: HashEmbedder) -> Path:
    """A database of `MANY` items beside its snapshot."""
    path = tmp_path / "store.db"
    fill(path, embedder, notes(0, MANY))
    assert snapshot_of(path).exists()
    return path


def fill(path: Path, embedder: HashEmbedder, items: list[MemoryItem]) -> None:
    collection = SqliteCollection(path, model=embedder.identity)
    collection.add(items)
    collection.search(SearchQuery(vector=embedder.vector("anything")))
    collection.close()


def snapshot_of(path: Path) -> Path:
    return Path(f"{path}.faiss")


def test_an_intact_snapshot_is_used(store: Path, embedder: HashEmbedder, caplog: pytest.LogCaptureFixture) -> None:
    before = snapshot_of(store).read_bytes()
    check_search(store, embedder)
    assert snapshot_of(store).read_bytes() == before
    assert not caplog.records


def test_a_missing_snapshot(store: Path, embedder: HashEmbedder) -> None:
    snapshot_of(store).unlink()
    check_search(store, embedder)
    assert snapshot_of(store).exists(), "it is written again"


@pytest.mark.parametrize("share", [0.0, 0.001, 0.01, 0.1, 0.5, 0.9, 0.99])
def test_a_truncated_snapshot(
    store: Path, embedder: HashEmbedder, share: float, caplog: pytest.LogCaptureFixture
) -> None:
    whole = snapshot_of(store).read_bytes()
    snapshot_of(store).write_bytes(whole[: int(len(whole) * share)])
    check_search(store, embedder)
    assert "is damaged" in caplog.text


@pytest.mark.parametrize("share", [0.0, 0.0008, 0.002, 0.01, 0.05, 0.2, 0.5, 0.9, 0.99999])
def test_a_flipped_bit(store: Path, embedder: HashEmbedder, share: float) -> None:
    damaged = bytearray(snapshot_of(store).read_bytes())
    damaged[int(len(damaged) * share)] ^= 0x10
    snapshot_of(store).write_bytes(damaged)
    check_search(store, embedder)


def test_a_folder_in_the_place_of_the_snapshot(store: Path, embedder: HashEmbedder) -> None:
    snapshot_of(store).unlink()
    snapshot_of(store).mkdir()
    check_search(store, embedder)


def test_the_snapshot_of_another_database(store: Path, tmp_path: Path, notes: Notes, embedder: HashEmbedder) -> None:
    """It has as many rows, and none of these vectors."""
    other = tmp_path / "other.db"
    fill(other, embedder, notes(0, MANY, about="letter"))
    shutil.copy(snapshot_of(other), snapshot_of(store))
    check_search(store, embedder)
    check_search(store, embedder, "letter number 7")


def test_a_snapshot_that_lags_behind(store: Path, notes: Notes, embedder: HashEmbedder) -> None:
    """Adds, deletions, replacements and late embeddings since the snapshot are followed."""
    late = MemoryItem(id="late", content_summary="number 7 about rain and more")
    collection = SqliteCollection(store, model=embedder.identity)
    collection.add([late, *notes(MANY, MANY + 20)])
    collection.delete(ids=[item.id for item in notes(0, 15)])
    collection.add([MemoryItem(id="note 20", content_summary="replaced", embedding=embedder.vector("replaced"))])
    collection.set_embeddings({"late": PassageEmbeddings.of(embedder.vector(late.content_summary))})
    before = snapshot_of(store).read_bytes()
    collection.close()
    assert snapshot_of(store).read_bytes() == before, "so few changes are not worth a new snapshot"
    check_search(store, embedder)
    check_search(store, embedder, "replaced")


def test_a_database_put_back_from_a_backup(store: Path, notes: Notes, embedder: HashEmbedder) -> None:
    """The snapshot knows items that the restored database does not have."""
    backup = store.with_suffix(".backup")
    shutil.copy(store, backup)
    fill(store, embedder, notes(MANY, 3 * MANY))
    shutil.copy(backup, store)
    check_search(store, embedder, f"note number {2 * MANY} about tea")


def test_a_restored_database_that_grew_another_way(store: Path, notes: Notes, embedder: HashEmbedder) -> None:
    """Its new items have the row numbers of items that only the snapshot knows."""
    backup = store.with_suffix(".backup")
    shutil.copy(store, backup)
    fill(store, embedder, notes(MANY, 3 * MANY))
    snapshot = snapshot_of(store).read_bytes()
    shutil.copy(backup, store)
    fill(store, embedder, notes(0, 3 * MANY, about="letter"))
    snapshot_of(store).write_bytes(snapshot)
    check_search(store, embedder, "letter number 7 about bread")


def test_a_snapshot_from_before_another_model(store: Path, embedder: HashEmbedder) -> None:
    other = HashEmbedder(dimension=32, name="testing:other")
    collection = SqliteCollection(store, model=embedder.identity)
    old = snapshot_of(store).read_bytes()
    collection.replace_model(other.identity.name, 32)
    waiting = collection.waiting(2 * MANY)
    collection.set_embeddings(
        {item.id: PassageEmbeddings.of(-embedder.vector(item.content_summary)) for item in waiting}
    )
    collection.close()
    snapshot_of(store).write_bytes(old)
    check_search(store, other)


def test_a_snapshot_that_cannot_be_written_costs_nothing(tmp_path: Path, notes: Notes, embedder: HashEmbedder) -> None:
    path = tmp_path / "store.db"
    snapshot_of(path).mkdir()
    fill(path, embedder, notes(0, MANY))
    check_search(path, embedder)
    assert not list(tmp_path.glob("*.part"))


def test_a_snapshot_of_another_version_is_rebuilt_silently(
    store: Path, embedder: HashEmbedder, caplog: pytest.LogCaptureFixture
) -> None:
    """It is not damage: the store may have been used by another devmem."""
    old = snapshot_of(store).read_bytes()
    snapshot_of(store).write_bytes(b"devmem index 3\n" + old[old.index(b"\n") + 1 :])
    check_search(store, embedder)
    assert not caplog.records
    assert snapshot_of(store).read_bytes().startswith(old[: old.index(b"\n")]), "it is written again"
