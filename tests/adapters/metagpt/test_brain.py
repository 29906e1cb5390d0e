"""MetaGPT's brain memory: what MetaGPT's own does, and what it got wrong."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from metagpt.roles.assistant import Assistant
from metagpt.schema import AIMessage, Message

from devmem.adapters.metagpt import DevmemBrainMemory
from devmem.errors import ChatModelError, MessageError


class Model:
    """A model of MetaGPT's that answers what it is told to."""

    def __init__(self, answer: str) -> None:
        self.answer = answer
        self.asked: list[tuple[str, list[str]]] = []

    async def aask(self, msg: str, system_msgs: list[str] | None = None, stream: bool = True) -> str:
        assert not stream
        self.asked.append((msg, system_msgs or []))
        if self.answer == "fail":
            raise ValueError("out of quota")
        return self.answer


@pytest.fixture
def place(tmp_path: Path) -> Path:
    return tmp_path / "talks.db"


@pytest.fixture
def brain(place: Path) -> Iterator[DevmemBrainMemory]:
    brain = DevmemBrainMemory(place, user="ann", chat="monday")
    yield brain
    brain.close()


def fill(brain: DevmemBrainMemory, turns: int = 20) -> None:
    for at in range(turns):
        brain.add_talk(Message(content=f"On day {at} the boat needs {at} new planks of oak."))
        brain.add_answer(Message(content=f"I ordered {at} planks at the yard."))


def test_what_is_said_is_there_and_the_callers_message_unchanged(brain: DevmemBrainMemory) -> None:
    talk, answer = Message(content="talk", role="Sales"), AIMessage("answer")
    brain.add_talk(talk)
    brain.add_answer(answer)
    assert [(message.content, message.role) for message in brain.history] == [("talk", "user"), ("answer", "assistant")]
    assert talk.role == "Sales"
    assert brain.history[1] == answer
    assert brain.exists("talk")
    assert not brain.exists("tal")
    assert brain.is_history_available
    assert brain.history_text == "talk"
    assert brain.last_history_id == answer.id
    assert brain.last_talk == brain.pop_last_talk() == "talk"
    brain.last_talk = "given"
    assert brain.pop_last_talk() == "given"
    assert brain.last_talk is None
    brain.add_history(Message(content="aside", role="Engineer"))
    assert brain.history[-1].role == "Engineer"
    brain.add_knowledge(Message(content="Oak is hard."))
    assert brain.get_knowledge() == "Oak is hard."
    assert [message.content for message in brain.knowledge] == ["Oak is hard."]
    with pytest.raises(MessageError):
        brain.add_talk("no message")


def test_it_is_there_in_the_next_process_and_in_no_other_chat(brain: DevmemBrainMemory, place: Path) -> None:
    brain.add_talk(Message(content="talk"))
    assert asyncio.run(brain.dumps(brain.to_redis_key("p", "ann", "monday")))
    assert not brain.is_dirty
    other = DevmemBrainMemory(place)
    named = asyncio.run(other.loads(other.to_redis_key("p", "ann", "monday")))
    assert [message.content for message in named.history] == ["talk"]
    assert not other.is_history_available
    other.close()


def test_a_summary_takes_the_place_of_all_but_the_latest(brain: DevmemBrainMemory) -> None:
    fill(brain)
    model = Model("Planks were ordered each day.")
    summary = asyncio.run(brain.summarize(model, max_words=100))
    assert set(summary.splitlines()) == {"Planks were ordered each day."}
    assert brain.historical_summary == summary
    assert [message.content for message in brain.history][-1] == "I ordered 19 planks at the yard."
    assert len(brain.history) == 2
    assert len(model.asked) < 10


def test_titles_and_rewriting_change_nothing(brain: DevmemBrainMemory) -> None:
    fill(brain)
    assert asyncio.run(brain.get_title(Model("Planks"))) == "Planks"
    assert asyncio.run(brain.rewrite("How many?", "planks", Model("How many planks?"))) == "How many planks?"
    assert asyncio.run(brain.is_related("planks", "boat", Model("It is TRUE.")))
    with pytest.raises(ChatModelError, match="UNTRUE"):
        asyncio.run(brain.is_related("planks", "boat", Model("UNTRUE")))
    assert len(brain.history) == 40


def test_a_model_that_fails_loses_nothing(brain: DevmemBrainMemory) -> None:
    fill(brain)
    with pytest.raises(ChatModelError, match="out of quota"):
        asyncio.run(brain.summarize(Model("fail")))
    assert len(brain.history) == 40


def test_without_a_model_it_does_what_it_can(brain: DevmemBrainMemory) -> None:
    class MetaGPTLLM:
        """Named as MetaGPT's local model."""

    assert asyncio.run(brain.get_title(MetaGPTLLM())) == "New"
    fill(brain)
    assert asyncio.run(brain.get_title()) == "On day 0 the boat needs 0 new planks of oak."
    assert not asyncio.run(brain.is_related("a", "a", MetaGPTLLM()))
    assert asyncio.run(brain.rewrite("How many?", "planks", None)) == "How many?"
    assert 0 < len(asyncio.run(brain.summarize(max_words=40)).split()) <= 40


def test_nothing_of_the_configuration_is_stored_or_dumped(place: Path) -> None:
    brain = DevmemBrainMemory(place, options={"redis": {"url": "redis://127.0.0.1:1/0", "password": "hush"}})
    brain.add_talk(Message(content="talk"))
    assert json.loads(brain.model_dump_json())["history"][0]["content"] == "talk"
    assert "hush" not in brain.model_dump_json()
    brain.close()
    assert not any(b"hush" in file.read_bytes() for file in place.parent.iterdir())


def test_an_assistant_of_metagpt_talks_with_it(brain: DevmemBrainMemory) -> None:
    assistant: Any = Assistant()
    assistant.memory, assistant.llm = brain, Model("FALSE")
    asyncio.run(assistant.talk("How many planks?"))
    assert [message.content for message in brain.history] == ["How many planks?"]
    assert json.loads(assistant.get_memory())["last_talk"] == "How many planks?"
    assert asyncio.run(assistant.refine_memory()) == "How many planks?"
