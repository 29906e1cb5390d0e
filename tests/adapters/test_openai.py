"""OpenAI's client with a memory, against a server on the loopback address that also fails in every way."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import openai
import pytest
from pydantic import BaseModel

import devmem
from devmem.adapters.openai import wrap
from tests.adapters.contract import ANSWER, QUESTION, Histories, Recalls, Talks
from tests.models.service import ChatService, Reply, Request, answering, piece, streaming

ASKED: Any = [{"role": "system", "content": "You help."}, {"role": "user", "content": "When is the launch?"}]
EXCHANGE = ["user: When is the launch?", "assistant: On the third."]
WORDS = "On the third."
STRUCTURED = '{"date": "June 2nd"}'


def delta(text: str) -> dict[str, Any]:
    return {"type": "response.output_text.delta", "delta": text}


CHAT = streaming(
    piece(content="On the "), piece(content="third."), piece("stop", content=""), {**piece(content=""), "choices": []}
)
RESPONSE = streaming(
    delta("On the "),
    delta("third."),
    {"type": "response.completed", "response": {"id": "r", "output": []}},
    {"type": "devmem.more"},
)


class Service(ChatService):
    """Answers every request with the same words, as a completion, a response or a stream of either, or by a script."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self.script, self.words = [], WORDS

    def reply_to(self, request: Request) -> Reply:
        if self.script:
            return super().reply_to(request)
        if request.get("stream"):
            return CHAT if "messages" in request else RESPONSE
        if "messages" in request:
            calls = request["messages"][-1]["content"] == "call a tool"
            message = {"role": "assistant", "content": None if calls else self.words}
            return Reply(body={"id": "1", "choices": [{"index": 0, "message": message}]})
        part = {"type": "output_text", "text": self.words, "annotations": []}
        output = [{"id": "m", "type": "message", "role": "assistant", "status": "completed", "content": [part]}]
        return Reply(body={"id": "r", "object": "response", "output": output})


@pytest.fixture
def service() -> Iterator[Service]:
    with Service() as service:
        yield service


@pytest.fixture
def memory(tmp_path: Path) -> Iterator[devmem.Memory]:
    with devmem.open(tmp_path / "notes.db", embedding=None) as memory:
        memory.add("Ann moved the launch to June 2nd.", user="ann")
        yield memory.scoped(user="ann")


@pytest.fixture
def client(service: Service) -> Iterator[openai.OpenAI]:
    with openai.OpenAI(api_key="k", base_url=service.address, max_retries=1) as client:
        yield client


@pytest.fixture
def wrapped(client: openai.OpenAI, memory: devmem.Memory) -> Any:
    return wrap(client, memory)


def remembered(memory: devmem.Memory) -> list[str]:
    return [f"{record.role}: {record.text}" for record in memory if record.role]


def sent(service: Service) -> str:
    """Return what was put before the question of the last request."""
    given = service.requests[-1]
    return str((given.get("messages") or given["input"])[-2]["content"])


def test_it_recalls_before_the_question_and_remembers_the_exchange(
    client: openai.OpenAI, memory: devmem.Memory, service: Service, wrapped: Any
) -> None:
    assert isinstance(wrapped, openai.OpenAI)
    answer = wrapped.chat.completions.create(model="m", messages=ASKED)
    assert answer.choices[0].message.content == WORDS
    system, block, question = service.requests[0]["messages"]
    assert (system, question) == (ASKED[0], ASKED[1])
    assert "Ann moved the launch to June 2nd." in block["content"]
    assert block["content"].startswith("===== Related Memories =====")
    assert remembered(memory) == EXCHANGE
    client.chat.completions.create(model="m", messages=ASKED)
    assert service.requests[1]["messages"] == ASKED, "the client itself has no memory"


@pytest.mark.parametrize("question", ["When is the launch?", ASKED])
def test_responses_are_requests_too(memory: devmem.Memory, service: Service, wrapped: Any, question: Any) -> None:
    assert wrapped.responses.create(model="m", input=question).output_text == WORDS
    block, asked = service.requests[0]["input"][-2:]
    assert "June 2nd" in block["content"]
    assert asked == ASKED[1]
    assert len(list(wrapped.responses.create(model="m", input="And the venue?", stream=True))) == 4
    assert remembered(memory) == [*EXCHANGE, "user: And the venue?", "assistant: On the third."]


def test_a_request_without_a_question_or_an_answer_in_words_is_not_remembered(
    client: openai.OpenAI, memory: devmem.Memory, service: Service, wrapped: Any
) -> None:
    wrapped.chat.completions.create(model="m", messages=[{"role": "system", "content": "Say something."}])
    wrapped.chat.completions.create(model="m", messages=[{"role": "user", "content": "call a tool"}])
    assert len(service.requests[0]["messages"]) == 1
    wrap(client, memory, remember=False).chat.completions.create(model="m", messages=ASKED)
    assert remembered(memory) == []


