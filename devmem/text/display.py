"""Stored text as it may be shown: nothing in it steers a terminal, reorders a line or breaks it."""

from __future__ import annotations

import re
import unicodedata
from typing import Final

from devmem.text.patterns import lazy_pattern

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


# Unicode's default-ignorable characters that are not of the categories Cf and Cc, and the blank Braille cell.
_IGNORED: Final = lazy_pattern(
    "[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u2065\u2800\u3164\ufe00-\ufe0f\uffa0\ufff0-\ufff8\U000e0000-\U000e0fff]"
)
# Marks for any script; those of a script of its own, such as Devanagari's vowels, are part of its spelling.
_MARKS: Final = lazy_pattern("[\u0300-\u036f\u1ab0-\u1aff\u1dc0-\u1dff\u20d0-\u20ff\ufe20-\ufe2f]")


def without_invisible(text: str) -> str:
    """Return the text without invisible characters, which can part words or hide one text in another."""
    if text.isprintable():
        # No control or format character is printable, and of ASCII nothing else is ignored.
        return text if text.isascii() else _IGNORED.sub("", text)
    kept = (char for char in text if unicodedata.category(char) not in ("Cf", "Cc") or char in "\t\n")
    return _IGNORED.sub("", "".join(kept))


def folded(text: str, *, accents: bool = True) -> str:
    """Return a text as the eye reads it: one form of each character (NFKC), without invisible ones and stray marks.

    Args:
        text: as it is stored.
        accents: whether to keep the marks that belong to a letter, as in `é`.
    """
    if text.isascii():
        return without_invisible(text)
    whole = unicodedata.normalize("NFKC" if accents else "NFKD", without_invisible(text))
    return without_invisible(unicodedata.normalize("NFKC", _MARKS.sub("", whole)))


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
