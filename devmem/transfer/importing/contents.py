"""Contents of chat messages as text: plain, or a list of parts as the services of OpenAI, Anthropic and Google have."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from devmem.transfer.importing.origin import Origin

_TEXTS: Final = frozenset({"text", "input_text", "output_text", "refusal", ""})
"""Types of parts whose text was said."""
_NAMED: Final[Mapping[str, str]] = {
    "image": "image",
    "image_url": "image",
    "input_image": "image",
    "image_asset_pointer": "image",
    "input_audio": "audio",
    "audio": "audio",
    "audio_transcription": "audio",
    "file": "file",
    "input_file": "file",
    "document": "file",
    "video": "video",
}
"""Types of parts that are named in the text, without what they hold."""


def text_of_content(content: object, origin: Origin) -> str:
    """Return what was said; empty where nothing was, as in a message that only calls tools.

    Thoughts, calls of tools and their results are left out; images and files are named.

    Raises:
        DataFileError: it is no content of a message.
    """
    if content is None:
        return ""
    if isinstance(content, str):
        return content.strip()
    if isinstance(content, Mapping):
        return text_of_content(content["parts"], origin) if "parts" in content else _text_of_part(content, origin)
    if isinstance(content, list):
        texts = (part if isinstance(part, str) else _text_of_part(part, origin) for part in content)
        return "\n".join(text.strip() for text in texts if text.strip())
    raise origin.error(f"'content': expected text or a list of parts, found a value of type {type(content).__name__}")


def _text_of_part(part: object, origin: Origin) -> str:
    if part is None:
        return ""
    if not isinstance(part, Mapping):
        raise origin.error(f"'content': expected a part, found a value of type {type(part).__name__}")
    kind = str(part.get("type") or part.get("content_type") or "")
    if kind in _NAMED:
        return _named(_NAMED[kind], part)
    if kind in _TEXTS:
        text = part.get("text", part.get("refusal"))
        return text if isinstance(text, str) else ""
    return ""


def _named(kind: str, part: Mapping[str, Any]) -> str:
    if isinstance(part.get("text"), str):
        return str(part["text"])
    inner = part.get("file")
    name = part.get("filename") or part.get("title") or (inner.get("filename") if isinstance(inner, Mapping) else None)
    return f"[{kind}: {name}]" if isinstance(name, str) and name else f"[{kind}]"
