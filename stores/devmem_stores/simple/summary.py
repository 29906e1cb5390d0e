"""The summary of an exchange: both sides in one short text, which neither of them can forge."""

from __future__ import annotations

from devmem.stores import indented, shorten


def summarize_exchange(asked: str, answered: str, limit: int) -> str:
    """Write `Input: ...` and `Output: ...` within `limit` characters, whole sentences first.

    Both sides are always there: the shorter takes what it needs of its half and leaves the rest to the other. A side's
    lines after its first are indented: only the labels stand at the left edge, so no text passes for the other side.
    """
    labelled = (("Input: ", indented(asked)), ("Output: ", indented(answered)))
    sides = [(label, text) for label, text in labelled if text]
    room = limit - sum(len(label) for label, _ in sides) - max(len(sides) - 1, 0)
    lengths = [len(text) for _, text in sides]
    if len(sides) == 2 and sum(lengths) > room:
        shorter = min(min(lengths), room // 2)
        limits = [shorter, room - shorter] if lengths[0] <= lengths[1] else [room - shorter, shorter]
    else:
        limits = [room] * len(sides)
    return "\n".join(label + shorten(text, most) for (label, text), most in zip(sides, limits, strict=True))
