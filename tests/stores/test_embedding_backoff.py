"""Waiting embeddings delay no write, and a list that is added in one call is stored whole or not at all."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

import pytest

from devmem import MemoryContentSnapshot, MemoryItem, MemoryWritePayload
from devmem.errors import EmbeddingUnavailableError
from devmem.storage import SqliteCollection
from devmem.stores import EmbeddingConfig, MemoryQuery, StoreSetup, Vector
from devmem.testing import FailingEmbedder, HashEmbedder, ManualClock
from devmem_stores.simple import SimpleConfig, SimpleMemory
from tests.conftest import MakeStore


def test_a_jump_of_the_wall_clock_keeps_no_item_waiting() -> None:
    embedder, wall, monotonic = FailingEmbedder(), ManualClock(), ManualClock(0.0)
    with closing(opened(model=embedder, clock=wall, monotonic=monotonic)) as store:
        store.load()
        wall.advance(1e7)
        text = "Ann moved the launch to June 2nd."
        store.update(MemoryWritePayload(inputs_text=text, output_snapshot=MemoryContentSnapshot(text=text)))
        wall.advance(-1e7)
        embedder.recover()
        monotonic.advance(60)
        store.save()
        [hit] = store.search(MemoryQuery(text="launch", limit=1))
        assert hit.similarity is not None


def opened(place: Path | None = None, model: HashEmbedder | None = None, **clocks: ManualClock) -> SimpleMemory:
    embedding = EmbeddingConfig() if model else None
    config = SimpleConfig(memory_path=str(place) if place else None, embedding=embedding)
    options = {"open_embedder": lambda _: model, **clocks}
    return SimpleMemory(StoreSetup(name="notes", store_type="simple", config=config, **options))  # type: ignore[arg-type]


def backlog(place: Path, *, items: int) -> None:
    """Make a file without a model."""
    with closing(opened(place)) as store:
        store.add([MemoryItem(content_summary=f"Boat {number} is blue.") for number in range(items)])


class SlowModel(HashEmbedder):
    """Takes a second for each call, by the clock of the test."""

    def __init__(self, clock: ManualClock) -> None:
        super().__init__()
        self.clock, self.count = clock, 0
        self.interrupted = False

    def embed(self, texts: Sequence[str]) -> Vector:
        if self.interrupted and self.count:
            raise KeyboardInterrupt
        self.clock.advance(1)
        self.count += len(texts)
        return super().embed(texts)


def test_a_write_does_not_wait_until_a_backlog_is_embedded(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """It embeds its own text, and some of the waiting items; reindexing embeds the rest."""
    backlog(tmp_path / "notes.db", items=200)
    model = SlowModel(ManualClock(0.0))
    with closing(opened(tmp_path / "notes.db", model, monotonic=model.clock)) as store:
        for number in range(2):
            store.update(MemoryWritePayload(inputs_text=f"Ann moved the launch to June {number + 1}."))
        assert model.count <= 40
        assert [record.message for record in caplog.records if "184 item(s) wait" in record.message]
        [hit] = store.search(MemoryQuery(text="launch", limit=1))
        assert hit.similarity is not None
        store.save()
        assert store.info().waiting > 100
        store.reindex()
        assert store.info().waiting == 0


def test_an_interrupted_write_has_stored_its_text(tmp_path: Path) -> None:
    """It was embedding others by then."""
    backlog(tmp_path / "notes.db", items=20)
    model = SlowModel(ManualClock(0.0))
    model.interrupted = True
    with closing(opened(tmp_path / "notes.db", model, monotonic=model.clock)) as store:
        with pytest.raises(KeyboardInterrupt):
            store.update(MemoryWritePayload(inputs_text="Ann moved the launch to June 2nd."))
        assert store.count() == 21


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
