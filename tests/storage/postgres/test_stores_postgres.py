"""Stores of each kind in a database: all that belongs to them is there too, and no file is beside it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

import devmem
from devmem import MemoryContentSnapshot, MemoryWritePayload, Scope
from devmem.memory.memory import Memory
from devmem.model.items import MemoryItem, Provenance
from devmem.storage.postgres.collection import PostgresCollection
from devmem.stores import Embedder, StoreSetup
from devmem.stores.staleness import StaleReason, stale_items
from devmem.testing import HashEmbedder
from devmem_stores.brain import BrainMemory
from devmem_stores.brain.config import BrainConfig
from devmem_stores.file import FileConfig, FileMemory
from tests.models.service import ChatService
from tests.stores.test_facts import (
    DOWN,
    FactCases,
    Open,
    caught_up,
    diet_of,
    open_memory,
    service,
    store_of,
    values_in,
)

pytestmark = pytest.mark.postgres

OpenBrain = Callable[[], BrainMemory]


@pytest.fixture
def open_brain(store_url: str, tmp_path: Path) -> Iterator[OpenBrain]:
    opened: list[BrainMemory] = []

    def open_brain() -> BrainMemory:
        folder = tmp_path / f"machine {len(opened)}"
        folder.mkdir()
        config = BrainConfig(memory_path=store_url, max_messages=4)
        setup = StoreSetup(name="chats", store_type="brain", config=config, base_dir=folder, session_dir=folder)
        store = BrainMemory(setup)
        store.load()
        opened.append(store)
        return store

    yield open_brain
    for store in opened:
        store.close()
    assert not [file for file in tmp_path.rglob("*") if file.is_file()]


def tell(store: BrainMemory, text: str) -> None:
    store.update(
        MemoryWritePayload(
            inputs_text=text, output_snapshot=MemoryContentSnapshot(text="Noted."), scope=Scope(user="ann")
        )
    )


def history(store: BrainMemory) -> list[str]:
    state = store.brain("ann").snapshot()
    return [entry.message.text() for entry in state.entries]


def test_another_machine_goes_on_with_the_conversation(open_brain: OpenBrain) -> None:
    one, two = open_brain(), open_brain()
    tell(one, "The launch is in June.")
    assert "The launch is in June." in history(two)
    tell(two, "It moved to July.")
    assert history(one) == history(two)
    assert "It moved to July." in history(one)


def test_what_is_forgotten_leaves_the_conversation_everywhere(open_brain: OpenBrain) -> None:
    one, two = open_brain(), open_brain()
    tell(one, "The code is 4711.")
    two.pop()
    assert not [text for text in history(one) if "4711" in text]


OpenFiles = Callable[..., FileMemory]


@pytest.fixture
def docs(tmp_path: Path) -> Path:
    folder = tmp_path / "docs"
    folder.mkdir()
    for number in range(6):
        (folder / f"page{number}.md").write_text(f"# Page {number}\n\nThe boiler of house {number} is blue.\n")
    return folder


@pytest.fixture
def open_files(store_url: str, tmp_path: Path, docs: Path) -> Iterator[OpenFiles]:
    opened: list[FileMemory] = []

    def open_files(embedder: Embedder | None = None) -> FileMemory:
        config = {
            "index_path": store_url, "file_sources": {"path": str(docs)}, "embedding": {"provider": "openai"}
        }  # fmt: skip
        setup = StoreSetup(
            name="docs",
            store_type="file",
            config=FileConfig.model_validate(config),
            base_dir=tmp_path,
            session_dir=tmp_path / "session",
            open_embedder=lambda _: embedder or HashEmbedder(32),
        )
        store = FileMemory(setup)
        opened.append(store)
        return store

    yield open_files
    for store in opened:
        store.close()
    assert {file.parent for file in tmp_path.rglob("*") if file.is_file()} <= {docs}


def chunks(store: FileMemory) -> list[str]:
    return sorted(item.content_summary for item in store.collection.scan())


def test_machines_that_index_at_once_agree(open_files: OpenFiles) -> None:
    stores = [open_files() for _ in range(4)]
    with ThreadPoolExecutor(4) as pool:
        reports = list(pool.map(FileMemory.index, stores))
    assert sorted(report.stored for report in reports) == [0, 0, 0, 6]
    assert len(chunks(stores[0])) == 6


__all__ = ["open_memory", "service"]


class TestInPostgres(FactCases):
    @pytest.fixture
    def place(self, store_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
        monkeypatch.chdir(tmp_path)
        yield store_url
        assert list(tmp_path.rglob("*.facts")) == []

    def test_another_machine_extracts_what_waits(self, open_memory: Open, service: ChatService) -> None:
        """The one that stored the turns may be gone."""
        service.script = [DOWN]
        one, two = open_memory(), open_memory()
        one.add("My diet is vegan.", user="ann")
        caught_up(one)
        assert caught_up(two).waiting == 1
        one.close()
        service.script = [diet_of]
        assert caught_up(two).extracted == 1
        assert values_in(two) == [("ann", "vegan")]
        status = store_of(two).fact_status()
        assert status is not None
        assert (status.waiting, status.calls, status.calls - status.failures) == (0, len(service.requests), 1)


FACT, CHANGED = "The launch is on May 5th.", "The launch is on June 2nd."
CONCLUSION = "So the venue must be booked until May 5th."
CHANGED_REASON, CHAINED = StaleReason.CHANGED.value, StaleReason.STALE_SOURCE.value
Opened = Callable[..., Memory]


@pytest.fixture
def opened(store_url: str) -> Opened:
    """Open the same store, as often as a test likes."""

    def open_it(**config: object) -> Memory:
        return devmem.open({"type": "simple", "config": {"memory_path": store_url, **config}})

    return open_it


def reasons(memory: Memory) -> dict[str, str]:
    return {each.item.id: each.reason for each in memory.stale()}


def told(memory: Memory) -> None:
    """Add a fact, and a conclusion of a conclusion of it."""
    fact = memory.add(FACT, key="launch")
    memory.add(CONCLUSION, derived_from=[fact], id="venue")
    memory.add("So the caterer comes on May 5th.", derived_from=["venue"], id="caterer")


def test_ten_thousand_dependants(opened: Opened) -> None:
    with opened() as memory:
        fact = memory.add(FACT, key="launch")
        parents = Provenance(parents=(fact,))
        memory.store.add(
            [MemoryItem(content_summary=f"Booking {n}.", id=f"n{n}", provenance=parents) for n in range(10_000)]
        )
        assert stale_items(memory.store) == []
        memory.add(CHANGED, key="launch")
        assert [each.item.id for each in stale_items(memory.store)] == [f"n{n}" for n in range(10_000)]
        assert all(hit.stale for hit in memory.search("booking 77", limit=5))


def test_a_save_renews_and_reads_no_item_where_nothing_can_be_stale(
    opened: Opened, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[int] = []
    derived = PostgresCollection.derived

    def counted(collection: PostgresCollection, after: int = 0) -> list[MemoryItem]:
        found = derived(collection, after)
        calls.append(len(found))
        return found

    monkeypatch.setattr(PostgresCollection, "derived", counted)
    with opened(on_stale="renew") as memory, opened() as other:
        told(memory)
        memory.store.save()
        calls.clear()
        memory.store.save()
        assert calls == []
        memory.add("It rains.")
        memory.store.save()
        assert calls == [0]
        other.add(CHANGED, key="launch")
        memory.store.save()
        assert reasons(memory) == {}
        assert [memory.get(name).text for name in ("venue", "caterer")] == [CHANGED, CHANGED]  # type: ignore[union-attr]
        assert [version.item.text for version in memory.history("venue")] == [CONCLUSION, CHANGED]