@pytest.mark.parametrize("as_object", [False, True])
def test_of_a_history_that_grows_each_message_is_remembered_once(
    memory: devmem.Memory, wrapped: Any, as_object: bool
) -> None:
    history: list[Any] = [{"role": "user", "content": "Example?"}, {"role": "assistant", "content": "An answer."}]
    said: Any = [{"role": "user", "content": "Hello."}]
    for _ in range(3):
        history += [{"role": "user", "content": "yes"}, {"role": "user", "content": "status?"}]
        answer = wrapped.chat.completions.create(model="m", messages=history).choices[0].message
        history.append(answer if as_object else {"role": "assistant", "content": answer.content})
        response = wrapped.responses.create(model="m", input=said)
        said += [*response.output] if as_object else [{"role": "assistant", "content": response.output_text}]
        said += [{"role": "user", "content": "Hello."}]
    answered = "assistant: On the third."
    assert remembered(memory) == 3 * ["user: yes", "user: status?", answered, "user: Hello.", answered]


def test_an_agent_that_says_something_with_a_call_of_a_tool_is_asked_once(memory: devmem.Memory, wrapped: Any) -> None:
    for _ in range(2):
        history: list[Any] = [{"role": "user", "content": "status?"}]
        for step in range(3):
            wrapped.chat.completions.create(model="m", messages=history)
            history += [
                {"role": "assistant", "content": WORDS, "tool_calls": []},
                {"role": "tool", "content": f"result {step}", "tool_call_id": str(step)},
            ]
    assert remembered(memory) == 2 * ["user: status?", *3 * ["assistant: On the third."]]


def test_a_question_before_an_answer_that_was_not_given_here_is_remembered(memory: devmem.Memory, wrapped: Any) -> None:
    wrapped.chat.completions.create(model="m", messages=[ASKED[1], {"role": "assistant", "content": "On the"}])
    assert remembered(memory) == EXCHANGE


class Launch(BaseModel):
    """Structured output of a test."""

    date: str


def test_structured_output(memory: devmem.Memory, service: Service, wrapped: Any) -> None:
    service.words = STRUCTURED
    for completions in (wrapped.chat.completions, wrapped.beta.chat.completions):
        answer = completions.parse(model="m", messages=ASKED, response_format=Launch)
        assert answer.choices[0].message.parsed == Launch(date="June 2nd")
        assert "Ann moved the launch" in sent(service)
    assert wrapped.responses.parse(model="m", input=ASKED, text_format=Launch).output_parsed
    assert "Ann moved the launch" in sent(service)
    assert set(remembered(memory)) == {EXCHANGE[0], f"assistant: {STRUCTURED}"}


def test_a_stream_of_events_and_a_copy_of_the_client(memory: devmem.Memory, service: Service, wrapped: Any) -> None:
    for copied in (wrapped.with_options(timeout=9), wrapped.copy(timeout=9)):
        with copied.chat.completions.stream(model="m", messages=ASKED) as stream:
            assert "".join(each.delta for each in stream if each.type == "content.delta") == WORDS
        assert "Ann moved the launch" in sent(service)
        assert copied.timeout == 9
    assert remembered(memory) == 2 * EXCHANGE


def test_raw_responses(memory: devmem.Memory, service: Service, wrapped: Any) -> None:
    raw = wrapped.chat.completions.with_raw_response
    answer = raw.create(model="m", messages=ASKED)
    assert "Ann moved the launch" in sent(service)
    assert answer.http_response.status_code == 200
    assert answer.parse().choices[0].message.content == WORDS
    assert remembered(memory) == EXCHANGE
    stream = raw.create(model="m", messages=ASKED, stream=True).parse()
    assert remembered(memory) == EXCHANGE
    assert "".join(each.choices[0].delta.content for each in stream if each.choices) == WORDS
    assert remembered(memory) == 2 * EXCHANGE
    with wrapped.chat.completions.with_streaming_response.create(model="m", messages=ASKED) as later:
        assert remembered(memory) == 2 * EXCHANGE
        for _ in range(2):
            assert later.parse().choices[0].message.content == WORDS
    assert remembered(memory) == 3 * EXCHANGE


def test_the_async_client(memory: devmem.Memory, service: Service) -> None:
    service.words = STRUCTURED
    asked = [[{"role": "user", "content": f"When is launch {number}?"}] for number in range(4)]

    async def ask() -> None:
        async with openai.AsyncOpenAI(api_key="k", base_url=service.address, max_retries=0) as client:
            completions: Any = wrap(client, memory).with_options(timeout=9).chat.completions
            await completions.parse(model="m", messages=asked[0], response_format=Launch)
            assert (await completions.with_raw_response.create(model="m", messages=asked[1])).parse()
            async with completions.with_streaming_response.create(model="m", messages=asked[2]) as answer:
                assert (await answer.parse()).choices
            stream = await completions.create(model="m", messages=asked[3], stream=True)
            async for each in stream:
                if each.choices[0].finish_reason:
                    break
            await stream.close()

    asyncio.run(ask())
    assert all("Ann moved the launch" in str(given["messages"][0]["content"]) for given in service.requests)
    answers = 3 * [f"assistant: {STRUCTURED}"] + ["assistant: On the third."]
    assert remembered(memory) == [
        text for number in range(4) for text in (f"user: When is launch {number}?", answers[number])
    ]


