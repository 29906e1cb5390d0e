"""Splitting a long text into overlapping windows, as MetaGPT's brain memory does."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

_OVERLAP: Final = 20
_USUAL_WINDOW: Final = 500


def split_texts(text: str, window_size: int) -> list[str]:
    """Split a text into windows of `window_size` characters, each starting with the last 20 of the one before.

    A text that fits is one window. Windows of 20 characters or less do not overlap; 0 or less means 500. Where the last
    whole window ends with the text, one more follows that repeats its end, as in MetaGPT.
    """
    size = window_size if window_size > 0 else _USUAL_WINDOW
    return [text] if len(text) <= size else list(_windows(text, size))


def _windows(text: str, size: int) -> Iterator[str]:
    step = size - _OVERLAP if size > _OVERLAP else size
    for start in range(0, len(text), step):
        yield text[start : start + size]
        if start + size > len(text):
            return
