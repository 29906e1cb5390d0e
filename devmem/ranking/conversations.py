"""Scores of conversations: of the best item, and of all items together.

The weights were chosen on conversations between people, and checked by leaving conversations out (`tools.bench`).
"""

from __future__ import annotations

from dataclasses import dataclass
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
"""A conversation matches a token as well as another whose match is better by less than this."""
_COMPARED: Final = 256
"""Number of best conversations that all are compared with."""
_TOLD_WITHIN: Final = 7 * DAY
"""People talk of an event for some time: after seven days it counts a third."""


def first_mentions(matches: Scores, weights: Scores, times: Column) -> Column:
    """Return how far each conversation is the first one that mentions the query's tokens: from near 0 to 1.

    Later ones that only come back to the subject match as well, word by word.

    Args:
        matches: the best match of each of the query's tokens in each conversation, the best conversation first; shape
            (tokens, conversations).
        weights: of the tokens, shape (tokens,).
        times: of the conversations, in any unit, shape (conversations,).
    """
    compared = slice(None, _COMPARED)
    earlier = times[np.newaxis, compared] < times[:, np.newaxis]
    found = np.zeros(len(times))
    for match, weight in zip(matches, weights, strict=True):
        as_well = match[np.newaxis, compared] > match[:, np.newaxis] - _AS_WELL
        found += weight / (1 + np.count_nonzero(as_well & earlier, axis=1))
    return found


def nearness(times: Column, period: tuple[float, float]) -> Column:
    """Return 1 for a conversation within a period, less the later it was, and 0 for one before it, which cannot know.

    Args:
        times: of the conversations, seconds since the epoch, shape (conversations,).
        period: start and end, seconds since the epoch.
    """
    start, end = period
    return np.where(times < start, 0.0, np.exp(-np.maximum(times - end, 0.0) / _TOLD_WITHIN))


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ConversationBreakdown:
    """Score contributions of n conversations, arrays of shape (n,)."""

    best: Column
    """Score of its best item."""
    first_mention: Column
    in_time: Column
    stretch: Column
    scores: Column
    """The sum; for the conversation of the best item raised above all others."""

    def parts(self, at: int) -> dict[str, float]:
        """Return the addends of one conversation's score that are not 0, by name.

        `leads` is added to the conversation of the best item so that it comes first.
        """
        summed = {
            "best": self.best[at],
            "first_mention": self.first_mention[at],
            "in_time": self.in_time[at],
            "stretch": self.stretch[at],
        }
        summed["leads"] = self.scores[at] - sum(summed.values())
        return {name: float(value) for name, value in summed.items() if value}


def score_conversations(best: Column, first: Column, near: Column, stretch: Column) -> ConversationBreakdown:
    """Return the scores of conversations; the one with the best item comes first, whatever the others' sums.

    Args:
        best: score of each one's best item.
        first: result of `first_mentions`.
        near: result of `nearness`; 0 when the query names no time.
        stretch: cosine of the query and the stretch of talk that is nearest to it.
    """
    first_mention, in_time, talk = FIRST_MENTION * first, NEAR_IN_TIME * near, STRETCH * stretch
    scores = best + first_mention + in_time + talk
    if len(scores) and scores[np.argmax(best)] < scores.max():
        scores[np.argmax(best)] = np.nextafter(scores.max(), np.inf)
    return ConversationBreakdown(best=best, first_mention=first_mention, in_time=in_time, stretch=talk, scores=scores)
