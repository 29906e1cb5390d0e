"""OpenAI's client with a memory, against a real server on the loopback address."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Iterator, Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import openai
import pytest
from pydantic import BaseModel

import devmem
from devmem.adapters.openai import wrap
from tests.adapters.contract import ANSWER, QUESTION, Histories, Recalls, Talks

ASKED = [{"role": "system", "content": "You help."}, {"role": "user", "content": "When is the launch?"}]


class Service:
    """Answers every request with the same words: as a completion, a response, or a stream of either."""

    words = "On the third."

    def __init__(self) -> None:
        self.requests: list[dict[str, Any]] = []
        service = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                request = json.loads(self.rfile.read(int(self.headers["content-length"])))
                service.requests.append(request)
                is_chat = self.path.endswith("/chat/completions")
                kind, body = service.answer(request, is_chat=is_chat)
                self.send_response(200)
                self.send_header("content-type", kind)
                self.send_header("content-length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: object) -> None:
                """Keep the test's output clean."""

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.address = f"http://127.0.0.1:{self.server.server_port}/v1"

    def answer(self, request: dict[str, Any], *, is_chat: bool) -> tuple[str, bytes]:
        if request.get("stream"):
            pieces = [_chunk(text) if is_chat else _event(text) for text in ("On the ", "third.")]
            return "text/event-stream", "".join(f"data: {json.dumps(one)}\n\n" for one in pieces).encode()
        if is_chat:
            calls = request["messages"][-1]["content"] == "call a tool"
            message = {"role": "assistant", "content": None if calls else self.words}
            return "application/json", json.dumps({"id": "1", "choices": [{"index": 0, "message": message}]}).encode()
        part = {"type": "output_text", "text": self.words, "annotations": []}
        output = [{"id": "m", "type": "message", "role": "assistant", "status": "completed", "content": [part]}]
        return "application/json", json.dumps({"id": "r", "object": "response", "output": output}).encode()


def _chunk(text: str) -> dict[str, Any]:
    return {"id": "1", "object": "chat.completion.chunk", "choices": [{"index": 0, "delta": {"content": text}}]}


def _event(text: str) -> dict[str, Any]:
    return {"type": "response.output_text.delta", "delta": text, "item_id": "m", "output_index": 0, "content_index": 0}


