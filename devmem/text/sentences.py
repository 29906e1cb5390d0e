"""Splitting a text into sentences, in scripts with and without spaces."""

from __future__ import annotations

from typing import Final

from devmem.text.patterns import lazy_pattern

_END: Final = lazy_pattern(r"(?:[。！？；\n]|[.!?](?=\s)|[.!?][”’」』）\"')\]]+(?=\s))[。！？；.!?”’」』）\"')\]\s]*")
"""Full-width ends and line ends always count; .!? only before white space, so that 3.14 and a.b/c?d stay whole."""


def split_sentences(text: str) -> list[str]:
    """Split the text after its sentence ends and the white space behind them; the pieces joined give the text back."""
    ends = [match.end() for match in _END.finditer(text)]
    return [text[start:end] for start, end in zip([0, *ends], [*ends, len(text)], strict=True) if start < end]


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
