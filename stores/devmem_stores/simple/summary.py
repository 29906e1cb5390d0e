"""The short text that stands for an exchange."""

from __future__ import annotations

from devmem.stores import shorten


def summarize_exchange(asked: str, answered: str, limit: int) -> str:
    """Write `Input: ...` and `Output: ...` within `limit` characters, whole sentences first.

    Both sides are always there: the shorter takes what it needs of its half and leaves the rest to the other.
    """
    sides = [(label, text.strip()) for label, text in (("Input: ", asked), ("Output: ", answered)) if text.strip()]
    room = limit - sum(len(label) for label, _ in sides) - max(len(sides) - 1, 0)
    lengths = [len(text) for _, text in sides]
    if len(sides) == 2 and sum(lengths) > room:
        shorter = min(min(lengths), room // 2)
        limits = [shorter, room - shorter] if lengths[0] <= lengths[1] else [room - shorter, shorter]
    else:
        limits = [room] * len(sides)
    return "\n".join(label + shorten(text, most) for (label, text), most in zip(sides, limits, strict=True))
