"""Messages as an OpenAI-compatible chat API takes them: text, and images, sound and PDFs as parts beside it."""

from __future__ import annotations

import base64
import binascii
import logging
from pathlib import Path
from typing import Any, Final

from devmem.messages import Message, Role
from devmem.model.blocks import AttachmentRef, MessageBlock

_LOG: Final = logging.getLogger(__name__)
_MAX_BYTES: Final = 20_000_000
"""Size of the largest attachment that is sent; a larger one is only named."""
_SIGNATURES: Final = (
    (b"\x89PNG\r\n\x1a\n", "image/png"),
    (b"\xff\xd8\xff", "image/jpeg"),
    (b"GIF87a", "image/gif"),
    (b"GIF89a", "image/gif"),
    (b"%PDF-", "application/pdf"),
    (b"ID3", "audio/mp3"),
    (b"\xff\xfb", "audio/mp3"),
)
_RIFF: Final = {b"WEBP": "image/webp", b"WAVE": "audio/wav"}

Part = dict[str, Any]


def chat_message(message: Message, *, attachments: bool = True) -> dict[str, Any]:
    """Return a message in the form of the chat completions API.

    Every block is named in the text. Of what a user sent, images, sound and PDFs follow as parts, unless `attachments`
    is False; the roles of models and tools take text alone.
    """
    plain = message.for_chat()
    if not attachments or message.role is not Role.USER:
        return plain
    parts = [part for block in message.blocks if (part := content_part(block)) is not None]
    return {**plain, "content": [{"type": "text", "text": plain["content"]}, *parts]} if parts else plain


def content_part(block: MessageBlock) -> Part | None:
    """Return an attachment as a content part; None for what the API has no part for, or cannot be read.

    The content decides what it is, not its name: a stored item that names another file of this machine as its image
    sends nothing.
    """
    ref = block.attachment
    content = _content(ref) if ref is not None else None
    if ref is None or content is None:
        return None
    kind = _kind(content)
    encoded = base64.b64encode(content).decode("ascii")
    if kind.startswith("image/"):
        return {"type": "image_url", "image_url": {"url": f"data:{kind};base64,{encoded}"}}
    if kind.startswith("audio/"):
        return {"type": "input_audio", "input_audio": {"data": encoded, "format": kind.removeprefix("audio/")}}
    if kind == "application/pdf":
        name = ref.name or f"{ref.attachment_id}.pdf"
        return {"type": "file", "file": {"filename": name, "file_data": f"data:{kind};base64,{encoded}"}}
    return None


def _content(ref: AttachmentRef) -> bytes | None:
    if ref.data_uri is not None:
        head, _, data = ref.data_uri.partition(",")
        if not head.endswith(";base64") or len(data) > _MAX_BYTES * 4 // 3:
            return None
        try:
            return base64.b64decode(data, validate=True)
        except binascii.Error:
            return None
    if ref.local_path is None:
        return None
    try:
        path = Path(ref.local_path)
        return path.read_bytes() if path.is_file() and path.stat().st_size <= _MAX_BYTES else None
    except OSError as error:
        _LOG.warning("the attachment %r is sent by its name alone: %s", ref.name or ref.attachment_id, error)
        return None


def _kind(content: bytes) -> str:
    """Return the MIME type that the first bytes show; empty when it is none that can be sent."""
    if content.startswith(b"RIFF"):
        return _RIFF.get(content[8:12], "")
    return next((kind for signature, kind in _SIGNATURES if content.startswith(signature)), "")
