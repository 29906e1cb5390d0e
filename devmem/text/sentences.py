"""Splitting a text into sentences, in scripts with and without spaces."""

from __future__ import annotations

from typing import Final

from devmem.text.patterns import lazy_pattern

_END: Final = lazy_pattern(r"(?:[。！？；\n]|[.!?](?=\s)|[.!?][”’」』）\"')\]]+(?=\s))[。！？；.!?”’」』）\"')\]\s]*")
"""Full-width marks and line breaks always end a sentence; .!? only before white space, as in 3.14 or a.b/c?d."""


def split_sentences(text: str) -> list[str]:
    """Split a text after each end of a sentence and the white space behind it; the pieces join to the text."""
    ends = [match.end() for match in _END.finditer(text)]
    return [text[start:end] for start, end in zip([0, *ends], [*ends, len(text)], strict=True) if start < end]


def shorten(text: str, limit: int, *, mark: str = "…") -> str:
    """Keep whole sentences from the start, at most `limit` characters in all; `mark` shows that something was cut.

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
