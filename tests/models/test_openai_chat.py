"""`OpenAIChat` against a real HTTP server: what it asks, what it accepts, what it makes of failures."""

from __future__ import annotations

import base64
import logging
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pydantic import SecretStr

from devmem.errors import ChatModelError
from devmem.messages import AttachmentRef, Message, MessageBlock, Role
from devmem.models.openai_chat import OpenAIChat, chat_message
from devmem.stores import ChatConfig, ChatRequest, open_chat_model
from devmem.stores import open_chat as open_store_chat
from tests.models.service import ChatService, Reply, answering, failing

KEY = "sk-very-secret-0123"
Open = Callable[..., OpenAIChat]


@pytest.fixture
def open_chat(service: ChatService) -> Open:
    def opened(key: str = KEY, **more: Any) -> OpenAIChat:
        return OpenAIChat("m-1", api_key=SecretStr(key), base_url=service.address, **{"max_retries": 2, **more})

    return opened


def request(text: str = "Hi", **params: Any) -> ChatRequest:
    return ChatRequest(messages=(Message(role=Role.USER, content=text),), params=params)


def test_sends_the_messages_and_gives_the_answer(service: ChatService, open_chat: Open) -> None:
    service.script = [answering(" Grüß dich, 世界! ")]
    messages = (
        Message(role=Role.SYSTEM, content="Be kind."),
        Message(role=Role.USER, content="Look:", blocks=(MessageBlock(type="image"),)),
        Message(role=Role.ASSISTANT, content="I see.", source="answer"),
    )
    reply = open_chat().complete(ChatRequest(messages=messages, params={"temperature": 0.1}))
    assert (reply.text, reply.quotation) == (" Grüß dich, 世界! ", None)
    assert service.requests == [
        {
            "model": "m-1",
            "temperature": 0.1,
            "messages": [
                {"role": "system", "content": "Be kind."},
                {"role": "user", "content": "Look:\n[image block]"},
                {"role": "assistant", "content": "I see."},
            ],
        }
    ]
    assert service.keys == [f"Bearer {KEY}"]


@pytest.mark.parametrize(("status", "asked"), [(400, 1), (401, 1), (404, 1), (429, 3), (500, 3)])
def test_a_failure_that_stays_is_an_error_that_says_what_the_service_said(
    service: ChatService, open_chat: Open, status: int, asked: int
) -> None:
    service.script = [failing(status)]
    with pytest.raises(ChatModelError, match=f"'m-1' gave no answer: .*{status}.*not today"):
        open_chat().complete(request())
    assert len(service.requests) == asked


@pytest.mark.parametrize("kind", ["application/json", "text/html"])
@pytest.mark.parametrize(
    "body",
    [
        pytest.param({"choices": []}, id="no choice"),
        pytest.param({}, id="no choices"),
        pytest.param({"choices": None}, id="null"),
        pytest.param({"choices": [{}]}, id="no message"),
        pytest.param({"choices": [{"message": None}]}, id="message is null"),
        pytest.param({"choices": [{"message": {"content": None}}]}, id="content is null"),
        pytest.param({"choices": [{"message": {"content": ""}}]}, id="empty"),
        pytest.param({"choices": [{"message": {"content": [1]}}]}, id="another type"),
        pytest.param([1, 2], id="a list"),
        pytest.param("text", id="a text"),
        pytest.param(b"<html>hello</html>", id="not JSON"),
        pytest.param(b"\xff\xfe", id="not text"),
        pytest.param(b"", id="nothing"),
        pytest.param(b'{"choices": ' + b"[" * 100_000, id="nested too deep"),
    ],
)
def test_a_wrong_answer_is_an_error(service: ChatService, open_chat: Open, body: Any, kind: str) -> None:
    service.script = [Reply(body=body, kind=kind)]
    with pytest.raises(ChatModelError, match=r"'m-1' (answered without a text|gave no answer)"):
        open_chat().complete(request())


def test_an_answer_that_does_not_come_is_an_error(service: ChatService, open_chat: Open) -> None:
    service.script = [Reply(body={}, hangs=True)]
    with pytest.raises(ChatModelError, match="timed out"):
        open_chat(timeout=0.05, max_retries=0).complete(request())


