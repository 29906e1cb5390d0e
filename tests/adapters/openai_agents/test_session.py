"""The contract of the Agents SDK's sessions, and the claims of our page, with a scripted model."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from agents import Agent, RunConfig, Runner, function_tool, set_tracing_disabled
from agents.memory import Session, SessionSettings
from agents.run import CallModelData, ModelInputData
from agents.testing import ScriptedModel, assistant_message, function_call

import devmem
from devmem.adapters.openai_agents import DevmemSession
from tests.adapters.contract import ANSWER, QUESTION, RESULT, Histories, Recalls, Talks
from tests.adapters.pages import run_example

TALK: list[Any] = [
    {"role": "user", "content": "When is the launch?"},
    {"type": "function_call", "call_id": "c", "name": "calendar", "arguments": '{"what": "launch"}'},
    {"type": "function_call_output", "call_id": "c", "output": "June 2nd"},
    {"type": "reasoning", "id": "r", "summary": [], "encrypted_content": "gAAA"},
    {
        "type": "message",
        "role": "assistant",
        "content": [{"type": "output_text", "text": "On June 2nd \U0001f600.", "annotations": []}],
    },
    {"role": "user", "content": [{"type": "input_image", "image_url": "data:image/png;base64,AAAA"}]},
]

set_tracing_disabled(True)


def said(*texts: str) -> list[Any]:
    return [{"role": "user", "content": text} for text in texts]


async def test_every_kind_of_item_comes_back_as_it_was_added(memory: devmem.Memory) -> None:
    session = DevmemSession("s", memory)
    assert isinstance(session, Session)
    await session.add_items(TALK[:2])
    await session.add_items(TALK[2:])
    await session.add_items([])
    assert await session.get_items() == TALK
    assert await session.get_items(limit=2) == TALK[-2:]
    assert await session.get_items(limit=0) == []
    assert await session.get_items(limit=100) == TALK
    with pytest.raises(ValueError, match="at least 0"):
        await session.get_items(limit=-1)
    with pytest.raises(TypeError):
        await session.add_items([*said("fine"), {"role": "user", "content": object()}])
    assert await session.get_items() == TALK


async def test_items_are_taken_out_from_the_end_until_none_is_left(memory: devmem.Memory) -> None:
    session, other = DevmemSession("s", memory), DevmemSession("other", memory)
    await other.add_items(said("kept"))
    await session.add_items(said("1", "2", "3"))
    assert [await session.pop_item() for _ in range(4)] == [*said("3", "2", "1"), None]
    await session.add_items(said("4"))
    assert await session.get_items() == said("4")
    await session.clear_session()
    assert await session.get_items() == []
    assert await other.get_items() == said("kept")


@pytest.mark.parametrize("settings", [SessionSettings(limit=2), {"limit": 2}])
def test_the_settings_limit_what_a_run_is_given(memory: devmem.Memory, settings: Any) -> None:
    async def using() -> None:
        session = DevmemSession("s", memory, session_settings=settings)
        await session.add_items(said("1", "2", "3"))
        assert await session.get_items() == said("2", "3")
        assert await session.get_items(limit=1) == said("3")

    asyncio.run(using())
    with pytest.raises(TypeError, match="limitt"):
        DevmemSession("s", memory, session_settings={"limitt": 2})
    with pytest.raises(ValueError, match="`session` is empty"):
        DevmemSession(" ", memory)


def test_a_conversation_goes_on_in_another_process(tmp_path: Path) -> None:
    def calendar(what: str) -> str:
        return f"{what}: June 2nd"

    def ask(question: str, *steps: Any) -> list[Any]:
        model = ScriptedModel()
        for step in steps:
            model.enqueue([step])
        with devmem.open(tmp_path / "notes.db", embedding=None) as memory:
            agent = Agent(name="helper", model=model, tools=[function_tool(calendar)])
            session = DevmemSession("thread", memory.scoped(user="ann"))
            asyncio.run(Runner.run(agent, question, session=session))
        return list(model.calls[-1].input)

    call = function_call("calendar", {"what": "launch"}, call_id="c1")
    ask("When is the launch?", call, assistant_message("On June 2nd."))
    given = ask("And the party?", assistant_message("I do not know."))
    assert [item.get("type", item.get("role")) for item in given] == [
        "user",
        "function_call",
        "function_call_output",
        "message",
        "user",
    ]
    with devmem.open(tmp_path / "notes.db", embedding=None) as memory:
        assert memory.search("launch", user="ann")
        assert memory.search("launch") == []
        first = memory.list(limit=100, user="ann")[-1]
        assert (first.role, first.text, first.scope.session) == ("user", "When is the launch?", "thread")


def test_other_items_of_the_scope_are_no_history(memory: devmem.Memory) -> None:
    async def using() -> None:
        memory.add("A note of a program.", session="s")
        session = DevmemSession("s", memory)
        await session.add_items(said("1"))
        assert await session.get_items() == said("1")
        assert await session.pop_item() == said("1")[0]
        assert await session.pop_item() is None
        await session.clear_session()

    asyncio.run(using())
    assert [record.text for record in memory.list(session="s")] == ["A note of a program."]


@pytest.mark.parametrize("operation", ["add", "pop", "clear"])
async def test_a_cancelled_call_ends_before_it_is_cancelled(
    memory: devmem.Memory, monkeypatch: pytest.MonkeyPatch, operation: str
) -> None:
    session = DevmemSession("s", memory)
    name = {"add": "store_items", "pop": "pop", "clear": "erase"}[operation]
    done, go_on, original = threading.Event(), threading.Event(), getattr(memory.store, name)

    def held(*args: Any, **kwargs: Any) -> Any:
        result = original(*args, **kwargs)
        done.set()
        assert go_on.wait(timeout=60)
        return result

    if operation != "add":
        await session.add_items(said("once"))
    monkeypatch.setattr(memory.store, name, held)
    call = {"add": lambda: session.add_items(said("once")), "pop": session.pop_item, "clear": session.clear_session}
    task = asyncio.ensure_future(call[operation]())
    assert await asyncio.to_thread(done.wait, 60)
    for _ in range(2):
        task.cancel()
        await asyncio.sleep(0)
    assert not task.done()
    go_on.set()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert await session.get_items() == (said("once") if operation == "add" else [])


class TestRecall:
    LIMITED = SessionSettings(limit=2)

    def ask(self, session: DevmemSession, question: str, **recall: Any) -> list[Any]:
        model = ScriptedModel()
        model.enqueue([assistant_message("Noted.")])
        config = RunConfig(session_settings=self.LIMITED, call_model_input_filter=session.recall(**recall))
        asyncio.run(Runner.run(Agent(name="helper", model=model), question, session=session, run_config=config))
        return list(model.calls[-1].input)

    def test_an_older_turn_that_answers_is_put_before_the_question(self, memory: devmem.Memory) -> None:
        session = DevmemSession("s", memory)
        for question in ("The launch is on June 2nd.", "I like tea.", "And trains."):
            self.ask(session, question)
        given = self.ask(session, "When is the launch?", limit=1)
        assert len(given) == 4
        assert "The launch is on June 2nd." in given[2]["content"]
        assert given[2]["role"] == "user"
        assert given[3]["content"] == "When is the launch?"
        stored = asyncio.run(session.get_items())
        assert len(stored) == 8
        assert all("Related Memories" not in str(item) for item in stored)

    def test_other_sessions_of_the_scope_are_recalled_from_unless_they_are_left_out(
        self, memory: devmem.Memory
    ) -> None:
        ann = memory.scoped(user="ann")
        self.ask(DevmemSession("old", ann), "The launch is on June 2nd.")
        memory.add("The launch of Ben is in May.", user="ben")
        given = self.ask(DevmemSession("new", ann), "When is the launch?")
        assert "June 2nd" in given[0]["content"]
        assert "Ben" not in given[0]["content"]
        given = self.ask(DevmemSession("newest", ann), "When is the launch?", this_session=True)
        assert [item["content"] for item in given] == ["When is the launch?"]

    def test_a_line_is_spent_on_what_a_tool_returned_and_none_on_its_call(self, memory: devmem.Memory) -> None:
        asyncio.run(DevmemSession("old", memory).add_items(TALK[:3]))
        assert "calendar(" in memory.search("calendar launch", limit=1)[0].text
        block = self.ask(DevmemSession("new", memory), "What is in the calendar, the launch in June?")[0]["content"]
        assert "June 2nd" in block
        assert "calendar(" not in block


def test_the_example_of_the_page_runs(tmp_path: Path) -> None:
    assert run_example("openai_agents", tmp_path).splitlines() == ["On June 2nd.", "When is the launch?"]


class TestContract(Talks, Histories, Recalls):
    keeps_results = True
    page, hands_on = "openai_agents", "new messages"

    def converse(self, memory: devmem.Memory, exchanges: Sequence[tuple[str, str]]) -> None:
        for asked, answer in exchanges:
            items: list[Any] = [{"role": "user", "content": asked}, {"role": "assistant", "content": answer}]
            asyncio.run(DevmemSession("s", memory).add_items(items))

    def talk(self, memory: devmem.Memory) -> None:
        items: list[Any] = [
            {"role": "user", "content": QUESTION},
            {"type": "function_call", "call_id": "c", "name": "look", "arguments": "{}"},
            {"type": "function_call_output", "call_id": "c", "output": RESULT},
            {"role": "assistant", "content": ANSWER},
        ]
        asyncio.run(DevmemSession("s", memory).add_items(items))

    def recalled(self, memory: devmem.Memory, *shown: str) -> str:
        data = CallModelData(ModelInputData(input=said(*shown), instructions=None), agent=None, context=None)
        given = asyncio.run(DevmemSession("s", memory).recall()(data))
        return str(given.input[-2]["content"]) if len(given.input) > len(shown) else ""
