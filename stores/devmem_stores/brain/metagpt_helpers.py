"""Helpers of MetaGPT's brain memory for tagged texts, ids and histories."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from typing import Final

from devmem.messages import Message

_TAGGED: Final = r"\[([A-Z]+)\]:\s*(.+)"


def to_int(value: object, default: int) -> int:
    """Return a value as a whole number, or `default` when it is none."""
    try:
        return int(str(value))
    except ValueError:
        return default


def extract_info(text: str, pattern: str = _TAGGED) -> tuple[str | None, str]:
    """Return tag and content, all its lines, of `[TAG]: content`; any other text has no tag.

    `pattern` has two groups: the tag, and the content.
    """
    found = re.match(pattern, text, re.DOTALL)
    return (found[1], found[2]) if found else (None, text)


def to_metagpt_history_format(history: Iterable[Message]) -> str:
    """Return a history as JSON: a list of `{"content": ..., "role": ...}`."""
    return json.dumps([{"content": m.content, "role": m.role.value} for m in history], ensure_ascii=False)
