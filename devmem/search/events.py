"""Records of one event, which a phone keeps several of: an appointment, a call, photos and messages within the hour.

Candidates that are records gain by better ones of about the same time, the most by those with the same people.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

import numpy as np

from devmem.search.candidates import shared_with_named
from devmem.search.indexes.columns import Rows
from devmem.search.periods import has_cue
from devmem.search.score import ScoreBreakdown
from devmem.search.source import Column, Places, QueryContext
from devmem.text.cues import Cue, asks_for_latest, kinds_named

SAME_EVENT: Final = 0.6
"""Weight of the scores of records of the same event."""
LATEST: Final = 0.2
"""Contribution of the last one of records that match about as well, where the query asks for the last."""
LATEST_OF_KIND: Final = 0.5
"""The same where the query names the kind of record."""
_ANCHORS: Final = 20
"""Number of the best records that others gain by; what counts is how much they are better than the next one."""
_MOST: Final = 3
"""Maximum number of records that one gains by."""
_NEAR: Final = 0.7 * 3600
"""Seconds after which the gain is a third."""
_OTHER_PEOPLE: Final = 0.4
"""Share that a record counts which is with other people, or with none."""
_AS_WELL: Final = 0.25
"""A record matches as well as the best one whose score is better by less than this."""


def add_events(context: QueryContext, rows: Rows, breakdown: ScoreBreakdown) -> ScoreBreakdown:
    """Return the scores with the gains of records of the same event, and of the last ones where these are asked for.

    Args:
        context: the query and the indexes.
        rows: of the n candidates.
        breakdown: their scores.
    """
    doc_values = context.indexes.doc_values
    positions = doc_values.positions(rows)
    records = np.flatnonzero(has_cue(doc_values.column("cues")[positions], Cue.RECORD))
    if not len(records):
        return breakdown
    at = positions[records]
    times, total, people = doc_values.column("time")[at], breakdown.total(), doc_values.strings("speaker", at)
    gained, latest = np.zeros((2, len(positions)))
    gained[records] = SAME_EVENT * same_event(total[records], times, people, doc_values.strings("user", at))
    if asks_for_latest(context.text):
        kinds = kinds_named(context.text)
        scores = total[records]
        if kinds:
            is_asked_for = has_cue(doc_values.column("cues")[at], kinds)
            is_asked_for &= shared_with_named(context.text, people)
            scores = np.where(is_asked_for, scores, -np.inf)
        latest[records] = (LATEST_OF_KIND if kinds else LATEST) * latest_of(scores, times)
    return replace(breakdown, same_event=gained, latest=latest)


def same_event(scores: Column, times: Column, people: Sequence[str | None], users: Sequence[str | None]) -> Column:
    """Return how much better the best records of about the same time are than the 21st record; three at most.

    Args:
        scores: of n records, shape (n,).
        times: seconds since the epoch, shape (n,).
        people: person with whom each is; None where there is none.
        users: whose each is; records of different users are of different events.
    """
    if len(scores) < 2:
        return np.zeros(len(scores))
    order = np.argsort(-scores, kind="stable")
    anchors = order[:_ANCHORS]
    better = scores[anchors] - scores[order[min(_ANCHORS, len(order) - 1)]]
    near = np.exp(-np.abs(times[:, np.newaxis] - times[anchors]) / _NEAR)
    named = _codes(people)
    same_people = (named[:, np.newaxis] == named[anchors]) & (named[:, np.newaxis] >= 0)
    owners = _codes(users)
    gains = better * near * np.where(same_people, 1.0, _OTHER_PEOPLE)
    gains *= owners[:, np.newaxis] == owners[anchors]
    gains[anchors, np.arange(len(anchors))] = 0.0
    most = min(_MOST, gains.shape[1])
    return np.asarray(np.partition(gains, -most, axis=1)[:, -most:].sum(axis=1), dtype=np.float64)


def _codes(names: Sequence[str | None]) -> Places:
    """Return a number for each name, the same for the same one; -1 for none."""
    known: dict[str, int] = {}
    found = [-1 if name is None else known.setdefault(name, len(known)) for name in names]
    return np.array(found, dtype=np.int64)


def latest_of(scores: Column, times: Column) -> Column:
    """Return 1 for the last of the records that match about as well as the best one, 1/2 for the one before, and so on.

    Args:
        scores: of n records, shape (n,); minus infinity for one that is not asked for.
        times: seconds since the epoch, shape (n,).

    Returns:
        Shape (n,); 0 for a record that matches less well.
    """
    as_well = np.flatnonzero(scores > np.max(scores, initial=-np.inf) - _AS_WELL)
    found = np.zeros(len(scores))
    found[as_well[np.argsort(-times[as_well], kind="stable")]] = 1 / np.arange(1, len(as_well) + 1)
    return found
