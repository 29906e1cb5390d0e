"""Attachments of messages as content parts for a chat model."""

from __future__ import annotations

import base64
from pathlib import Path

import pytest

from devmem.messages import AttachmentRef, Message, MessageBlock, Role
from devmem.models.openai_chat import chat_message

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
