"""Usage, calls of tools and streams of chat services, from a real server on the loopback address."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from pydantic import SecretStr

from devmem.errors import ChatModelError
from devmem.messages import Message, Role
from devmem.models import StreamingChatModel, ToolCall, Usage
from devmem.stores import ChatRequest, open_chat_model
from tests.models.service import ChatService, Reply, piece, streaming

CALL = {"id": "c1", "type": "function", "function": {"name": "look_up", "arguments": '{"q": "tea"}'}}
ASKED = ChatRequest(messages=(Message(role=Role.USER, content="hello?"),))


def model(service: ChatService, timeout: float = 5.0, max_retries: int = 0) -> StreamingChatModel:
    options = {"api_key": SecretStr("key-1234"), "base_url": service.address}
    found = open_chat_model("openai", model="m", timeout=timeout, max_retries=max_retries, **options)  # type: ignore[arg-type]
    assert isinstance(found, StreamingChatModel)
    return found


def whole(**message: Any) -> Reply:
    usage = {"prompt_tokens": 12, "completion_tokens": 3, "total_tokens": 15}
    return Reply(
        body={"id": "1", "object": "chat.completion", "choices": [{"index": 0, "message": message}], "usage": usage}
    )


USED = {
    "id": "1",
    "object": "chat.completion.chunk",
    "choices": [],
    "usage": {"prompt_tokens": 7, "completion_tokens": 2},
}


def test_the_usage_of_an_answer_is_reported(service: ChatService) -> None:
    service.script = [whole(content="hi")]
    reply = model(service).complete(ASKED)
    assert (reply.text, reply.usage) == ("hi", Usage(input_tokens=12, output_tokens=3))


def test_calls_of_tools_are_handed_on_with_and_without_a_text(service: ChatService) -> None:
    service.script = [whole(content=None, tool_calls=[CALL]), whole(content="wait", tool_calls=[CALL])]
    wanted = (ToolCall(id="c1", name="look_up", arguments='{"q": "tea"}'),)
    chat = model(service)
    assert (chat.complete(ASKED).text, chat.complete(ASKED).tool_calls) == ("", wanted)


def test_a_stream_hands_out_its_pieces_and_returns_the_whole(service: ChatService) -> None:
    service.script = [
        streaming(piece(role="assistant", content=""), piece(content="Hel"), piece(content="lo"), piece("stop"), USED)
    ]
    heard: list[str] = []
    reply = model(service).stream(ASKED, heard.append)
    assert (heard, reply.text, reply.usage) == (["Hel", "lo"], "Hello", Usage(input_tokens=7, output_tokens=2))
    assert service.requests[0]["stream"] is True
    assert service.requests[0]["stream_options"] == {"include_usage": True}


def test_an_answer_that_is_cut_at_its_maximum_length_is_named(
    service: ChatService, caplog: pytest.LogCaptureFixture
) -> None:
    """It is stored as an answer, and would pass for a whole one."""
    reply = whole(content="The launch is on")
    assert isinstance(reply.body, dict)
    reply.body["choices"][0]["finish_reason"] = "length"
    odd = whole(content="On June 2nd.")
    assert isinstance(odd.body, dict)
    odd.body["choices"][0]["finish_reason"] = {"kind": 3}
    service.script = [reply, odd, streaming(piece(content="The launch"), piece("length"))]
    chat = model(service)
    assert [chat.complete(ASKED).text, chat.complete(ASKED).text] == ["The launch is on", "On June 2nd."]
    assert chat.stream(ASKED, lambda _: None).text == "The launch"
    assert caplog.text.count("was cut off at its maximum length") == 2


def test_calls_of_tools_come_in_pieces_too(service: ChatService) -> None:
    first = {"index": 0, "id": "c1", "function": {"name": "look_up", "arguments": ""}}
    second = {"index": 1, "id": "c2", "function": {"name": "add", "arguments": "{}"}}
    rest = {"index": 0, "function": {"arguments": '{"q": 1}'}}
    service.script = [streaming(piece(tool_calls=[first]), piece(tool_calls=[second, rest]), piece("tool_calls"))]
    reply = model(service).stream(ASKED, pytest.fail)
    assert [(call.id, call.name, call.arguments) for call in reply.tool_calls] == [
        ("c1", "look_up", '{"q": 1}'),
        ("c2", "add", "{}"),
    ]


def test_a_service_that_does_not_count_streams_is_asked_without(service: ChatService) -> None:
    refusal = Reply(body={"error": {"message": "stream_options is unknown"}}, status=400)
    service.script = [refusal, streaming(piece(content="hi"), piece("stop"))]
    chat = model(service)
    assert chat.stream(ASKED, lambda _: None).text == "hi"
    assert "stream_options" not in service.requests[1]
    chat.stream(ASKED, lambda _: None)
    assert len(service.requests) == 3, "once and for all"


@pytest.mark.parametrize(
    ("reply", "said"),
    [
        (streaming(piece(content="Hel"), done=False), "broke off"),
        (streaming("{not json"), "no piece of an answer"),
        (streaming({"choices": "x"}), "no piece of an answer"),
        (streaming(piece("stop")), "without a text"),
        (Reply(body={"error": {"message": "no key-1234"}}, status=401), "gave no answer"),
    ],
)
def test_a_stream_that_is_none_is_an_error_without_the_key(service: ChatService, reply: Reply, said: str) -> None:
    service.script = [reply]
    with pytest.raises(ChatModelError, match=said) as caught:
        model(service).stream(ASKED, lambda _: None)
    assert "key-1234" not in str(caught.value)


@pytest.mark.parametrize(
    "usage", ["many", [1], {"prompt_tokens": "many"}, {"prompt_tokens": 1.5}, {"prompt_tokens": None}, None]
)
def test_a_usage_that_is_none_costs_nobody_the_answer(service: ChatService, usage: object) -> None:
    body = {"choices": [{"message": {"content": "hi"}}], "usage": usage}
    streamed = streaming(piece(content="hi"), piece("stop"), {**USED, "usage": usage})
    service.script = [Reply(body=body), streamed]
    chat = model(service)
    replies = [chat.complete(ASKED), chat.stream(ASKED, lambda _: None)]
    expected = Usage() if usage == {"prompt_tokens": None} else None
    assert [(reply.text, reply.usage) for reply in replies] == [("hi", expected)] * 2


def test_arguments_that_a_service_sends_parsed_are_json(service: ChatService) -> None:
    call = {**CALL, "function": {"name": "look_up", "arguments": {"q": "tea"}}}
    service.script = [whole(content=None, tool_calls=[call])]
    assert model(service).complete(ASKED).tool_calls[0].arguments == '{"q": "tea"}'


def test_a_whole_answer_that_is_cut_is_asked_for_again(service: ChatService) -> None:
    service.script = [replace(whole(content="hi"), is_cut=True), whole(content="hi")]
    assert model(service, max_retries=1).complete(ASKED).text == "hi"
    assert len(service.requests) == 2


def test_a_stream_that_is_cut_is_not_asked_for_again(service: ChatService) -> None:
    service.script = [replace(streaming(piece(content="Hel"), done=False), is_cut=True)]
    heard: list[str] = []
    with pytest.raises(ChatModelError, match="broke off in the middle of an answer: "):
        model(service, max_retries=1).stream(ASKED, heard.append)
    assert heard == ["Hel"], "a second answer would follow the first one's beginning"
    assert len(service.requests) == 1


@pytest.mark.parametrize("drops", [b": still thinking\n\n", b"x"], ids=["comments", "a line without end"])
def test_a_stream_that_only_drips_comes_to_an_end(service: ChatService, drops: bytes) -> None:
    service.script = [replace(streaming(piece(content="Hel"), done=False), drips=drops)]
    heard: list[str] = []
    with pytest.raises(ChatModelError, match=r"'m' came to a halt in its answer: no piece, no end within 0\.2 s"):
        model(service, timeout=0.2).stream(ASKED, heard.append)
    assert heard == ["Hel"]


def test_what_the_listener_raises_is_the_listeners(service: ChatService) -> None:
    service.script = [streaming(piece(content="Hel"), piece("stop"))]

    def listener(text: str) -> None:
        raise KeyError(text)

    with pytest.raises(KeyError, match="Hel"):
        model(service).stream(ASKED, listener)
