"""Issue 27, item 10: a list that is added in one call is stored whole or not at all."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from devmem import MemoryItem
from devmem.errors import EmbeddingUnavailableError
from devmem.storage import SqliteCollection
from devmem.stores import Vector
from devmem.testing import HashEmbedder
from devmem_stores.simple import SimpleMemory
from tests.conftest import MakeStore

MANY = [MemoryItem(id=str(n), content_summary=f"note number {n}") for n in range(1_000)]


class Watched(HashEmbedder):
    """Counts, with each call, the items that another reader of the file sees; fails after some calls."""

    def __init__(self, path: Path, *, calls: int = 99, error: BaseException | None = None) -> None:
        super().__init__()
        self._path, self._calls, self._error = path, calls, error
        self.seen: list[int] = []

    def embed(self, texts: Sequence[str]) -> Vector:
        reader = SqliteCollection(self._path, model=self.identity)
        self.seen.append(reader.count())
        reader.close()
        if len(self.seen) > self._calls and self._error is not None:
            raise self._error
        return super().embed(texts)


def test_nobody_sees_a_part_of_a_list(make_store: MakeStore, tmp_path: Path) -> None:
    embedder = Watched(tmp_path / "notes.db")
    store = make_store(SimpleMemory, embedder=embedder, memory_path="notes.db")
    assert len(store.add(MANY)) == len(MANY)
    assert len(embedder.seen) > 1
    assert set(embedder.seen) == {0}
    assert store.count() == len(MANY)


def test_a_list_that_was_interrupted_is_not_stored(make_store: MakeStore, tmp_path: Path) -> None:
    embedder = Watched(tmp_path / "notes.db", calls=2, error=KeyboardInterrupt())
    store = make_store(SimpleMemory, embedder=embedder, memory_path="notes.db")
    with pytest.raises(KeyboardInterrupt):
        store.add(MANY)
    assert store.count() == 0


def test_an_outage_costs_only_the_rest_of_the_embeddings(make_store: MakeStore, tmp_path: Path) -> None:
    embedder = Watched(tmp_path / "notes.db", calls=2, error=EmbeddingUnavailableError("down"))
    store = make_store(SimpleMemory, embedder=embedder, memory_path="notes.db")
    outcomes = store.add(MANY)
    assert 0 < sum(not outcome.waiting for outcome in outcomes) < len(MANY)
    assert store.count() == len(MANY)
    assert len(embedder.seen) == 3, "the provider is left alone"
