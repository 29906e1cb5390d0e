"""The contract of CrewAI's storages, and the claims of our page."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any
from unittest.mock import MagicMock

import pytest
from crewai.memory.storage.backend import EmbeddingDimensionMismatchError, StorageBackend
from crewai.memory.types import MemoryRecord
from crewai.memory.unified_memory import Memory

import devmem
from devmem.adapters.crewai import DevmemStorage
from devmem.testing import HashEmbedder
from tests.adapters.contract import Notes, Searches
from tests.adapters.pages import example

LONG_AGO = datetime(2025, 1, 1)


@pytest.fixture
def memory() -> Iterator[devmem.Memory]:
    with devmem.open(":memory:", embedding=HashEmbedder()) as memory:
        yield memory


@pytest.fixture
def storage(memory: devmem.Memory) -> DevmemStorage:
    return DevmemStorage(memory)


def found(storage: DevmemStorage, question: str, **options: Any) -> list[str]:
    [vector] = storage.embedder([question])
    return [record.content for record, _ in storage.search(vector, **options)]


def test_a_record_comes_back_as_it_was_saved(storage: DevmemStorage) -> None:
    assert isinstance(storage, StorageBackend)
    record = MemoryRecord(
        content="The harbour closes at nine. " * 80,
        scope="/crew/sales",
        categories=["times", "harbour"],
        metadata={"page": 4, "nested": {"deep": [1, None]}, "sure": True},
        importance=0.8,
        created_at=datetime(2025, 3, 1, 12, 30, 15, 250000),
        source="ann",
        private=True,
    )
    storage.save([record])
    assert storage.get_record(record.id) == record
    assert storage.get_record("another") is None


def test_a_vector_of_unknown_origin_is_searched_by_meaning_alone(storage: DevmemStorage) -> None:
    storage.save([MemoryRecord(content=text) for text in ("A red kite", "Tea with milk")])
    [vector] = HashEmbedder().embed(["red kite"]).tolist()
    assert storage.search(vector, limit=1)[0][0].content == "A red kite"
    assert storage.search([0.0] * len(vector)) == []
    with pytest.raises(EmbeddingDimensionMismatchError):
        storage.search([0.5] * 7)
    with pytest.raises(EmbeddingDimensionMismatchError):
        storage.save([MemoryRecord(content="x", embedding=[0.5] * 7)])
    assert storage.count() == 2


def test_a_scope_reaches_what_is_below_it_and_nothing_that_only_begins_alike(storage: DevmemStorage) -> None:
    scopes = ("/", "/crew", "/crew/sales", "/crews", "/crew/sales/east")
    storage.save([MemoryRecord(content=f"note of {scope}", scope=scope) for scope in scopes])
    assert storage.count("/crew") == 3
    assert storage.count("/crew/sales/") == 2
    assert storage.count("/") == storage.count() == 5
    assert storage.list_scopes("/") == ["/crew", "/crews"]
    assert storage.list_scopes("/crew") == ["/crew/sales"]
    assert set(found(storage, "note", scope_prefix="/crew/sales")) == {
        "note of /crew/sales",
        "note of /crew/sales/east",
    }
    storage.reset("/crew")
    assert storage.count() == 2


def test_categories_and_metadata_narrow_a_search_and_a_deletion(storage: DevmemStorage) -> None:
    for number in range(40):
        categories, metadata = [f"c{number % 4}"], {"number": number % 5, "tags": [number % 2]}
        storage.save([MemoryRecord(content=f"note {number}", categories=categories, metadata=metadata)])
    notes = found(storage, "note", categories=["c1", "c2"], metadata_filter={"number": 3}, limit=40)
    assert {int(note.split()[1]) for note in notes} == {13, 18, 33, 38}
    assert len(found(storage, "note", metadata_filter={"tags": [1]}, limit=5)) == 5
    assert storage.list_categories() == {"c0": 10, "c1": 10, "c2": 10, "c3": 10}
    assert storage.delete(categories=["c1"], metadata_filter={"tags": [1]}) == 10
    assert storage.delete(categories=["c0"], scope_prefix="/") == 10
    assert storage.count() == 20


def test_records_are_listed_newest_first_and_deleted_by_age(storage: DevmemStorage) -> None:
    start = datetime(2025, 1, 1)
    storage.save([MemoryRecord(content=f"day {day}", created_at=start + timedelta(days=day)) for day in range(5)])
    assert [record.content for record in storage.list_records(limit=2, offset=1)] == ["day 3", "day 2"]
    info = storage.get_scope_info("/")
    assert (info.record_count, info.oldest_record, info.newest_record) == (5, start, start + timedelta(days=4))
    assert storage.delete(older_than=(start + timedelta(days=2)).replace(tzinfo=UTC)) == 2
    assert storage.delete(record_ids=[storage.list_records()[0].id]) == 1
    assert storage.count() == 2


def test_an_update_replaces_and_a_recall_writes_only_where_it_is_asked_to(memory: devmem.Memory) -> None:
    record = MemoryRecord(content="before", last_accessed=datetime(2025, 1, 1))
    storage = DevmemStorage(memory)
    storage.save([record])
    storage.update(record.model_copy(update={"content": "after"}))
    storage.touch_records([record.id])
    [kept] = storage.list_records()
    assert (kept.content, kept.last_accessed) == ("after", datetime(2025, 1, 1))
    DevmemStorage(memory, track_access=True).touch_records([record.id, "another"])
    assert storage.list_records()[0].last_accessed > datetime(2025, 1, 1)


def test_a_recall_brings_nothing_back_that_is_erased_meanwhile(
    memory: devmem.Memory, monkeypatch: pytest.MonkeyPatch
) -> None:
    storage = DevmemStorage(memory, track_access=True)
    erased, changed, kept = (MemoryRecord(content=text, last_accessed=LONG_AGO) for text in ("one", "two", "three"))
    storage.save([erased, changed, kept])
    read = memory.store.get

    def interrupted(ids: list[str]) -> Any:
        monkeypatch.undo()
        seen = read(ids)
        storage.delete(record_ids=[erased.id])
        storage.update(changed.model_copy(update={"content": "another"}))
        return seen

    monkeypatch.setattr(memory.store, "get", interrupted)
    storage.touch_records([erased.id, changed.id, kept.id])
    left = {record.content: record.last_accessed > LONG_AGO for record in storage.list_records()}
    assert left == {"another": False, "three": True}


def test_what_others_wrote_is_found_and_never_erased_by_accident(memory: devmem.Memory) -> None:
    own = memory.add("The spare key is in the shed.", metadata={"room": "shed"})
    memory.add("Nobody else's business.", user="bob")
    storage = DevmemStorage(memory)
    storage.save([MemoryRecord(content="The bicycle is in the shed.")])
    assert set(found(storage, "shed", limit=5)) == {"The spare key is in the shed.", "The bicycle is in the shed."}
    assert storage.list_scopes() == ["/devmem"]
    [record] = storage.list_records("/devmem")
    assert (record.scope, record.metadata["room"]) == ("/devmem", "shed")
    storage.reset()
    assert [each.content for each in storage.list_records()] == ["The spare key is in the shed."]
    with pytest.raises(ValueError, match="/devmem"):
        storage.save([record.model_copy(update={"content": "forged"})])
    assert storage.delete(record_ids=[record.id]) == 1
    assert own is not None
    assert memory.count(user=devmem.ANY) == 1


def test_users_do_not_see_each_other(memory: devmem.Memory) -> None:
    ann, bob = (DevmemStorage(memory.scoped(user=user)) for user in ("ann", "bob"))
    record = MemoryRecord(content="Ann's locker has the number 4711.")
    ann.save([record])
    assert bob.get_record(record.id) is None
    assert found(bob, "locker") == []
    assert bob.delete(record_ids=[record.id]) == 0
    bob.save([record.model_copy(update={"content": "Bob's own."})])
    assert ann.get_record(record.id) == record


def test_what_cannot_be_kept_is_refused(storage: DevmemStorage) -> None:
    with pytest.raises(ValueError, match=r"'crewai\.scope'"):
        storage.save([MemoryRecord(content="x", metadata={"crewai.scope": "y"})])
    storage.save([])
    assert storage.count() == 0


def test_without_a_model_records_are_found_by_words() -> None:
    with DevmemStorage.open(":memory:", embedding=None) as storage:
        memory = Memory(storage=storage, embedder=storage.embedder, llm=MagicMock())
        for number in range(16, 19):
            memory.remember(f"Invoice INV-{number} was paid late.", scope="/invoices", categories=[], importance=0.5)
        [best] = memory.recall("INV-17", scope="/invoices", limit=1, depth="shallow")
        assert best.record.content == "Invoice INV-17 was paid late."
        storage.save([MemoryRecord(content="Embedded by another model.", embedding=[0.5, 0.5])])
        assert "Embedded by another model." in found(storage, "another model")
        scores = [score for _, score in storage.search(storage.embedder(["paid late"])[0])]
        assert scores == sorted(scores, reverse=True)
        assert all(0 < score <= 1 for score in scores)
        with pytest.raises(ValueError, match=r"embedder=storage\.embedder"):
            storage.search([0.5, 0.5])
        memory.close()


def test_the_example_of_the_page_works(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    # The page opens the memory with minilm, whose package is not in this environment.
    monkeypatch.setattr(DevmemStorage, "open", partial(DevmemStorage.open, embedding=HashEmbedder()))
    exec(example("crewai"), {"llm": MagicMock()})
    assert "INV-17" in capsys.readouterr().out


class TestContract(Notes, Searches):
    def found(self, memory: devmem.Memory, query: str) -> int:
        storage = DevmemStorage(memory)
        return len(storage.search(storage.embedder([query])[0]))

    def note(self, memory: devmem.Memory, text: str) -> None:
        DevmemStorage(memory).save([MemoryRecord(content=text)])
