"""Stored text as it may be shown: nothing in it steers a terminal, reorders a line or breaks it."""

from __future__ import annotations

import re
import unicodedata
from typing import Final

BIDI_CONTROLS: Final = frozenset("\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")
"""Characters that set the direction of what follows, so that a line reads otherwise than it is stored (UAX #9)."""


def is_control(char: str) -> bool:
    """Whether a character steers a terminal or the order of a line; line breaks and tabs do not count."""
    return char in BIDI_CONTROLS or (unicodedata.category(char) == "Cc" and char not in "\n\t")


def visible(text: str) -> str:
    """Return the text with control characters as escapes, so that stored text cannot steer the terminal."""
    if text.isprintable():
        return text
    return "".join(ascii(char)[1:-1] if is_control(char) else char for char in text.replace("\r\n", "\n"))


def indented(text: str) -> str:
    """Return the text with its lines after the first indented, so that none of them looks like a label or a turn."""
    first, *more = text.strip().splitlines() or [""]
    return "\n".join([first, *(f"  {line}" if line.strip() else "" for line in more)])


def one_line(text: str) -> str:
    """Return the text on one line."""
    return " ".join(visible(text).split())


def number_of(count: int, thing: str) -> str:
    """Return a number of things in words: `1 store`, `2 stores`."""
    return f"{count:,} {thing}" if count == 1 else f"{count:,} {thing}s"


def well_formed(text: str) -> str:
    """Return the text with a replacement character for every half of a surrogate pair, so that UTF-8 can hold it."""
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


_HALF: Final = re.compile(rb"\\u[dD][89a-fA-F]")
_ESCAPE: Final = re.compile(
    rb"\\(?:u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|(?P<half>u[dD][89a-fA-F][0-9a-fA-F]{2})|.)",
    re.DOTALL,
)
"""An escape of JSON: a surrogate pair, half of one, or another."""


def well_formed_json(raw: bytes) -> bytes:
    """Return JSON, of the same length, with a replacement character for the escape of half a surrogate pair.

    Programs that cut a text off in an emoji write one, and many parsers refuse it.
    """
    if _HALF.search(raw) is None:
        return raw
    return _ESCAPE.sub(lambda found: rb"\ufffd" if found["half"] else found[0], raw)