def test_who_stops_reading_after_the_last_text_has_it_remembered(memory: devmem.Memory, wrapped: Any) -> None:
    with wrapped.chat.completions.create(model="m", messages=ASKED, stream=True) as stream:
        next(each for each in stream if each.choices[0].finish_reason == "stop")
    assert remembered(memory) == EXCHANGE
    with wrapped.responses.create(model="m", input="And the venue?", stream=True) as other:
        next(each for each in other if each.type == "response.completed")
    assert remembered(memory) == [*EXCHANGE, "user: And the venue?", "assistant: On the third."]


def test_of_a_stream_that_is_cut_nothing_is_remembered_and_the_next_request_is(
    service: Service, memory: devmem.Memory, wrapped: Any
) -> None:
    service.script = [replace(streaming(piece(content="On the "), done=False), is_cut=True), answering(WORDS)]
    with pytest.raises((openai.APIConnectionError, httpx.RemoteProtocolError)):
        list(wrapped.chat.completions.create(model="m", messages=ASKED, stream=True))
    assert remembered(memory) == []
    wrapped.chat.completions.create(model="m", messages=ASKED)
    assert remembered(memory) == EXCHANGE


@pytest.mark.parametrize("kind", ["response.failed", "error"])
def test_of_a_response_that_fails_in_its_stream_nothing_is_remembered(
    service: Service, memory: devmem.Memory, wrapped: Any, kind: str
) -> None:
    service.script = [streaming(delta("On the "), {"type": kind})]
    assert len(list(wrapped.responses.create(model="m", input=ASKED, stream=True))) == 2
    assert remembered(memory) == []


def test_a_request_that_is_repeated_is_remembered_once(service: Service, memory: devmem.Memory, wrapped: Any) -> None:
    busy = Reply(body={"error": {"message": "busy"}}, status=500)
    service.script = [busy, answering(WORDS), busy]
    wrapped.chat.completions.create(model="m", messages=ASKED)
    with pytest.raises(openai.APIStatusError, match="busy"):
        wrapped.chat.completions.create(model="m", messages=ASKED)
    assert remembered(memory) == EXCHANGE


@pytest.mark.parametrize(
    "body",
    [
        {"choices": {"first": 1}},
        {"choices": [None]},
        {"choices": None, "output": None},
        {"output": [{"type": "message", "content": None}]},
        [1],
        b"{no json",
    ],
)
def test_an_answer_in_no_known_form_is_the_callers_and_is_not_remembered(
    service: Service, memory: devmem.Memory, wrapped: Any, body: Any
) -> None:
    service.script = [Reply(body=body, kind="text/plain" if isinstance(body, bytes) else "application/json")]
    wrapped.chat.completions.create(model="m", messages=ASKED)
    wrapped.responses.create(model="m", input=ASKED)
    service.script = [Reply(body=b"{")]
    answer = wrapped.chat.completions.with_raw_response.create(model="m", messages=ASKED)
    assert answer.http_response.content == b"{"
    assert remembered(memory) == []


class TestContract(Talks, Histories, Recalls):
    page, hands_on = "openai", "new messages"

    @pytest.fixture(autouse=True)
    def connected(self, client: openai.OpenAI, service: Service) -> None:
        self.client, self.service = client, service

    @pytest.fixture
    def memory(self) -> Iterator[devmem.Memory]:
        with devmem.open(":memory:", embedding=None) as memory:
            yield memory

    def ask(self, memory: devmem.Memory, *texts: str) -> None:
        messages: Any = [{"role": "user", "content": text} for text in texts]
        wrap(self.client, memory).chat.completions.create(model="m", messages=messages)

    def talk(self, memory: devmem.Memory) -> None:
        self.service.words = ANSWER
        self.ask(memory, QUESTION)

    def converse(self, memory: devmem.Memory, exchanges: Sequence[tuple[str, str]]) -> None:
        wrapped, history = wrap(self.client, memory), list[Any]()
        for asked, answer in exchanges:
            self.service.words = answer
            history.append({"role": "user", "content": asked})
            history.append(wrapped.chat.completions.create(model="m", messages=history).choices[0].message)

    def recalled(self, memory: devmem.Memory, *shown: str) -> str:
        self.ask(memory, *shown)
        messages = self.service.requests[0]["messages"]
        return str(messages[-2]["content"]) if len(messages) > len(shown) else ""
