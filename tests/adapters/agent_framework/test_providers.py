"""The contract of Agent Framework's providers, and the claims of our page."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Coroutine, Sequence
from pathlib import Path
from typing import Any

import pytest
from agent_framework import Agent, AgentSession, ChatResponse, Content, Message, SessionContext

import devmem
from devmem.adapters.agent_framework import DevmemContextProvider, DevmemHistoryProvider
from tests.adapters.contract import ANSWER, QUESTION, RESULT, Histories, Recalls, Talks
from tests.adapters.pages import run_example


def run(done: Coroutine[Any, Any, Any]) -> Any:
    return asyncio.run(done)


class ScriptedClient:
    """A chat client that answers from a list, and keeps what it is shown."""

    def __init__(self, *answers: str) -> None:
        self.answers, self.shown = list(answers), list[list[Message]]()
        self.additional_properties: dict[str, Any] = {}

    def get_response(self, messages: Any, *, stream: bool = False, **_: Any) -> Any:
        self.shown.append(list(messages))

        async def answer() -> ChatResponse:
            return ChatResponse(messages=[Message("assistant", [self.answers.pop(0)])])

        return answer()


def test_a_run_recalls_and_remembers(memory: devmem.Memory) -> None:
    memory.add("The launch is on May 5th.")
    client = ScriptedClient("On May 5th.")
    agent = Agent(client=client, context_providers=[DevmemContextProvider(memory)])
    run(agent.run("When is the launch?", session=AgentSession(session_id="1")))
    (shown,) = client.shown
    assert [message.text for message in shown][-1] == "When is the launch?"
    assert any("The launch is on May 5th." in message.text for message in shown[:-1])
    assert {record.text for record in memory} >= {"When is the launch?", "On May 5th."}
    assert memory.count(session="1") == 2


def test_a_history_goes_on_in_another_program(memory: devmem.Memory) -> None:
    for question, answer in (("Is it tea?", "Yes."), ("Which one?", "Green.")):
        client = ScriptedClient(answer)
        agent = Agent(client=client, context_providers=[DevmemHistoryProvider(memory)])
        run(agent.run(question, session=AgentSession(session_id="1")))
    assert [message.text for message in client.shown[0]] == ["Is it tea?", "Yes.", "Which one?"]
    kept = run(DevmemHistoryProvider(memory).get_messages("1"))
    assert [(message.role, message.text) for message in kept][-1] == ("assistant", "Green.")
    assert run(DevmemHistoryProvider(memory).get_messages("2")) == []


def test_every_message_is_kept_whole(memory: devmem.Memory) -> None:
    history = DevmemHistoryProvider(memory)
    call = Content.from_function_call("1", "look", arguments='{"what": "tea"}')
    given = [
        Message("user", ["Look the tea up."], message_id="a", additional_properties={"room": 4}),
        Message("assistant", [call]),
        Message("tool", [Content.from_function_result("1", result="green")]),
        Message("assistant", [""]),
    ]
    run(history.save_messages("1", given))
    kept = run(history.get_messages("1"))
    assert [json.dumps(each.to_dict()) for each in kept] == [json.dumps(each.to_dict()) for each in given]


def test_a_message_with_an_id_is_kept_once_of_one_call_and_of_calls_at_the_same_time(memory: devmem.Memory) -> None:
    history = DevmemHistoryProvider(memory)
    first, other = Message("user", ["Tea."], message_id="a"), Message("user", ["Coffee."], message_id="b")

    async def save() -> None:
        await history.save_messages("1", [first, other, first])
        await asyncio.gather(*(history.save_messages("2", [first]) for _ in range(8)))

    run(save())
    assert [message.text for message in run(history.get_messages("1"))] == ["Tea.", "Coffee."]
    assert [message.text for message in run(history.get_messages("2"))] == ["Tea."]


def test_a_message_without_a_session_is_refused(memory: devmem.Memory) -> None:
    history = DevmemHistoryProvider(memory)
    assert run(history.get_messages(None)) == []
    with pytest.raises(ValueError, match="session"):
        run(history.save_messages(None, [Message("user", ["Tea."])]))


def test_context_is_no_input(memory: devmem.Memory) -> None:
    """Recalled messages are not remembered again."""
    memory.add("The launch is on May 5th.")
    provider = DevmemContextProvider(memory)
    context = SessionContext(session_id="1", input_messages=[Message("user", ["When is the launch?"])])
    session = AgentSession(session_id="1")
    run(provider.before_run(agent=None, session=session, context=context, state={}))
    run(provider.after_run(agent=None, session=session, context=context, state={}))
    assert sorted(record.text for record in memory) == ["The launch is on May 5th.", "When is the launch?"]


def test_the_example_of_the_page(tmp_path: Path) -> None:
    history, recalled = run_example("agent_framework", tmp_path).split("\n", 1)
    assert history == "['Book the hall.']"
    assert re.search(r"1\. \[[^]]+\] (user: )?The launch is on May 5th\.", recalled)


def messages() -> list[Message]:
    call = Content.from_function_call("1", "look", arguments='{"what": "pier"}')
    return [
        Message("user", [QUESTION]),
        Message("assistant", [call]),
        Message("tool", [Content.from_function_result("1", result=RESULT)]),
        Message("assistant", [ANSWER]),
    ]


class TestHistoryContract(Talks, Histories):
    keeps_results = True
    page, hands_on = "agent_framework", "new messages"

    def converse(self, memory: devmem.Memory, exchanges: Sequence[tuple[str, str]]) -> None:
        provider = DevmemHistoryProvider(memory)
        for asked, answer in exchanges:
            run(provider.save_messages("1", [Message("user", [asked]), Message("assistant", [answer])]))

    def talk(self, memory: devmem.Memory) -> None:
        run(DevmemHistoryProvider(memory).save_messages("1", messages()))


class TestContextContract(Talks, Histories, Recalls):
    page, hands_on = "agent_framework", "new messages"

    def converse(self, memory: devmem.Memory, exchanges: Sequence[tuple[str, str]]) -> None:
        provider, session = DevmemContextProvider(memory), AgentSession(session_id="1")
        for asked, answer in exchanges:
            context = SessionContext(session_id="1", input_messages=[Message("user", [asked])])
            context._response = ChatResponse(messages=[Message("assistant", [answer])])
            run(provider.after_run(agent=None, session=session, context=context, state={}))

    def test_number_and_spacing_of_equal_checks_are_kept(self, memory: devmem.Memory) -> None:
        answers = ["Alarm!" if check in (4, 8) else "All pumps run." for check in range(1, 11)]
        self.converse(memory, [("status?", answer) for answer in answers])
        assert [record.text for record in memory if record.role == "assistant"] == answers

    def talk(self, memory: devmem.Memory) -> None:
        asked, *_, answered = messages()
        context = SessionContext(session_id="1", input_messages=[asked])
        context._response = ChatResponse(messages=[answered])
        provider, session = DevmemContextProvider(memory), AgentSession(session_id="1")
        run(provider.after_run(agent=None, session=session, context=context, state={}))

    def recalled(self, memory: devmem.Memory, *shown: str) -> str:
        *earlier, asked = shown
        context = SessionContext(session_id="1", input_messages=[Message("user", [asked])])
        context.extend_messages("history", [Message("user", [text]) for text in earlier])
        provider, session = DevmemContextProvider(memory), AgentSession(session_id="1")
        run(provider.before_run(agent=None, session=session, context=context, state={}))
        return "".join(str(block.text) for block in context.get_messages(sources={"devmem"}))
