"""Texts within a token budget: the newest stay, and one that is too long is shortened."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from devmem.stores import estimate_tokens, shorten

_WORTH_SHOWING: Final = 20
"""Least number of tokens of room for which an older text is shortened and not left out."""


def newest_within(texts: Sequence[str], max_tokens: int) -> list[str]:
    """Return the last of the texts that fit together, in their order.

    The first that does not fit whole is shortened to the room that is left, the newest of all always; what is older is
    left out.
    """
    kept: list[str] = []
    room = max_tokens
    for text in reversed(texts):
        tokens = estimate_tokens(text)
        if tokens > room:
            if not kept or room >= _WORTH_SHOWING:
                kept.append(within(text, room))
            break
        kept.append(text)
        room -= tokens
    return kept[::-1]


def within(text: str, max_tokens: int) -> str:
    """Return a text, shortened where it has more than `max_tokens` estimated tokens."""
    if estimate_tokens(text) <= max_tokens:
        return text
    fits, too_long = 0, len(text)
    while too_long - fits > 1:
        length = (fits + too_long) // 2
        if estimate_tokens(shorten(text, length)) <= max_tokens:
            fits = length
        else:
            too_long = length
    return shorten(text, max(fits, 1))
