"""agentUniverse's memory components over our storages, and its own agents with them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from agentuniverse.agent.agent import Agent
from agentuniverse.agent.agent_model import AgentModel
from agentuniverse.agent.memory.memory_compressor.memory_compressor import MemoryCompressor
from agentuniverse.agent.memory.memory_compressor.memory_compressor_manager import MemoryCompressorManager
from agentuniverse.agent.memory.memory_manager import MemoryManager
from agentuniverse.agent.memory.memory_storage.memory_storage import MemoryStorage
from agentuniverse.agent.memory.memory_storage.memory_storage_manager import MemoryStorageManager
from agentuniverse.agent.memory.message import Message

import devmem
from devmem.adapters.agentuniverse import DevmemAgentMemory, DevmemChatMemory, DevmemMemoryStorage
from tests.adapters.pages import run_example


class Counting(MemoryCompressor):
    """A compressor that counts how often a model would be asked."""

    calls: int = 0
    answer: str = "Tea was had."

    def compress_memory(
        self, new_memories: list[Message], max_tokens: int = 500, existing_memory: str = "", **_: object
    ) -> str:
        assert new_memories
        assert max_tokens > 0
        self.calls += 1
        return self.answer

    def create_copy(self) -> Counting:
        return self


class Broken(MemoryStorage):
    def add(self, *_: object, **__: object) -> None:
        raise OSError("disk full")


@pytest.fixture
def compressor() -> Counting:
    return Counting(name="counting")


@pytest.fixture(autouse=True)
def components(memory: devmem.Memory, compressor: Counting) -> Iterator[None]:
    made: list[tuple[Any, str, Any]] = [
        (MemoryStorageManager(), "tests.memory_storage.devmem_memory_storage", DevmemMemoryStorage.over(memory)),
        (MemoryStorageManager(), "tests.memory_storage.broken", Broken(name="broken")),
        (MemoryCompressorManager(), "tests.memory_compressor.counting", compressor),
        (MemoryManager(), "tests.memory.talk", DevmemAgentMemory(name="talk")),
    ]
    for manager, code, component in made:
        manager.register(code, component)
    yield
    for manager, code, _ in made:
        manager.unregister(code)


def said(count: int) -> list[Message]:
    return [Message(id=str(at), type="human", content=f"message number {at}") for at in range(count)]


def texts(messages: list[Message]) -> list[str]:
    return [str(message.content) for message in messages]


def test_a_storage_that_is_no_component_is_an_error() -> None:
    """agentUniverse passes over it in silence."""
    memory = DevmemAgentMemory(name="talk", memory_storages=["devmem_memory_storage", "misspelt"])
    with pytest.raises(ValueError, match="'misspelt', which is not a component"):
        memory.add(said(1))
    assert DevmemAgentMemory(name="talk").get() == []
    with pytest.raises(ValueError, match="misspelt"):
        DevmemAgentMemory(name="talk", memory_retrieval_storage="misspelt").get()


def test_a_storage_that_fails_keeps_messages_from_no_other() -> None:
    memory = DevmemAgentMemory(name="talk", memory_storages=["broken", "devmem_memory_storage"])
    with pytest.raises(OSError, match="disk full"):
        memory.add(said(1))
    assert len(DevmemAgentMemory(name="talk").get()) == 1


def test_the_budget_is_kept_by_leaving_out_the_oldest() -> None:
    memory = DevmemAgentMemory(name="talk", max_tokens=60)
    memory.add(said(9))
    assert texts(memory.get(prune=True))[-1] == "message number 8"
    assert 0 < len(memory.get(prune=True)) < 5
    assert len(memory.get()) == 9
    assert memory.prune([]) == []


def test_the_newest_message_is_shortened_and_not_dropped() -> None:
    """agentUniverse returns nothing at all where one message is longer than the budget."""
    memory = DevmemAgentMemory(name="talk", max_tokens=80)
    (kept,) = memory.prune([Message(type="human", content="word " * 200)])
    assert 10 < len(str(kept.content)) < 80


def test_a_summary_counts_and_is_made_once(compressor: Counting) -> None:
    memory = DevmemAgentMemory(name="talk", max_tokens=120, memory_compressor="counting")
    memory.add(said(20))
    first, *others = texts(memory.create_copy().get(prune=True, top_k=20))
    assert first == "Tea was had."
    assert others[-1] == "message number 19"
    memory.create_copy().get(prune=True, top_k=20)
    assert compressor.calls == 1
    compressor.answer = "tea " * 100
    memory.add([Message(id="new", type="human", content="more tea")])
    assert len(texts(memory.get(prune=True, top_k=20))[0]) < 40


def test_a_chat_that_is_handed_over_whole_each_turn_is_kept_once() -> None:
    """agentUniverse's chat memory keeps the last list alone."""
    chat = DevmemChatMemory(name="chat")
    history = [Message(type=kind, content=text) for kind, text in (("human", "tea?"), ("ai", "yes"), ("human", "yes"))]
    for turns in (1, 2, 3):
        chat.add(history[:turns], session_id="s", agent_id="bob", input="tea?", chat_history=[])
    assert texts(chat.get("s", "bob")) == texts(chat.messages) == ["tea?", "yes", "yes"]
    assert texts(chat.get("s", "eve")) == []
    assert texts(DevmemChatMemory(name="chat").get("s", "bob")) == ["tea?", "yes", "yes"]


class Cook(Agent):
    """An agent without a model."""

    def input_keys(self) -> list[str]:
        return ["input"]

    def output_keys(self) -> list[str]:
        return ["output"]

    def parse_input(self, input_object: Any, agent_input: dict[str, Any]) -> dict[str, Any]:
        return agent_input

    def parse_result(self, agent_result: dict[str, Any]) -> dict[str, Any]:
        return agent_result


def test_an_agent_of_agentuniverse_reads_what_it_added() -> None:
    agent = Cook()
    agent.agent_model = AgentModel(info={"name": "cook"}, memory={"name": "talk", "top_k": 5}, profile={})
    memory = agent.process_memory({"chat_history": []})
    agent.add_memory(memory, "Human: tea?, AI: yes", agent_input={"session_id": "s"})
    asked = {"session_id": "s", "input": "Was there tea?"}
    assert "Human: tea?, AI: yes" in agent.load_memory(memory, asked)
    assert "Human: tea?, AI: yes" in asked["chat_history"]
    assert agent.load_summarize_memory(memory, asked) == "Up to Now, No Summarize Memory"
    memory.add([Message(type="summarize", content="Tea was had.", source="cook")], session_id="s", agent_id="cook")
    assert agent.load_summarize_memory(memory, {"session_id": "s"}) == "Tea was had."


def test_the_example_of_the_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    code = "from tools.hosts.shims.agentuniverse import prepare; prepare()"
    (tmp_path / "sitecustomize.py").write_text(code, encoding="utf-8")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path), prepend=":")
    assert run_example("agentuniverse", tmp_path).splitlines()[-1] == "The launch is on May 5th."
