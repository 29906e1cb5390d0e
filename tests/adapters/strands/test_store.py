"""The contract of Strands' memory stores, and the claims of our page."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Sequence
from pathlib import Path
from typing import Any

import pytest
from strands.memory import MemoryManager
from strands.memory.types import AddMessagesContext

import devmem
from devmem.adapters.strands import DevmemMemoryStore
from tests.adapters.contract import ANSWER, QUESTION, RESULT, Histories, Notes, Searches, Talks
from tests.adapters.pages import run_example


def run(done: Coroutine[Any, Any, Any]) -> Any:
    return asyncio.run(done)


def said(role: str, text: str) -> Any:
    return {"role": role, "content": [{"text": text}]}


@pytest.fixture
def store(memory: devmem.Memory) -> DevmemMemoryStore:
    return DevmemMemoryStore(memory, name="notes")


def test_what_was_added_is_found_with_its_metadata(store: DevmemMemoryStore) -> None:
    name = run(store.add("Tea without milk.", {"sure": True}))
    run(store.add("The hall is booked."))
    (entry,) = run(store.search("milk in the tea?", {"max_search_results": 1}))
    assert entry.content == "Tea without milk."
    assert entry.metadata["id"] == name
    assert entry.metadata["sure"] is True
    assert entry.metadata["score"] > 0


def test_a_write_that_is_repeated_is_kept_once(store: DevmemMemoryStore, memory: devmem.Memory) -> None:
    assert run(store.add("Tea.", {"sure": True})) == run(store.add("Tea.", {"sure": True}))
    run(store.add("Tea."))
    assert len(memory) == 2


def test_a_batch_that_is_repeated_is_kept_once(store: DevmemMemoryStore, memory: devmem.Memory) -> None:
    batch = [said("user", "Is it tea?"), said("assistant", "ok"), said("user", "ok")]
    context = AddMessagesContext(sequence_numbers=[4, 5, 7])
    ids = run(store.add_messages(batch, context))
    assert run(store.add_messages(batch, context)) == ids
    assert len(memory) == 3
    run(store.add_messages([said("user", "ok")], AddMessagesContext(sequence_numbers=[9])))
    assert len(memory) == 4
    run(store.initialize())
    run(store.add_messages([said("user", "ok")], AddMessagesContext(sequence_numbers=[7])))
    assert len(memory) == 5


def test_a_manager_searches_and_writes_it(store: DevmemMemoryStore, memory: devmem.Memory) -> None:
    """Strands' own manager."""
    manager = MemoryManager(stores=[store], add_tool_config=True)
    run(manager.add("Tea without milk."))
    (entry,) = run(manager.search("tea"))
    assert (entry.content, entry.store_name) == ("Tea without milk.", "notes")
    assert len(memory) == 1


def test_the_example_of_the_page(tmp_path: Path) -> None:
    assert run_example("strands", tmp_path) == "The launch is on May 5th.\n"


class TestContract(Notes, Talks, Histories, Searches):
    keeps_results = True
    page, hands_on = "strands", "host ids"

    def converse(self, memory: devmem.Memory, exchanges: Sequence[tuple[str, str]]) -> None:
        store = DevmemMemoryStore(memory)
        run(store.initialize())
        for at, (asked, answer) in enumerate(exchanges):
            context = AddMessagesContext(sequence_numbers=[2 * at, 2 * at + 1])
            for _ in range(2):
                run(store.add_messages([said("user", asked), said("assistant", answer)], context))

    def found(self, memory: devmem.Memory, query: str) -> int:
        return len(run(DevmemMemoryStore(memory).search(query)))

    def note(self, memory: devmem.Memory, text: str) -> None:
        run(DevmemMemoryStore(memory).add(text))

    def talk(self, memory: devmem.Memory) -> None:
        call: Any = {"role": "assistant", "content": [{"toolUse": {"toolUseId": "1", "name": "look", "input": {}}}]}
        result = {"toolUseId": "1", "status": "success", "content": [{"text": RESULT}]}
        returned: Any = {"role": "user", "content": [{"toolResult": result}]}
        batch = [said("user", QUESTION), call, returned, said("assistant", ANSWER)]
        run(DevmemMemoryStore(memory).add_messages(batch))
