"""The contract of the harness's stores of memory files, as its own stores keep it."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from pydantic_ai import Agent
from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart, ToolCallPart, ToolReturnPart
from pydantic_ai.models.function import FunctionModel
from pydantic_ai_harness.memory import (
    Memory,
    MemoryConflictError,
    MemoryOperation,
    MemoryOperationConflictError,
)

import devmem
from devmem.adapters.files import FileCommands
from devmem.adapters.pydantic_ai import DevmemHarnessStore
from tests.adapters.pages import run_example

NOTES = "notes/main.md"


@pytest.fixture
def store(memory: devmem.Memory) -> DevmemHarnessStore:
    return DevmemHarnessStore(memory)


async def test_a_version_is_compared_and_set(store: DevmemHarnessStore) -> None:
    created = await store.write(NOTES, "one", expected_version=None)
    assert (created.existed, created.replayed) == (False, False)
    file = await store.read(NOTES, max_chars=1_000)
    assert file
    assert (file.content, file.version, file.operation_id) == ("one", created.version, None)
    updated = await store.write(NOTES, "two", expected_version=file.version)
    assert updated.existed
    assert updated.version != created.version
    for expected in (None, created.version, "another"):
        with pytest.raises(MemoryConflictError):
            await store.write(NOTES, "stale", expected_version=expected)
        with pytest.raises(MemoryConflictError):
            await store.delete(NOTES, expected_version=expected)
    deleted = await store.delete(NOTES, expected_version=updated.version)
    assert (deleted.version, deleted.existed) == (None, True)
    assert await store.read(NOTES, max_chars=1_000) is None
    assert not (await store.delete(NOTES, expected_version=None)).existed


async def test_reading_and_listing_are_bounded(store: DevmemHarnessStore) -> None:
    for path in ("c.md", "a.md", "b/c.md", "b.md"):
        await store.write(path, "0123456789", expected_version=None)
    short = await store.read("a.md", max_chars=4)
    whole = await store.read("a.md", max_chars=10)
    assert short
    assert whole
    assert (short.content, short.truncated, whole.truncated) == ("0123", True, False)
    assert short.version == whole.version
    assert await store.list_paths(limit=10) == ["a.md", "b.md", "b/c.md", "c.md"]
    assert await store.list_paths(limit=2) == ["a.md", "b.md"]
    assert await store.list_paths("b", limit=10) == ["b.md", "b/c.md"]
    assert await store.list_paths("b/", limit=10) == ["b/c.md"]
    with pytest.raises(ValueError, match="max_chars"):
        await store.read("a.md", max_chars=0)
    with pytest.raises(ValueError, match="limit"):
        await store.list_paths(limit=0)


@pytest.mark.parametrize(
    "path", ["../x.md", "/x.md", "a//b.md", "a/../b.md", "a/./b.md", "a b.md", "", "a/" + "b" * 201]
)
async def test_a_path_that_is_none_is_refused(store: DevmemHarnessStore, path: str) -> None:
    for call in (
        store.read(path, max_chars=10),
        store.write(path, "x", expected_version=None),
        store.delete(path, expected_version=None),
    ):
        with pytest.raises(ValueError, match="invalid memory path"):
            await call


class TestOperations:
    async def test_a_repeated_operation_is_not_done_again(self, store: DevmemHarnessStore) -> None:
        write = MemoryOperation(id="run:1", fingerprint="write one")
        delete = MemoryOperation(id="run:2", fingerprint="delete")
        assert await store.get_operation(write) is None
        first = await store.write(NOTES, "one", expected_version=None, operation=write)
        changed = await store.write(NOTES, "two", expected_version=first.version)
        again = await store.write(NOTES, "one", expected_version=None, operation=write)
        assert (again.version, again.existed, again.replayed) == (first.version, False, True)
        assert await store.get_operation(write) == again
        file = await store.read(NOTES, max_chars=10)
        assert file
        assert (file.content, file.operation_id) == ("two", None)
        await store.delete(NOTES, expected_version=changed.version, operation=delete)
        await store.write(NOTES, "three", expected_version=None)
        replayed = await store.delete(NOTES, expected_version=changed.version, operation=delete)
        assert (replayed.existed, replayed.replayed, replayed.version) == (True, True, None)
        assert await store.read(NOTES, max_chars=10) is not None

    async def test_an_id_with_other_arguments_is_refused(self, store: DevmemHarnessStore) -> None:
        await store.write(NOTES, "one", expected_version=None, operation=MemoryOperation("run:1", "write one"))
        other = MemoryOperation("run:1", "write two")
        with pytest.raises(MemoryOperationConflictError, match="'run:1' was reused"):
            await store.get_operation(other)
        with pytest.raises(MemoryOperationConflictError):
            await store.write("b.md", "two", expected_version=None, operation=other)
        assert await store.list_paths(limit=10) == [NOTES]

    async def test_an_operation_that_did_not_happen_has_no_receipt(self, store: DevmemHarnessStore) -> None:
        operation = MemoryOperation("run:1", "write one")
        with pytest.raises(MemoryConflictError):
            await store.write(NOTES, "one", expected_version="none", operation=operation)
        assert await store.get_operation(operation) is None
        assert (await store.write(NOTES, "one", expected_version=None, operation=operation)).replayed is False

    async def test_an_operation_that_runs_twice_at_once_is_done_once(self, store: DevmemHarnessStore) -> None:
        operation = MemoryOperation("run:1", "write one")
        calls = [store.write(NOTES, "one", expected_version=None, operation=operation) for _ in range(4)]
        results = await asyncio.gather(*calls)
        assert sorted(result.replayed for result in results) == [False, True, True, True]
        assert len({result.version for result in results}) == 1

    def test_receipts_are_in_no_search(self, store: DevmemHarnessStore, memory: devmem.Memory) -> None:
        asyncio.run(store.write(NOTES, "tea", expected_version=None, operation=MemoryOperation("tea", "tea")))
        assert [hit.text for hit in memory.search("tea receipt operation", limit=10)] == ["tea"]


async def test_metadata_is_of_the_version_that_it_was_recorded_with(store: DevmemHarnessStore) -> None:
    made = await store.write_with_metadata(NOTES, "one", expected_version=None, metadata={"by": "agent"})
    file = await store.read(NOTES, max_chars=10)
    assert file
    assert file.metadata == {"by": "agent"}
    await store.write(NOTES, "two", expected_version=made.version)
    file = await store.read(NOTES, max_chars=10)
    assert file
    assert file.metadata is None
    with pytest.raises(TypeError, match="must be strings"):
        await store.write_with_metadata("b", "x", expected_version=None, metadata={"by": 1})  # type: ignore[dict-item]
    with pytest.raises(ValueError, match="the limit is 4096"):
        await store.write_with_metadata("b", "x", expected_version=None, metadata={"by": "x" * 5_000})


class TestSearching:
    async def fill(self, store: DevmemHarnessStore) -> None:
        for path, text in (
            ("ann/main/drinks.md", "Ann takes her tea without milk. " * 5),
            ("ann/main/travel.md", "She prefers the night train."),
            ("ann/main/deep/tea.md", "tea of another agent"),
            ("ben/main/tea.md", "tea of Ben"),
        ):
            await store.write(path, text, expected_version=None)

    async def test_only_what_is_directly_below_the_prefix_is_found(self, store: DevmemHarnessStore) -> None:
        await self.fill(store)
        found = await store.search("ann/main/", "tea", limit=5, max_files=5, max_chars=500, max_file_chars=500)
        assert [match.path for match in found.matches] == ["ann/main/drinks.md"]
        assert "tea without milk" in found.matches[0].snippet
        assert (found.scanned, found.truncated) == (2, False)
        by_name = await store.search("ann/main/", "travel", limit=5, max_files=5, max_chars=99, max_file_chars=9)
        assert [match.path for match in by_name.matches] == ["ann/main/travel.md"]


class TestWithTheHarness:
    def talk(self, memory: devmem.Memory, *steps: ModelResponse) -> list[ModelMessage]:
        """Run an agent with the capability, whose model takes some steps; return the messages."""
        left = [*steps, ModelResponse([TextPart("Done.")])]
        agent = Agent(
            FunctionModel(lambda _messages, _info: left.pop(0)), capabilities=[Memory(store=DevmemHarnessStore(memory))]
        )
        return list(asyncio.run(agent.run("Hello.")).all_messages())

    def test_a_model_keeps_a_notebook_that_everybody_finds(self, tmp_path: Path) -> None:
        write = ToolCallPart("write_memory", {"content": "Ann takes her tea without milk."})
        with devmem.open(tmp_path / "notes.db", embedding=None) as memory:
            self.talk(memory, ModelResponse([write]))
            assert memory.search("milk in the tea")[0].text == "Ann takes her tea without milk.\n"
            assert "without milk" in FileCommands(memory).view("/memories/main/MEMORY.md")
        with devmem.open(tmp_path / "notes.db", embedding=None) as memory:
            messages = self.talk(
                memory,
                ModelResponse([ToolCallPart("search_memory", {"query": "tea"})]),
                ModelResponse([ToolCallPart("write_memory", {"content": "oat milk", "old_text": "without milk"})]),
                ModelResponse([ToolCallPart("read_memory", {"file": "MEMORY.md"})]),
            )
        answered = next(at for at, message in enumerate(messages) if isinstance(message, ModelResponse))
        assert "without milk" in str(messages[:answered])
        returned = [part for message in messages for part in message.parts if isinstance(part, ToolReturnPart)]
        assert returned[0].content["matches"][0]["file"] == "MEMORY.md"
        assert returned[1].content["status"] == "updated"
        assert "oat milk" in returned[2].content


async def test_no_path_leaves_the_scope(memory: devmem.Memory) -> None:
    ann, ben = (DevmemHarnessStore(memory.scoped(user=user)) for user in ("ann", "ben"))
    operation = MemoryOperation("run:1", "write one")
    await ann.write(NOTES, "of ann", expected_version=None, operation=operation)
    assert await ben.read(NOTES, max_chars=10) is None
    assert await ben.list_paths(limit=10) == []
    assert await ben.get_operation(operation) is None


def test_the_example_of_the_page_runs(tmp_path: Path) -> None:
    assert run_example("pydantic_ai", tmp_path).splitlines() == ["Noted.", "['When is the launch?', 'Noted.']"]
