"""An agent that recalls, remembers and forgets: the toolset, the history processor, what a run is remembered by."""

from __future__ import annotations

import asyncio
import re
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from typing import Any

import pytest
from pydantic import BaseModel
from pydantic_ai import Agent
from pydantic_ai.capabilities import ProcessHistory
from pydantic_ai.messages import (
    ModelMessage,
    ModelRequest,
    ModelResponse,
    RetryPromptPart,
    TextPart,
    ToolCallPart,
    ToolReturnPart,
    UserPromptPart,
)
from pydantic_ai.models.function import AgentInfo, FunctionModel

import devmem
from devmem.adapters.pydantic_ai import memory_toolset, recalling, remember
from tests.adapters.contract import ANSWER, QUESTION, RESULT, Histories, Notes, Recalls, Talks

LAUNCH = "Ann moved the launch to June 2nd."


@dataclass
class Deps:
    user: str


class Model:
    """Takes the given steps, then answers; keeps what it was given."""

    def __init__(self, *steps: dict[str, Any]) -> None:
        self._steps = list(steps)
        self.given: list[list[ModelMessage]] = []
        self.model = FunctionModel(self.answer)

    def answer(self, messages: list[ModelMessage], _info: AgentInfo) -> ModelResponse:
        self.given.append(list(messages))
        if not self._steps:
            return ModelResponse([TextPart("Done.")])
        step = self._steps.pop(0)
        return ModelResponse([ToolCallPart(step.pop("tool"), step)])

    def told(self) -> list[Any]:
        """Return what the tools returned."""
        kinds = (ToolReturnPart, RetryPromptPart)
        return [part.content for message in self.given[-1] for part in message.parts if isinstance(part, kinds)]

    def prompts(self) -> list[str]:
        """Return the user's texts that the model was given last."""
        parts = [part for message in self.given[-1] for part in message.parts if isinstance(part, UserPromptPart)]
        return [part.content if isinstance(part.content, str) else str(part.content[0]) for part in parts]


class TestToolset:
    def run(self, memory: devmem.Memory, *steps: dict[str, Any], **options: Any) -> Model:
        model = Model(*steps)
        toolset = memory_toolset(lambda run: memory.scoped(user=run.deps.user), **options)
        agent = Agent(model.model, deps_type=Deps, toolsets=[toolset])
        asyncio.run(agent.run("Hello.", deps=Deps("ann")))
        return model

    def test_a_model_remembers_recalls_and_forgets_what_is_its_users(self, memory: devmem.Memory) -> None:
        model = self.run(
            memory, {"tool": "remember", "text": LAUNCH}, {"tool": "recall", "query": "When is the launch?"}
        )
        memory.add("The launch of Ben is in May.", user="ben")
        (found,) = model.told()[1]
        assert found.text == LAUNCH
        assert memory.get(found.id) is not None
        assert memory.list(user="ann")[0].trust == 0.8
        model = self.run(memory, {"tool": "forget", "ids": [found.id]})
        assert model.told() == ["Forgot 1 of 1."]
        assert memory.count(user="ann") == 0
        assert memory.count(user="ben") == 1

    def test_what_a_model_gets_wrong_it_is_told(self, memory: devmem.Memory) -> None:
        theirs = memory.add("of Ben", user="ben")
        wrong: dict[str, dict[str, Any]] = {
            "recall": {"query": " "},
            "remember": {"text": ""},
            "forget": {"ids": [theirs]},
        }
        for tool, arguments in wrong.items():
            (told,) = self.run(memory, {"tool": tool, **arguments}).told()
            assert re.search("question or words|nothing to remember|no item with the id", str(told))
        assert memory.count(user="ben") == 1

    def test_a_memory_that_fails_ends_no_run(self, memory: devmem.Memory, caplog: pytest.LogCaptureFixture) -> None:
        memory.close()
        (told,) = self.run(memory, {"tool": "recall", "query": "launch"}).told()
        assert "The memory cannot do this now" in str(told)
        assert "a memory tool failed" in caplog.text