@pytest.mark.parametrize(
    "wrong",
    [
        pytest.param({"temprature": 1}, id="no argument of the package"),
        pytest.param({"model": "other"}, id="given twice"),
        pytest.param({"stop": {1, 2}}, id="no JSON"),
        pytest.param({"stream": True}, id="an answer in pieces"),
    ],
)
def test_wrong_params_are_an_error(service: ChatService, open_chat: Open, wrong: dict[str, Any]) -> None:
    with pytest.raises(ChatModelError, match="'m-1'"):
        open_chat().complete(request(**wrong))


@pytest.mark.parametrize("key", [None, SecretStr("")])
def test_without_any_key_the_error_says_where_to_set_it(key: SecretStr | None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    with pytest.raises(ChatModelError, match="Set `api_key`, or OPENAI_API_KEY"):
        open_chat_model("openai", model="m", api_key=key)


def test_an_unknown_provider_is_named_with_what_is_possible() -> None:
    with pytest.raises(
        ChatModelError, match=r"unknown chat provider 'clippy'\. Possible: extractive, openai; .*base_url"
    ):
        open_chat_model("clippy", model="m")


def test_a_store_names_its_model_in_a_block(service: ChatService) -> None:
    config = ChatConfig(provider="ollama", model="m-2", api_key=SecretStr(KEY), base_url=service.address)
    assert open_store_chat(config).complete(request()).text == "hello"
    assert KEY not in repr(config)


PICTURE = MessageBlock(
    type="image", attachment=AttachmentRef(attachment_id="a", name="x", data_uri="data:image/png;base64,iVBORw0KGgo=")
)


def test_images_are_sent_and_a_service_that_refuses_them_gets_their_names(
    service: ChatService, open_chat: Open, caplog: pytest.LogCaptureFixture
) -> None:
    refusal = Reply(body={"error": {"message": "image input is not supported"}}, status=400)
    service.script = [answering("a cat"), refusal, answering("no idea"), answering("none")]
    looking = ChatRequest(messages=(Message(content="What is it?", blocks=(PICTURE,)),))
    chat = open_chat()
    assert [chat.complete(looking).text for _ in range(3)] == ["a cat", "no idea", "none"]
    whole, refused, named, again = (each["messages"][0]["content"] for each in service.requests)
    assert whole == refused
    assert whole[1] == {"type": "image_url", "image_url": {"url": "data:image/png;base64,iVBORw0KGgo="}}
    assert named == again == "What is it?\n[image attachment: x]"
    assert "does not take images" in caplog.text


def test_half_a_surrogate_pair_does_not_stop_the_request(service: ChatService, open_chat: Open) -> None:
    service.script = [answering("Yes.")]
    assert open_chat().complete(request("An emoji cut in two \ud83d")).text == "Yes."
    assert service.requests[0]["messages"][0]["content"] == "An emoji cut in two \ufffd"


@pytest.mark.parametrize("streamed", [False, True])
def test_params_bound_the_time_of_an_answer_that_drips(service: ChatService, open_chat: Open, streamed: bool) -> None:
    service.script = [Reply(body=b"", drips=b" ")]
    chat, asked = open_chat(), request(timeout=0.2, max_retries=0)
    with pytest.raises(ChatModelError, match=r"timed out|no piece, no end within 0\.2 s"):
        chat.stream(asked, print) if streamed else chat.complete(asked)
    assert len(service.requests) == 1


@pytest.mark.parametrize("seconds", [0, -1, True, "3", None, float("inf"), float("nan")])
def test_a_timeout_that_is_not_a_time_is_an_error(service: ChatService, open_chat: Open, seconds: object) -> None:
    with pytest.raises(ChatModelError, match="`timeout` is a number of seconds above 0"):
        open_chat().complete(request(timeout=seconds))
    assert not service.requests


def test_a_password_in_the_address_is_masked() -> None:
    with pytest.raises(ChatModelError, match=r"ftp://\*\*\*@host") as caught:
        OpenAIChat("m", base_url="ftp://ann:geheim@host")
    assert "geheim" not in str(caught.value)


def test_a_service_that_repeats_the_request_puts_no_message_into_the_error(
    service: ChatService, open_chat: Open
) -> None:
    text = "Ann's PIN is 4711, and nobody knows it."
    service.script = [Reply(status=400, body={"error": {"message": f"invalid request: {text[:30]}"}})]
    with pytest.raises(ChatModelError, match="left out") as caught:
        open_chat().complete(request(text))
    assert "4711" not in "".join(traceback.format_exception(caught.value))


@pytest.mark.parametrize(
    "reply",
    [
        pytest.param(Reply(status=401, body={"error": {"message": f"Incorrect API key: {KEY}"}}), id="refused"),
        pytest.param(Reply(body=f"no JSON {KEY}".encode()), id="nonsense"),
    ],
)
def test_the_key_is_in_no_error_and_no_log_even_if_the_service_repeats_it(
    service: ChatService, open_chat: Open, reply: Reply, caplog: pytest.LogCaptureFixture
) -> None:
    service.script = [reply]
    with caplog.at_level(logging.INFO), pytest.raises(ChatModelError) as caught:
        open_chat().complete(request())
    assert "***" in str(caught.value)
    assert KEY not in "".join(traceback.format_exception(caught.value))
    assert KEY not in caplog.text


PNG = b"\x89PNG\r\n\x1a\n rest"
WAV = b"RIFF\x00\x00\x00\x00WAVE rest"
PDF = b"%PDF-1.7 rest"


def data_uri(content: bytes, mime: str = "application/octet-stream") -> str:
    return f"data:{mime};base64,{base64.b64encode(content).decode()}"


def message(ref: AttachmentRef, role: Role = Role.USER) -> Message:
    return Message(role=role, content="Look:", blocks=(MessageBlock(type="image", attachment=ref),))


@pytest.mark.parametrize(
    ("content", "part"),
    [
        (PNG, {"type": "image_url", "image_url": {"url": data_uri(PNG, "image/png")}}),
        (b"\xff\xd8\xff\xe0", {"type": "image_url", "image_url": {"url": data_uri(b"\xff\xd8\xff\xe0", "image/jpeg")}}),
        (WAV, {"type": "input_audio", "input_audio": {"data": base64.b64encode(WAV).decode(), "format": "wav"}}),
        (PDF, {"type": "file", "file": {"filename": "x", "file_data": data_uri(PDF, "application/pdf")}}),
    ],
)
def test_the_content_decides_which_part_an_attachment_is(content: bytes, part: dict[str, object]) -> None:
    sent = chat_message(message(AttachmentRef(attachment_id="a", name="x", data_uri=data_uri(content))))
    assert sent == {"role": "user", "content": [{"type": "text", "text": "Look:\n[image attachment: x]"}, part]}


def test_a_file_of_this_machine_is_read(tmp_path: Path) -> None:
    (tmp_path / "plan.png").write_bytes(PNG)
    sent = chat_message(message(AttachmentRef(attachment_id="a", local_path=str(tmp_path / "plan.png"))))
    assert sent["content"][1]["image_url"]["url"] == data_uri(PNG, "image/png")


@pytest.mark.parametrize(
    "ref",
    [
        AttachmentRef(attachment_id="a", name="x", data_uri=data_uri(b"root:x:0:0", "image/png")),
        AttachmentRef(attachment_id="a", name="x", data_uri="data:image/png;base64,***"),
        AttachmentRef(attachment_id="a", name="x", data_uri="data:image/png,plain"),
        AttachmentRef(attachment_id="a", name="x", local_path="/nowhere/x.png"),
        AttachmentRef(attachment_id="a", name="x", local_path="/"),
        AttachmentRef(attachment_id="a", name="x", remote_file_id="file-1"),
    ],
)
def test_what_is_no_image_or_cannot_be_read_is_only_named(ref: AttachmentRef) -> None:
    assert chat_message(message(ref)) == {"role": "user", "content": "Look:\n[image attachment: x]"}


def test_models_and_tools_send_text_alone() -> None:
    ref = AttachmentRef(attachment_id="a", name="x", data_uri=data_uri(PNG))
    assert chat_message(message(ref, Role.ASSISTANT))["content"] == "Look:\n[image attachment: x]"
    assert chat_message(message(ref), attachments=False)["content"] == "Look:\n[image attachment: x]"
