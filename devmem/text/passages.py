"""Cutting a long text into passages that a small model reads whole and that are found one by one."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from devmem.text.sentences import split_sentences

PASSAGE_LENGTH: Final = 700
"""Characters: about 160 tokens of English, of which all-MiniLM-L6-v2 reads 256."""


def split_passages(text: str, limit: int = PASSAGE_LENGTH) -> list[str]:
    """Return the passages of a text, each at most `limit` characters, without blank ones; a short text is one."""
    if len(text) <= limit:
        return [text] if text.strip() else []
    return [piece.strip() for piece in split_text(text, limit) if piece.strip()]


def split_text(text: str, limit: int) -> list[str]:
    """Split `text` at sentence ends into pieces of at most `limit` characters that join to the text.

    A sentence that is longer is cut at a space in its second half, or else wherever the limit falls.
    """
    pieces = [""]
    for sentence in split_sentences(text):
        for part in _hard_split(sentence, limit):
            if len(pieces[-1]) + len(part) <= limit:
                pieces[-1] += part
            else:
                pieces.append(part)
    return pieces


def _hard_split(sentence: str, limit: int) -> Iterator[str]:
    while len(sentence) > limit:
        cut = sentence.rfind(" ", limit // 2, limit) + 1 or limit
        yield sentence[:cut]
        sentence = sentence[cut:]
    yield sentence