@pytest.fixture(scope="module")
def server() -> Iterator[Service]:
    service = Service()
    thread = threading.Thread(target=service.server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield service
    service.server.shutdown()
    service.server.server_close()
    thread.join()


@pytest.fixture
def service(server: Service) -> Service:
    server.requests.clear()
    return server


@pytest.fixture
def memory(tmp_path: Path) -> Iterator[devmem.Memory]:
    with devmem.open(tmp_path / "notes.db", embedding=None) as memory:
        memory.add("Ann moved the launch to June 2nd.", user="ann")
        yield memory.scoped(user="ann")


@pytest.fixture
def client(service: Service) -> Iterator[openai.OpenAI]:
    with openai.OpenAI(api_key="k", base_url=service.address, max_retries=0) as client:
        yield client


def test_with_relevance_off_the_nearest_are_recalled(client: openai.OpenAI, service: Service) -> None:
    with devmem.open(":memory:") as memory:
        memory.add("Ann moved the launch to June 2nd.")
        for relevance in (True, False):
            wrapped = wrap(client, memory, remember=False, relevance=relevance)
            wrapped.chat.completions.create(model="m", messages=[{"role": "user", "content": "How do I exit vim?"}])
    assert [len(request["messages"]) for request in service.requests] == [1, 2]


def remembered(memory: devmem.Memory) -> list[str]:
    return [f"{record.role}: {record.text}" for record in memory if record.role]


EXCHANGE = ["user: When is the launch?", "assistant: On the third."]


def test_it_recalls_before_the_question_and_remembers_the_exchange(
    client: openai.OpenAI, memory: devmem.Memory, service: Service
) -> None:
    wrapped = wrap(client, memory)
    assert isinstance(wrapped, openai.OpenAI)
    answer = wrapped.chat.completions.create(model="m", messages=ASKED)  # type: ignore[arg-type]
    assert answer.choices[0].message.content == "On the third."
    system, block, question = service.requests[0]["messages"]
    assert (system, question) == (ASKED[0], ASKED[1])
    assert "Ann moved the launch to June 2nd." in block["content"]
    assert block["content"].startswith("===== Related Memories =====")
    assert remembered(memory) == EXCHANGE
    client.chat.completions.create(model="m", messages=ASKED)  # type: ignore[arg-type]
    assert service.requests[1]["messages"] == ASKED, "the client itself has no memory"


@pytest.mark.parametrize("question", ["When is the launch?", ASKED])
def test_responses_are_requests_too(
    client: openai.OpenAI, memory: devmem.Memory, service: Service, question: Any
) -> None:
    wrapped = wrap(client, memory)
    assert wrapped.responses.create(model="m", input=question).output_text == "On the third."
    block, asked = service.requests[0]["input"][-2:]
    assert "June 2nd" in block["content"]
    assert asked == ASKED[1]
    events = wrapped.responses.create(model="m", input="And the venue?", stream=True)
    assert [getattr(event, "delta", None) for event in events] == ["On the ", "third."]
    assert remembered(memory) == [*EXCHANGE, "user: And the venue?", "assistant: On the third."]


def test_the_async_client_does_the_same(memory: devmem.Memory, service: Service) -> None:
    async def ask() -> list[str]:
        async with openai.AsyncOpenAI(api_key="k", base_url=service.address, max_retries=0) as client:
            wrapped = wrap(client, memory)
            await wrapped.chat.completions.create(model="m", messages=ASKED)  # type: ignore[arg-type]
            stream: Any = await wrapped.chat.completions.create(
                model="m",
                messages=[{"role": "user", "content": [{"type": "text", "text": "And the venue?"}]}],
                stream=True,
            )
            return [chunk.choices[0].delta.content async for chunk in stream]

    assert asyncio.run(ask()) == ["On the ", "third."]
    assert "June 2nd" in service.requests[0]["messages"][1]["content"]
    assert remembered(memory) == [*EXCHANGE, "user: And the venue?", "assistant: On the third."]


def test_a_request_without_a_question_or_an_answer_in_words_is_not_remembered(
    client: openai.OpenAI, memory: devmem.Memory, service: Service
) -> None:
    wrapped = wrap(client, memory)
    wrapped.chat.completions.create(model="m", messages=[{"role": "system", "content": "Say something."}])
    wrapped.chat.completions.create(model="m", messages=[{"role": "user", "content": "call a tool"}])
    assert len(service.requests[0]["messages"]) == 1
    assert remembered(memory) == []
    wrap(client, memory, remember=False).chat.completions.create(model="m", messages=ASKED)  # type: ignore[arg-type]
    assert remembered(memory) == []


@pytest.mark.parametrize("as_object", [False, True])
def test_of_a_history_that_grows_each_message_is_remembered_once(
    client: openai.OpenAI, memory: devmem.Memory, as_object: bool
) -> None:
    wrapped = wrap(client, memory)
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


def test_an_agent_that_says_something_with_a_call_of_a_tool_is_asked_once(
    client: openai.OpenAI, memory: devmem.Memory
) -> None:
    wrapped: Any = wrap(client, memory)
    for _ in range(2):
        history: list[Any] = [{"role": "user", "content": "status?"}]
        for step in range(3):
            wrapped.chat.completions.create(model="m", messages=history)
            history += [
                {"role": "assistant", "content": "On the third.", "tool_calls": []},
                {"role": "tool", "content": f"result {step}", "tool_call_id": str(step)},
            ]
    assert remembered(memory) == 2 * ["user: status?", *3 * ["assistant: On the third."]]


def test_a_question_before_an_answer_that_was_not_given_here_is_remembered(
    client: openai.OpenAI, memory: devmem.Memory
) -> None:
    begun: Any = [{"role": "user", "content": "When is the launch?"}, {"role": "assistant", "content": "On the"}]
    wrap(client, memory).chat.completions.create(model="m", messages=begun)
    assert remembered(memory) == EXCHANGE


class Launch(BaseModel):
    """Structured output of a test."""

    date: str


STRUCTURED = '{"date": "June 2nd"}'


class TestOtherWays:
    """Every way in which a client of OpenAI's sends a question recalls and remembers."""

    def sent(self, service: Service) -> str:
        """Return what was put before the question of the last request."""
        given = service.requests[-1]
        return str((given.get("messages") or given["input"])[-2]["content"])

    def test_structured_output(
        self, client: openai.OpenAI, memory: devmem.Memory, service: Service, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(service, "words", STRUCTURED)
        wrapped = wrap(client, memory)
        for completions in (wrapped.chat.completions, wrapped.beta.chat.completions):
            answer = completions.parse(model="m", messages=ASKED, response_format=Launch)  # type: ignore[arg-type]
            assert answer.choices[0].message.parsed == Launch(date="June 2nd")
            assert "Ann moved the launch" in self.sent(service)
        assert wrapped.responses.parse(model="m", input=ASKED, text_format=Launch).output_parsed  # type: ignore[arg-type]
        assert "Ann moved the launch" in self.sent(service)
        assert set(remembered(memory)) == {EXCHANGE[0], f"assistant: {STRUCTURED}"}

    def test_a_stream_of_events(self, client: openai.OpenAI, memory: devmem.Memory, service: Service) -> None:
        with wrap(client, memory).chat.completions.stream(model="m", messages=ASKED) as stream:  # type: ignore[arg-type]
            assert "".join(each.delta for each in stream if each.type == "content.delta") == "On the third."
        assert "Ann moved the launch" in self.sent(service)
        assert remembered(memory) == EXCHANGE

    @pytest.mark.parametrize("method", ["with_options", "copy"])
    def test_a_copy_of_the_client(
        self, client: openai.OpenAI, memory: devmem.Memory, service: Service, method: str
    ) -> None:
        wrapped = getattr(wrap(client, memory), method)(timeout=9)
        wrapped.chat.completions.create(model="m", messages=ASKED)
        assert "Ann moved the launch" in self.sent(service)
        assert wrapped.timeout == 9
        assert remembered(memory) == EXCHANGE

    def test_a_raw_response(self, client: openai.OpenAI, memory: devmem.Memory, service: Service) -> None:
        answer: Any = wrap(client, memory).chat.completions.with_raw_response.create(model="m", messages=ASKED)  # type: ignore[arg-type]
        assert "Ann moved the launch" in self.sent(service)
        assert answer.http_response.status_code == 200
        assert answer.parse().choices[0].message.content == "On the third."
        assert remembered(memory) == EXCHANGE

    def test_a_raw_response_that_is_streamed(self, client: openai.OpenAI, memory: devmem.Memory) -> None:
        raw: Any = wrap(client, memory).chat.completions.with_raw_response
        stream = raw.create(model="m", messages=ASKED, stream=True).parse()
        assert remembered(memory) == []
        assert "".join(chunk.choices[0].delta.content for chunk in stream) == "On the third."
        assert remembered(memory) == EXCHANGE

    def test_a_raw_response_that_is_read_later(
        self, client: openai.OpenAI, memory: devmem.Memory, service: Service
    ) -> None:
        later: Any = wrap(client, memory).chat.completions.with_streaming_response
        with later.create(model="m", messages=ASKED) as answer:
            assert "Ann moved the launch" in self.sent(service)
            assert remembered(memory) == []
            for _ in range(2):
                assert answer.parse().choices[0].message.content == "On the third."
        assert remembered(memory) == EXCHANGE

    def test_the_async_client(self, memory: devmem.Memory, service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(service, "words", STRUCTURED)
        first, second, third = ([{"role": "user", "content": f"When is launch {number}?"}] for number in range(3))

        async def ask() -> None:
            async with openai.AsyncOpenAI(api_key="k", base_url=service.address, max_retries=0) as client:
                wrapped: Any = wrap(client, memory).with_options(timeout=9)
                await wrapped.chat.completions.parse(model="m", messages=first, response_format=Launch)
                assert (await wrapped.chat.completions.with_raw_response.create(model="m", messages=second)).parse()
                later = wrapped.chat.completions.with_streaming_response
                async with later.create(model="m", messages=third) as answer:
                    assert (await answer.parse()).choices

        asyncio.run(ask())
        assert all("Ann moved the launch" in str(given["messages"][0]["content"]) for given in service.requests)
        assert [text for text in remembered(memory) if "user" in text] == [
            f"user: When is launch {number}?" for number in range(3)
        ]

    def test_an_answer_that_cannot_be_read_reaches_the_caller_raw(
        self, client: openai.OpenAI, memory: devmem.Memory, service: Service, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(service, "answer", lambda *_, **__: ("application/json", b"{"))
        answer = wrap(client, memory).chat.completions.with_raw_response.create(model="m", messages=ASKED)  # type: ignore[arg-type]
        assert answer.http_response.content == b"{"
        assert remembered(memory) == []


class TestContract(Talks, Histories, Recalls):
    page, hands_on = "openai", "new messages"

    @pytest.fixture(autouse=True)
    def connected(self, client: openai.OpenAI, service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
        self.client, self.service, self.patch = client, service, monkeypatch

    @pytest.fixture
    def memory(self) -> Iterator[devmem.Memory]:
        with devmem.open(":memory:", embedding=None) as memory:
            yield memory

    def ask(self, memory: devmem.Memory, *texts: str) -> None:
        messages: Any = [{"role": "user", "content": text} for text in texts]
        wrap(self.client, memory).chat.completions.create(model="m", messages=messages)

    def talk(self, memory: devmem.Memory) -> None:
        self.patch.setattr(self.service, "words", ANSWER)
        self.ask(memory, QUESTION)

    def converse(self, memory: devmem.Memory, exchanges: Sequence[tuple[str, str]]) -> None:
        wrapped, history = wrap(self.client, memory), list[Any]()
        for asked, answer in exchanges:
            self.patch.setattr(self.service, "words", answer)
            history.append({"role": "user", "content": asked})
            history.append(wrapped.chat.completions.create(model="m", messages=history).choices[0].message)

    def recalled(self, memory: devmem.Memory, *shown: str) -> str:
        self.ask(memory, *shown)
        messages = self.service.requests[0]["messages"]
        return str(messages[-2]["content"]) if len(messages) > len(shown) else ""
