"""How much speaks for a conversation: its best item, and what its items say together.

The weights were chosen on conversations between people and checked with conversations, and then the choice itself, left
out (`tools.bench`).
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


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ConversationBreakdown:
    """What speaks for each of n conversations, arrays of shape (n,)."""

    best: Column
    """Score of its best item."""
    first_mention: Column
    in_time: Column
    stretch: Column
    scores: Column
    """What they are ordered by: the sum, or for the conversation of the best item more than all others have."""

    def parts(self, at: int) -> dict[str, float]:
        """Give what one conversation's score is the sum of, by name, without what is 0.

        `leads` is what the conversation of the best item gets so that it comes first.
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
    """Weigh what speaks for each conversation; the one with the best item comes first, whatever speaks for others.

    Args:
        best: score of its best item.
        first: as `first_mentions` gives it.
        near: as `nearness` gives it; 0 when no time is asked for.
        stretch: cosine of the query and the stretch of talk that is nearest to it.
    """
    first_mention, in_time, talk = FIRST_MENTION * first, NEAR_IN_TIME * near, STRETCH * stretch
    scores = best + first_mention + in_time + talk
    if len(scores) and scores[np.argmax(best)] < scores.max():
        scores[np.argmax(best)] = np.nextafter(scores.max(), np.inf)
    return ConversationBreakdown(best=best, first_mention=first_mention, in_time=in_time, stretch=talk, scores=scores)
