"""Small forms that texts, ids and histories take between agents."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from typing import Final

from devmem.messages import Message

_TAGGED: Final = r"\[([A-Z]+)\]:\s*(.+)"


def to_int(value: object, default: int) -> int:
    """Read a value as a whole number; gives `default` when it is none."""
    try:
        return int(str(value))
    except ValueError:
        return default


def extract_info(text: str, pattern: str = _TAGGED) -> tuple[str | None, str]:
    """Read `[TAG]: content` as the tag and the content, all its lines; any other text has no tag.

    `pattern` has two groups: the tag, and the content.
    """
    found = re.match(pattern, text, re.DOTALL)
    return (found[1], found[2]) if found else (None, text)


def to_metagpt_history_format(history: Iterable[Message]) -> str:
    """Give a history as JSON: a list of `{"content": ..., "role": ...}`."""
    return json.dumps([{"content": m.content, "role": m.role.value} for m in history], ensure_ascii=False)
