"""OpenAI's client with a memory, and a service that fails: nothing that was said is lost, and nothing is made up."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import openai
import pytest

import devmem
from devmem.adapters.openai import wrap
from tests.models.service import ChatService, Reply, answering

ASKED: Any = [{"role": "user", "content": "When is the launch?"}]
EXCHANGE = ["user: When is the launch?", "assistant: On the third."]


@pytest.fixture
def service() -> Iterator[ChatService]:
    with ChatService() as service:
        yield service


@pytest.fixture
def memory(tmp_path: Path) -> Iterator[devmem.Memory]:
    with devmem.open(tmp_path / "notes.db", embedding=None) as memory:
        yield memory


@pytest.fixture
def client(service: ChatService, memory: devmem.Memory) -> Iterator[openai.OpenAI]:
    with openai.OpenAI(api_key="k", base_url=service.address, max_retries=1) as client:
        yield wrap(client, memory)


def remembered(memory: devmem.Memory) -> list[str]:
    return [f"{record.role}: {record.text}" for record in memory]


def events(*events: dict[str, Any]) -> Reply:
    return Reply(body="".join(f"data: {json.dumps(each)}\n\n" for each in events).encode(), kind="text/event-stream")


def chunk(text: str, finish: str | None = None) -> dict[str, Any]:
    return {"id": "1", "choices": [{"index": 0, "delta": {"content": text}, "finish_reason": finish}]}


CHAT = events(chunk("On the "), chunk("third."), chunk("", "stop"), {"id": "1", "choices": [], "usage": {}})
RESPONSE = events(
    {"type": "response.output_text.delta", "delta": "On the "},
    {"type": "response.output_text.delta", "delta": "third."},
    {"type": "response.completed", "response": {"id": "r", "output": []}},
    {"type": "devmem.more"},
)


def test_who_stops_reading_after_the_last_text_has_it_remembered(
    service: ChatService, client: openai.OpenAI, memory: devmem.Memory
) -> None:
    service.script = [CHAT, RESPONSE]
    with client.chat.completions.create(model="m", messages=ASKED, stream=True) as stream:
        next(each for each in stream if each.choices[0].finish_reason == "stop")
    assert remembered(memory) == EXCHANGE
    with client.responses.create(model="m", input="And the venue?", stream=True) as other:
        next(each for each in other if each.type == "response.completed")
    assert remembered(memory) == [*EXCHANGE, "user: And the venue?", "assistant: On the third."]


def test_who_reads_to_the_end_has_it_remembered_once(
    service: ChatService, client: openai.OpenAI, memory: devmem.Memory
) -> None:
    service.script = [CHAT, RESPONSE]
    assert len(list(client.chat.completions.create(model="m", messages=ASKED, stream=True))) == 4
    assert len(list(client.responses.create(model="m", input=ASKED, stream=True))) == 4
    assert remembered(memory) == 2 * EXCHANGE, "once for each request"


def test_the_async_client_does_the_same(service: ChatService, memory: devmem.Memory) -> None:
    service.script = [CHAT]

    async def ask() -> None:
        async with openai.AsyncOpenAI(api_key="k", base_url=service.address) as client:
            stream: Any = await wrap(client, memory).chat.completions.create(model="m", messages=ASKED, stream=True)
            async for each in stream:
                if each.choices[0].finish_reason:
                    break
            await stream.close()

    asyncio.run(ask())
    assert remembered(memory) == EXCHANGE


def test_of_a_stream_that_is_cut_nothing_is_remembered_and_the_next_request_is(
    service: ChatService, client: openai.OpenAI, memory: devmem.Memory
) -> None:
    service.script = [replace(events(chunk("On the ")), is_cut=True), answering("On the third.")]
    with pytest.raises((openai.APIConnectionError, httpx.RemoteProtocolError)):
        list(client.chat.completions.create(model="m", messages=ASKED, stream=True))
    assert remembered(memory) == []
    client.chat.completions.create(model="m", messages=ASKED)
    assert remembered(memory) == EXCHANGE


@pytest.mark.parametrize("kind", ["response.failed", "error"])
def test_of_a_response_that_fails_in_its_stream_nothing_is_remembered(
    service: ChatService, client: openai.OpenAI, memory: devmem.Memory, kind: str
) -> None:
    service.script = [events({"type": "response.output_text.delta", "delta": "On the "}, {"type": kind})]
    assert len(list(client.responses.create(model="m", input=ASKED, stream=True))) == 2
    assert remembered(memory) == []


@pytest.mark.parametrize("status", [429, 500])
def test_a_request_that_is_repeated_is_remembered_once(
    service: ChatService, client: openai.OpenAI, memory: devmem.Memory, status: int
) -> None:
    busy = Reply(body={"error": {"message": "busy"}}, status=status)
    service.script = [busy, answering("On the third."), busy]
    client.chat.completions.create(model="m", messages=ASKED)
    assert remembered(memory) == EXCHANGE
    with pytest.raises(openai.APIStatusError, match="busy"):
        client.chat.completions.create(model="m", messages=ASKED)
    assert remembered(memory) == EXCHANGE


@pytest.mark.parametrize(
    "body",
    [
        {"choices": {"first": 1}},
        {"choices": [None]},
        {"choices": "x"},
        {"choices": []},
        {"choices": None, "output": None},
        {"output": [{"type": "message", "content": None}]},
        {"output": [None]},
        [1],
        b"{no json",
    ],
)
def test_an_answer_in_no_known_form_is_the_callers_and_is_not_remembered(
    service: ChatService, client: openai.OpenAI, memory: devmem.Memory, body: Any
) -> None:
    service.script = [Reply(body=body, kind="text/plain" if isinstance(body, bytes) else "application/json")]
    client.chat.completions.create(model="m", messages=ASKED)
    client.responses.create(model="m", input=ASKED)
    assert remembered(memory) == []
