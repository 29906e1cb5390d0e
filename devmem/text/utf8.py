"""A UTF-8 form for every string: lone surrogates have none of their own."""

from __future__ import annotations

import re
from typing import Final

_SURROGATE: Final = re.compile("[\ud800-\udfff]")
_ESCAPED: Final = "\\escaped:"
"""Begins every escaped string, and is itself escaped where a string begins with it."""
_SEQUENCE: Final = re.compile(r"\\\\|\\u[0-9a-f]{4}")


def encodable(text: str) -> str:
    """Return a string that UTF-8 can hold, a different one for each string; most are returned as they are.

    Where databases keep names, two that differ only in lone surrogates must stay different.
    """
    if not text.startswith(_ESCAPED) and not _SURROGATE.search(text):
        return text
    return _ESCAPED + text.replace("\\", "\\\\").encode("utf-8", "backslashreplace").decode("utf-8")


def original(text: str) -> str:
    """Return the string of which `encodable` made this."""
    if not text.startswith(_ESCAPED):
        return text
    return _SEQUENCE.sub(
        lambda found: "\\" if found[0] == "\\\\" else chr(int(found[0][2:], 16)), text.removeprefix(_ESCAPED)
    )
