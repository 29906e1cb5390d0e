"""How much speaks for a conversation: its best item, and what its items say together.

The weights were chosen on conversations between people and checked with conversations, and then the choice itself, left
out (`tools.bench`).
"""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from devmem.ranking.late_interaction import Scores
from devmem.ranking.options import DAY

Column = NDArray[np.float64]

FIRST_MENTION: Final = 0.15
NEAR_IN_TIME: Final = 0.20
STRETCH: Final = 0.45
_AS_WELL: Final = 0.12
"""A conversation says a word as well as another whose match is better by less than this."""
_COMPARED: Final = 256
"""Conversations are compared with so many of the best."""
_TOLD_WITHIN: Final = 7 * DAY
"""People tell of what happened for some time: after so long it counts a third."""


def first_mentions(matches: Scores, weights: Scores, times: Column) -> Column:
    """Give how far each conversation is the first to speak of what is asked: from near 0 to 1.

    Later ones that only come back to it match as well, word by word.

    Args:
        matches: the best match of each of the query's tokens in each conversation, the best conversation first; shape
            (tokens, conversations).
        weights: what each token counts, shape (tokens,).
        times: when each conversation took place, in any unit, shape (conversations,).
    """
    compared = slice(None, _COMPARED)
    earlier = times[np.newaxis, compared] < times[:, np.newaxis]
    found = np.zeros(len(times))
    for match, weight in zip(matches, weights, strict=True):
        as_well = match[np.newaxis, compared] > match[:, np.newaxis] - _AS_WELL
        found += weight / (1 + np.count_nonzero(as_well & earlier, axis=1))
    return found


def nearness(times: Column, period: tuple[float, float]) -> Column:
    """Give 1 for what took place in a period, less the later it was, and 0 for what was before: from there nobody knew.

    Args:
        times: when each conversation took place, seconds since the epoch, shape (conversations,).
        period: from and until, seconds since the epoch.
    """
    start, end = period
    return np.where(times < start, 0.0, np.exp(-np.maximum(times - end, 0.0) / _TOLD_WITHIN))


def weigh_conversations(best: Column, first: Column, near: Column, stretch: Column) -> Column:
    """Give each conversation's score; the one with the best item comes first, whatever speaks for others.

    Args:
        best: score of its best item.
        first: as `first_mentions` gives it.
        near: as `nearness` gives it; 0 when no time is asked for.
        stretch: cosine of the query and the stretch of talk that is nearest to it.
    """
    scores = best + FIRST_MENTION * first + NEAR_IN_TIME * near + STRETCH * stretch
    if len(scores):
        scores[np.argmax(best)] = np.nextafter(scores.max(), np.inf)
    return scores
