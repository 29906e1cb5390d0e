"""Streams of OpenAI's client, which are objects of their own and no generators."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import AsyncIterator, Iterator
from typing import Any

import httpx2
import openai
import pytest

from devmem import record_llm
from devmem.recording import InteractionKind, InteractionRecorder

from .conftest import ListSink


def _chunk(**delta: Any) -> dict[str, Any]:
    return {"id": "1", "object": "chat.completion.chunk", "choices": [{"index": 0, "delta": delta}]}


TEXT = [_chunk(role="assistant"), _chunk(content="On the "), _chunk(content="third."), {"id": "1", "choices": []}]
RESPONSE: list[dict[str, Any]] = [
    {"type": "response.output_text.delta", "delta": "On the third.", "item_id": "m", "output_index": 0},
    {"type": "response.completed", "response": {"id": "r", "object": "response", "status": "completed", "output": []}},
]


def transport(pieces: list[dict[str, Any]]) -> httpx2.MockTransport:
    body = "".join(f"data: {json.dumps(one)}\n\n" for one in pieces)
    headers = {"content-type": "text/event-stream"}
    return httpx2.MockTransport(lambda _: httpx2.Response(200, text=body, headers=headers))


def client_of(pieces: list[dict[str, Any]]) -> openai.OpenAI:
    return openai.OpenAI(api_key="k", http_client=httpx2.Client(transport=transport(pieces)))


@record_llm("model")
def ask(client: openai.OpenAI) -> Any:
    return client.chat.completions.create(model="m", messages=[{"role": "user", "content": "When?"}], stream=True)


def outputs(sink: ListSink) -> list[str]:
    return [one.content for one in sink.in_order() if one.kind is InteractionKind.OUTPUT]


def test_the_pieces_of_a_stream_are_recorded_as_one_text(recorder: InteractionRecorder, sink: ListSink) -> None:
    with recorder, recorder.trace():
        stream = ask(client_of(TEXT))
        assert isinstance(stream, openai.Stream)
        assert len(list(stream)) == len(TEXT)
    assert outputs(sink) == ["On the third."]


def test_the_events_of_a_response_are_recorded_as_the_response(recorder: InteractionRecorder, sink: ListSink) -> None:
    with recorder, recorder.trace():
        made = record_llm("model")(lambda: client_of(RESPONSE).responses.create(model="m", input="When?", stream=True))
        assert len(list(made())) == len(RESPONSE)
    (output,) = outputs(sink)
    assert json.loads(output)["id"] == "r"


def test_the_stream_of_an_async_client_is_recorded(recorder: InteractionRecorder, sink: ListSink) -> None:
    @record_llm("model")
    async def ask_async(client: openai.AsyncOpenAI) -> Any:
        return await client.chat.completions.create(
            model="m", messages=[{"role": "user", "content": "When?"}], stream=True
        )

    async def main() -> int:
        client = openai.AsyncOpenAI(api_key="k", http_client=httpx2.AsyncClient(transport=transport(TEXT)))
        return len([piece async for piece in await ask_async(client)])

    with recorder, recorder.trace():
        assert asyncio.run(main()) == len(TEXT)
    assert outputs(sink) == ["On the third."]


class Held(httpx2.SyncByteStream, httpx2.AsyncByteStream):
    """A body whose first piece comes at once, and nothing more until it is closed."""

    def __init__(self) -> None:
        self.waits, self.closed = threading.Event(), threading.Event()

    def __iter__(self) -> Iterator[bytes]:
        yield f"data: {json.dumps(TEXT[1])}\n\n".encode()
        self.waits.set()
        self.closed.wait(30)
        raise httpx2.ReadError("closed")

    async def __aiter__(self) -> AsyncIterator[bytes]:
        yield f"data: {json.dumps(TEXT[1])}\n\n".encode()
        self.waits.set()
        while not self.closed.is_set():
            await asyncio.sleep(0)
        raise httpx2.ReadError("closed")

    def close(self) -> None:
        self.closed.set()

    async def aclose(self) -> None:
        self.closed.set()

    def transport(self) -> httpx2.MockTransport:
        headers = {"content-type": "text/event-stream"}
        return httpx2.MockTransport(lambda _: httpx2.Response(200, stream=self, headers=headers))


def test_another_thread_may_close_a_stream_that_is_read(recorder: InteractionRecorder, sink: ListSink) -> None:
    """As an application does whose user cancels; the reader ends, and what it read is recorded."""
    body, read = Held(), []
    client = openai.OpenAI(api_key="k", http_client=httpx2.Client(transport=body.transport()))
    with recorder, recorder.trace():
        stream = ask(client)

        def reading() -> None:
            with pytest.raises(openai.APIConnectionError):
                read.extend(stream)

        reader = threading.Thread(target=reading)
        reader.start()
        assert body.waits.wait(30)
        stream.close()
        reader.join(30)
    assert not reader.is_alive()
    assert any(one.kind is InteractionKind.ERROR for one in sink.in_order())


def test_a_stream_that_is_closed_unread_is_recorded_as_empty(recorder: InteractionRecorder, sink: ListSink) -> None:
    with recorder, recorder.trace():
        ask(client_of(TEXT)).close()
    assert outputs(sink) == [""]
