"""Ranking of the conversations that the candidates are of."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from devmem.search.candidates import CandidateSet
from devmem.search.indexes.columns import group_starts
from devmem.search.query import DAY
from devmem.search.source import Column, Places, QueryContext
from devmem.search.token_matching import MaxSimScorer, Scores

FIRST_MENTION: Final = 0.15
NEAR_IN_TIME: Final = 0.20
STRETCH: Final = 0.45
_AS_WELL: Final = 0.12
"""A conversation matches a token as well as another whose match is better by less than this."""
_COMPARED: Final = 256
"""Number of best conversations that all are compared with."""
_TOLD_WITHIN: Final = 7 * DAY
"""People talk of an event for some time: after seven days it counts a third."""


def _first_mentions(matches: Scores, weights: Scores, times: Column) -> Column:
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


_REACH: Final = 5
"""Number of turns before and after a turn that make a stretch of talk."""
_BATCH_SIZE: Final = 1024
"""Number of stretches in memory at once, up to 17 MB for 384 dimensions."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Conversations:
    """Conversations among the candidates, n of them."""

    members: list[Places]
    """Places of each one's candidates, the best first."""
    scores: Column
    """Sums of the parts; that of the conversation of the best item is raised above all others."""
    _parts: dict[str, Column]

    def best(self, limit: int) -> list[int]:
        """Return the numbers of the best conversations, best first."""
        return [int(number) for number in np.argsort(-self.scores, kind="stable")[:limit]]

    def parts(self, at: int) -> dict[str, float]:
        """Return the addends of one conversation's score that are not 0, by name.

        `leads` is added to the conversation of the best item so that it comes first.
        """
        summed = {name: float(column[at]) for name, column in self._parts.items()}
        summed["leads"] = float(self.scores[at]) - sum(summed.values())
        return {name: value for name, value in summed.items() if value}


def rank_conversations(
    context: QueryContext, candidates: CandidateSet, scores: Column, matches: MaxSimScorer | None
) -> Conversations:
    """Rank the conversations by their best candidate and by all of their candidates together.

    Args:
        context: the query and the indexes.
        candidates: one that is of no conversation stands for itself.
        scores: their scores, shape (candidates,).
        matches: their token-by-token matches; None where there is no late interaction.
    """
    doc_values = context.indexes.doc_values
    positions = doc_values.positions(candidates.rows)
    members = _grouped(doc_values.column("thread")[positions], candidates, scores)
    if not members:
        return Conversations(members=[], scores=np.empty(0), _parts={})
    order, starts = np.concatenate(members), np.cumsum([0, *map(len, members[:-1])])
    times = np.minimum.reduceat(doc_values.column("time")[positions[order]], starts)
    best = scores[order[starts]]
    first = near = np.zeros(len(members))
    if matches is not None:
        together = np.maximum.reduceat(matches.by_token(candidates.rows[order]), starts, axis=1)
        first = _first_mentions(together, matches.weights, times)
    if (period := context.period) is not None:
        # One that was before the time cannot know of it.
        near = np.where(times < period.start, 0.0, np.exp(-np.maximum(times - period.end, 0.0) / _TOLD_WITHIN))
    batches = np.split(positions[order], range(_BATCH_SIZE, len(order), _BATCH_SIZE))
    stretch = np.maximum.reduceat(np.concatenate([_stretches(context, batch) for batch in batches]), starts)
    parts = {"best": best, "first_mention": FIRST_MENTION * first, "in_time": NEAR_IN_TIME * near}
    parts["stretch"] = STRETCH * stretch
    total = np.asarray(sum(parts.values()), dtype=np.float64)
    leading = np.argmax(best)
    if total[leading] < total.max():
        total[leading] = np.nextafter(total.max(), np.inf)
    return Conversations(members=members, scores=total, _parts=parts)


def _grouped(threads: NDArray[np.int64], candidates: CandidateSet, scores: Column) -> list[Places]:
    """Group the candidates by conversation: the best first in each, and the conversation of the best one first."""
    groups: dict[object, list[int]] = {}
    # The newer item comes first among equals.
    for at in np.lexsort((-candidates.rows, -scores)).tolist():
        groups.setdefault(int(threads[at]) or ("alone", at), []).append(at)
    return [np.array(group, dtype=np.int64) for group in groups.values()]


def _stretches(context: QueryContext, positions: Places) -> Column:
    """Return the cosine of the query and the stretch of talk around each position; 0 without embeddings."""
    indexes, vector = context.indexes, context.query.vector
    if indexes.vectors is None or vector is None:
        return np.zeros(len(positions))
    around = np.vstack([positions, *context.turns_around(positions, _REACH)])
    known = np.unique(around[around >= 0])
    passages, owner = indexes.passage_map.passages_of(indexes.doc_values.rows(known))
    starts = group_starts(owner)
    counts = np.diff(np.append(starts, len(owner)))
    means = np.zeros((len(known) + 1, indexes.vectors.dimension), dtype=np.float32)
    means[owner[starts]] = np.add.reduceat(indexes.vectors.gather(passages), starts, axis=0) / counts[:, np.newaxis]
    # The last place holds nothing.
    places = np.where(around >= 0, np.searchsorted(known, around), len(known))
    total = np.zeros((len(positions), means.shape[1]), dtype=np.float32)
    for row in places:
        total += means[row]
    length = np.linalg.norm(total, axis=1)
    # Rounded, since a product of many rows is not the same to the last bit for equal ones.
    return np.asarray(np.round(total @ vector / np.where(length > 0, length, 1), 6), dtype=np.float64)