class TestRecalling:
    def test_what_answers_is_put_before_the_prompt_and_once(self, memory: devmem.Memory) -> None:
        memory.add(LAUNCH)
        model = Model()
        agent = Agent(model.model, capabilities=[ProcessHistory(recalling(memory))])
        first = asyncio.run(agent.run("When is the launch?"))
        recalled, asked = model.prompts()
        assert LAUNCH in recalled
        assert asked == "When is the launch?"
        asyncio.run(agent.run("Who moved the launch?", message_history=first.all_messages()))
        assert [LAUNCH in prompt for prompt in model.prompts()] == [False, True, False]

    def test_yesterday_is_that_of_the_prompt(self, memory: devmem.Memory) -> None:
        """A prompt may be answered long after it was written, and by a machine in another zone."""
        shanghai = timezone(timedelta(hours=8))
        for day, meal in ((26, "noodles"), (25, "congee")):
            memory.add(f"Breakfast was {meal}.", time=datetime(2024, 11, day, 8, tzinfo=shanghai))
        model = Model()
        agent = Agent(model.model, capabilities=[ProcessHistory(recalling(memory, limit=1))])
        asked = UserPromptPart("What was breakfast yesterday?", timestamp=datetime(2024, 11, 27, 7, tzinfo=shanghai))
        asyncio.run(agent.run(message_history=[ModelRequest([asked])]))
        assert "noodles" in model.prompts()[0]

    def test_each_run_recalls_what_is_of_its_deps(self, memory: devmem.Memory) -> None:
        memory.add(LAUNCH, user="ann")
        model = Model()
        processor = recalling(lambda run: memory.scoped(user=run.deps.user))
        agent = Agent(model.model, deps_type=Deps, capabilities=[ProcessHistory(processor)])
        for user, prompts in (("ann", 2), ("ben", 1)):
            asyncio.run(agent.run("When is the launch?", deps=Deps(user)))
            assert len(model.prompts()) == prompts


def test_what_was_said_is_remembered_once_and_without_what_was_recalled(memory: devmem.Memory) -> None:
    memory.add(LAUNCH)
    model = Model({"tool": "recall", "query": "launch"})
    toolset = memory_toolset(memory, read_only=True)
    agent = Agent(model.model, toolsets=[toolset], capabilities=[ProcessHistory(recalling(memory))])
    result = asyncio.run(agent.run("When is the launch?"))
    for _ in range(2):
        assert len(remember(memory, result.all_messages())) == 2
    said = [(record.role, record.text) for record in memory]
    assert said == [(None, LAUNCH), ("user", "When is the launch?"), ("assistant", "Done.")]


class TestContract(Notes, Talks, Histories, Recalls):
    page, hands_on = "pydantic_ai", "host ids"

    def converse(self, memory: devmem.Memory, exchanges: Sequence[tuple[str, str]]) -> None:
        answers, history = iter(answer for _, answer in exchanges), list[ModelMessage]()
        agent = Agent(FunctionModel(lambda *_: ModelResponse([TextPart(next(answers))])))
        for asked, _ in exchanges:
            history = asyncio.run(agent.run(asked, message_history=history)).all_messages()
            remember(memory, history)

    def note(self, memory: devmem.Memory, text: str) -> None:
        agent = Agent(Model({"tool": "remember", "text": text}).model, toolsets=[memory_toolset(memory)])
        asyncio.run(agent.run("Keep it."))

    def talk(self, memory: devmem.Memory) -> None:
        call = ToolCallPart("look", {"what": "pier"}, tool_call_id="1")
        history: list[ModelMessage] = [
            ModelRequest([UserPromptPart(QUESTION)]),
            ModelResponse([call]),
            ModelRequest([ToolReturnPart("look", RESULT, tool_call_id="1")]),
            ModelResponse([TextPart(ANSWER)]),
        ]
        remember(memory, history)

    def recalled(self, memory: devmem.Memory, *shown: str) -> str:
        *earlier, asked = shown
        model = Model()
        agent = Agent(model.model, capabilities=[ProcessHistory(recalling(memory))])
        history: list[ModelMessage] = [ModelRequest([UserPromptPart(text)]) for text in earlier]
        asyncio.run(agent.run(asked, message_history=history))
        prompts = model.prompts()
        return prompts[-2] if len(prompts) > len(shown) else ""


class Launch(BaseModel):
    """Output of an agent."""

    date: str


def test_the_output_of_an_agent_with_an_output_type_is_remembered(memory: devmem.Memory) -> None:
    def answer(_messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        return ModelResponse([ToolCallPart(info.output_tools[0].name, {"date": "June 2nd"})])

    result = asyncio.run(Agent(FunctionModel(answer), output_type=Launch).run("When is the launch?"))
    remember(memory, result.all_messages())
    said = [(record.role, record.text) for record in memory]
    assert said == [("user", "When is the launch?"), ("assistant", '{"date":"June 2nd"}')]


def test_the_toolset_needs_no_harness() -> None:
    code = """
import sys
sys.modules["pydantic_ai_harness"] = None
import devmem.adapters.pydantic_ai as adapter
print(adapter.memory_toolset.__name__)
try:
    adapter.DevmemHarnessStore
except ImportError as error:
    print(error)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    name, reason = done.stdout.splitlines()
    assert name == "memory_toolset"
    assert "[pydantic-ai-harness]" in reason
