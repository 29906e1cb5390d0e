"""Which of several immutable parts are joined, and which are made again."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

MOST_TEXTS: Final = 1 << 17
"""Number of passages from which a part is not joined with others: the longest step takes some seconds."""
_FANOUT: Final = 8
"""Number of parts of about one size that are joined."""
LEAST_DEAD: Final = 1 / 8
"""A part is made again when more than this share of its passages was deleted."""


def joinable(parts: Sequence[tuple[int, int]], least: int) -> list[int]:
    """Return the numbers of the parts that are to be joined; none when no part is.

    Args:
        parts: number and size of each that is smaller than `MOST_TEXTS`, the smallest first.
        least: size up to which all parts count as equally large.
    """
    for first in range(len(parts) - _FANOUT + 1):
        group = parts[first : first + _FANOUT]
        if group[-1][1] <= _FANOUT * max(group[0][1], least):
            return [number for number, _ in group]
    return []


def is_sparse(size: int, live: int, least: float) -> bool:
    """Whether more than the share `least` of a part's passages was deleted."""
    return size - live > least * size
