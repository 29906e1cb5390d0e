"""Splitting a text into sentences, in scripts with and without spaces."""

from __future__ import annotations

import re
from typing import Final

# A sentence ends after 。！？； or a line end, and after .!? when a space follows (so 3.14 and example.com stay whole).
_END: Final = re.compile(r"(?<=[。！？；\n])|(?<=[.!?])(?=\s)|(?<=[.!?][\"')\]”’])(?=\s)")


def split_sentences(text: str) -> list[str]:
    """Split the text at sentence ends; the pieces joined give the text back."""
    return [piece for piece in _END.split(text) if piece]


def shorten(text: str, limit: int, *, mark: str = "…") -> str:
    """Keep whole sentences from the start, at most `limit` characters in all; `mark` says that something was cut.

    A first sentence that is too long is cut at a word where one ends in its last third, else hard.
    """
    text = text.strip()
    if len(text) <= limit:
        return text
    room = max(limit - len(mark), 0)
    kept = ""
    for sentence in split_sentences(text):
        if len(kept) + len(sentence) > room:
            break
        kept += sentence
    if not kept.strip():
        kept = text[:room]
        space = kept.rfind(" ")
        if space > 2 * room // 3:
            kept = kept[:space]
    return (kept.rstrip() + mark)[:limit]
