"""Faithful texts of whatever calls take and return, shortened with a mark and without secrets."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping, Sequence, Set
from dataclasses import asdict, is_dataclass
from datetime import date, datetime
from pathlib import Path
from typing import Final

from pydantic import BaseModel, JsonValue, SecretStr

MASK: Final = "[secret]"
_DEPTH: Final = 12
"""Levels of nesting that are kept."""
_MOST_ENTRIES: Final = 1000
_SECRET_KEY: Final = re.compile(r"(?i)api[-_]?key|passw(?:or)?d|secret|authorization|access[-_]?token|credential")
_SECRET_TEXT: Final = re.compile(
    r"\bsk-[A-Za-z0-9_-]{16,}"  # OpenAI and Anthropic
    r"|\bgh[pousr]_[A-Za-z0-9]{20,}"  # GitHub
    r"|\bAKIA[0-9A-Z]{16}\b"  # AWS
    r"|(?i:\bbearer\s+)[A-Za-z0-9._~+/-]{16,}=*"
    r"|(?<=://)[^/\s:@]+:[^/\s@]+(?=@)"  # user and password of an address
)


def mask_secrets(text: str) -> str:
    """Replace what looks like a key or a password in a text."""
    return _SECRET_TEXT.sub(MASK, text)


def content_of(value: object, max_length: int) -> str:
    """Return a value as text: a string as it is, None as `null`, anything else as JSON.

    Args:
        value: whatever a call took or returned.
        max_length: maximum number of characters; more are cut with a mark that says how many there were.
    """
    if isinstance(value, str):
        text = value
    elif isinstance(value, BaseException):
        text = f"{type(value).__name__}: {value}"
    else:
        text = json.dumps(json_of(value), ensure_ascii=False)
    return shortened(mask_secrets(text), max_length)


def shortened(text: str, max_length: int) -> str:
    """Return the start of a text, with a mark where it was cut."""
    if len(text) <= max_length:
        return text
    mark = f"… [{len(text)} characters]"
    return text[: max(max_length - len(mark), 0)] + mark


def params_of(arguments: Mapping[str, object], max_length: int) -> dict[str, JsonValue]:
    """Return the arguments of a call in JSON form; those together are at most `max_length` characters long."""
    kept: dict[str, JsonValue] = {}
    room = max_length
    for name, value in arguments.items():
        form = MASK if _SECRET_KEY.search(name) else json_of(value)
        length = len(form) if isinstance(form, str) else len(json.dumps(form, ensure_ascii=False))
        kept[name] = form if length <= room else shortened(content_of(form, max_length), room)
        room = max(room - length, 0)
    return kept


def json_of(value: object, depth: int = _DEPTH) -> JsonValue:
    """Return the JSON form of a value; what has none is its `repr`, what looks secret is masked."""
    if value is None or isinstance(value, bool | int):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    if isinstance(value, str):
        return mask_secrets(value)
    if isinstance(value, SecretStr):
        return MASK
    if depth == 0:
        return shortened(mask_secrets(_repr(value)), 200)
    return _json_of_compound(value, depth - 1)


def _json_of_compound(value: object, depth: int) -> JsonValue:
    if isinstance(value, BaseModel):
        return json_of(value.model_dump(), depth)
    if is_dataclass(value) and not isinstance(value, type):
        return json_of(asdict(value), depth)
    if isinstance(value, Mapping):
        entries = list(value.items())[:_MOST_ENTRIES]
        return {
            str(key): MASK if _SECRET_KEY.search(str(key)) and entry is not None else json_of(entry, depth)
            for key, entry in entries
        }
    if isinstance(value, datetime | date):
        return value.isoformat()
    if isinstance(value, Path):
        return str(value)
    if isinstance(value, bytes | bytearray | memoryview):
        return f"[{len(value)} bytes]"
    if isinstance(value, Sequence | Set):
        return [json_of(entry, depth) for entry in list(value)[:_MOST_ENTRIES]]
    return shortened(mask_secrets(_repr(value)), 2000)


def _repr(value: object) -> str:
    try:
        return repr(value)
    except Exception as error:  # noqa: BLE001 - a stranger's `__repr__` may raise anything
        return f"<{type(value).__name__} whose repr raises {type(error).__name__}>"
