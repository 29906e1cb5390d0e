"""Questions for a time or a session, which items are of it, and records of one event."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Final

import numpy as np
from numpy.typing import NDArray

from devmem.model.record_fields import span_of
from devmem.search.candidates import NO_CANDIDATES, CandidateSet, read_signals, shared_with_named
from devmem.search.indexes.columns import Mask, Rows, spread
from devmem.search.query import DAY
from devmem.search.source import Column, Places, QueryContext
from devmem.text.analysis import STOP_WORDS, mostly_unspaced, terms
from devmem.text.cues import (
    Cue,
    asks_for_latest,
    asks_for_name,
    asks_for_number,
    asks_when,
    kinds_named,
    mentioned,
    subjects,
)
from devmem.text.query_text import asks_something
from devmem.text.times import period_of, without_times

_ITEMS: Final = 300
"""Maximum number of items of the period that become candidates too."""
_AROUND: Final = 0.4
"""Share that an item counts which is near to an asked time: people tell of a day before and after."""
_NEAR: Final = 2 * DAY
"""Seconds before and after an asked time that are near to it, unless its words tell: "12 days ago" is about a day."""
_FRAME: Final = STOP_WORDS | frozenset(
    terms(
        "discuss discussed discussing discussion talk talked talking chat chatted speak spoke say said tell told "
        "happen happened happening go went going cover covered mention mentioned conversation session meeting between "
        "during earlier done anything something everything things thing recap summary summarize new remember topics "
        "聊 天 说 說 讲 谈 談 讨 論 论 对 话 發 发 生 過 过 些 什 麼 事 情 做 干 件 次 我 們 我们"
    )
)
"""Words that ask for a time without saying anything of their own."""
_PLANS: Final = frozenset(
    terms("plan plans planned schedule scheduled agenda calendar appointment appointments due 安 排 计 划 日 程")
)
"""Those that do so for a time to come; a plan for a time that is over is something that was told before."""


def has_cue(cues: NDArray[np.uint16], cue: Cue) -> Mask:
    """Return whether each text has a cue, or one of several, shape (n,)."""
    # NumPy takes three times as long for a flag of an enumeration as for its number.
    return np.asarray((cues & int(cue)) > 0)


def resolve_period(context: QueryContext, candidates: CandidateSet) -> None:
    """Resolve a time that comes again, such as "10 December", where nothing is of the last one.

    It is then the next one, if anything is of that; else the last that a candidate reaches: "in January" means the last
    January, but of memories that end in December the one before. `narrow` filters by the last one before that.
    """
    period = context.period
    if period is None or not (period.floats or period.coming) or context.query.ranking.time == "narrow":
        return
    doc_values = context.indexes.doc_values
    positions = doc_values.positions(candidates.rows)
    spans = _spans(context, positions)
    for possible in (period, period.coming):
        if possible is not None and (
            len(doc_values.in_period(possible.start, possible.end, 1, context.matches.positions))
            or _within(spans, possible.start, possible.end).any()
        ):
            context.period = possible
            return
    times = doc_values.column("time")[positions]
    newest = np.max(times[times < period.end], initial=-np.inf)
    if period.floats and np.isfinite(newest) and newest < period.start:
        zone = context.asked_at.tzinfo if isinstance(context.asked_at, datetime) else None
        context.period = period_of(context.text, datetime.fromtimestamp(float(newest), zone)) or period


def asks_for_period(context: QueryContext) -> bool:
    """Whether a query names a time or a session and says nothing else: "What did we do yesterday?".

    People who speak, and whom it is about, may be named too: "What did Ann say yesterday?".
    """
    text, period = context.text, context.period
    if period is None and context.session is None:
        return False
    if asks_for_name(text) or asks_for_number(text) or asks_when(text):
        return False
    frame = _FRAME | _PLANS if period is not None and period.end > context.now else _FRAME
    said = set(terms(without_times(text, context.asked_at))) - frame
    # Of a script without spaces the single characters tell what its pairs do.
    rest = {term for term in said if len(term) == 1 or not mostly_unspaced(term)}
    if 0 < len(context.asked_positions) <= context.query.limit and asks_something(text):
        # The hits tell of all of a short time: words that no item has decide nothing.
        rest = {term for term in rest if context.words.frequency(term)}
    if not rest:
        return True
    speakers = {name for name in context.indexes.doc_values.strings("speaker", context.asked_positions) if name}
    named = mentioned(text, speakers)
    return bool(named) and subjects(text, named) == named and rest <= {part for name in named for part in terms(name)}


def period_candidates(context: QueryContext, candidates: CandidateSet, *, alone: bool) -> CandidateSet:
    """Return the items of the session or the period that the query names, without the candidates' own.

    Of more than some hundred an even spread where the query asks for nothing else (`alone`), and else none: the words
    and the meaning beside the time find what is of a long period.
    """
    positions = context.asked_positions
    if not len(positions) or (len(positions) > _ITEMS and not alone):
        return NO_CANDIDATES
    rows = context.indexes.doc_values.rows(spread(positions, _ITEMS))
    return read_signals(context, np.setdiff1d(rows, candidates.rows))


def in_asked_time(context: QueryContext, positions: Places) -> Column:
    """Return 1 for what is of the session or the time that the query names, less near to it, and 0 for the rest."""
    if context.session is not None:
        return np.isin(positions, context.asked_positions).astype(np.float64)
    period = context.period
    if period is None:
        return np.zeros(len(positions))
    near = 0.0 if period.exact is not None else _NEAR
    spans, exact = _spans(context, positions), period.exact or (period.start, period.end)
    is_near = _within(spans, period.start - near, period.end + near)
    return _AROUND * is_near + (1 - _AROUND) * _within(spans, *exact)


def _spans(context: QueryContext, positions: Places) -> tuple[Column, Column]:
    """Return when each item began and ended; the same for all but records that last."""
    doc_values = context.indexes.doc_values
    begun = doc_values.column("time")[positions].astype(np.float64)
    ended = begun.copy()
    lasting = np.flatnonzero(has_cue(doc_values.column("cues")[positions], Cue.LASTS))
    rows = doc_values.rows(positions[lasting]).tolist()
    items = context.source.items(rows) if rows else {}
    for at, row in zip(lasting.tolist(), rows, strict=True):
        if (span := span_of(items[row].metadata)) is not None:
            ended[at] = span[1]
    return begun, ended


def _within(spans: tuple[Column, Column], start: float, end: float) -> Mask:
    """Return whether each item happened in a time, or lasted into it."""
    begun, ended = spans
    return (begun < end) & ((begun >= start) | (ended > start))


_SAME_EVENT: Final = 0.6
"""Weight of the scores of records of the same event."""
_LATEST: Final = 0.2
"""Contribution of the last one of records that match about as well, where the query asks for the last."""
_LATEST_OF_KIND: Final = 0.5
"""The same where the query names the kind of record."""
_ANCHORS: Final = 20
"""Number of the best records that others gain by; what counts is how much they are better than the next one."""
_GAINS: Final = 3
"""Maximum number of records that one gains by."""
_SAME_TIME: Final = 0.7 * 3600
"""Seconds after which the gain is a third."""
_OTHER_PEOPLE: Final = 0.4
"""Share that a record counts which is with other people, or with none."""
_AS_WELL: Final = 0.25
"""A record matches as well as the best one whose score is better by less than this."""


def event_gains(context: QueryContext, rows: Rows, total: Column) -> tuple[Column, Column]:
    """Return what records gain by those of the same event, and the last ones where these are asked for.

    A phone keeps several records of one event: an appointment, a call, photos and messages within the hour. They gain
    by better ones of about the same time, the most by those with the same people.

    Args:
        context: the query and the indexes.
        rows: of the n candidates.
        total: their scores, shape (n,).
    """
    doc_values = context.indexes.doc_values
    positions = doc_values.positions(rows)
    gained, latest = np.zeros((2, len(positions)))
    records = np.flatnonzero(has_cue(doc_values.column("cues")[positions], Cue.RECORD))
    if not len(records):
        return gained, latest
    at = positions[records]
    times, people = doc_values.column("time")[at], doc_values.strings("speaker", at)
    gained[records] = _SAME_EVENT * same_event(total[records], times, people, doc_values.strings("user", at))
    if asks_for_latest(context.text):
        kinds = kinds_named(context.text)
        scores = total[records]
        if kinds:
            is_asked_for = has_cue(doc_values.column("cues")[at], kinds)
            is_asked_for &= shared_with_named(context.text, people)
            scores = np.where(is_asked_for, scores, -np.inf)
        latest[records] = (_LATEST_OF_KIND if kinds else _LATEST) * latest_of(scores, times)
    return gained, latest


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
    near = np.exp(-np.abs(times[:, np.newaxis] - times[anchors]) / _SAME_TIME)
    named = _codes(people)
    same_people = (named[:, np.newaxis] == named[anchors]) & (named[:, np.newaxis] >= 0)
    owners = _codes(users)
    gains = better * near * np.where(same_people, 1.0, _OTHER_PEOPLE)
    gains *= owners[:, np.newaxis] == owners[anchors]
    gains[anchors, np.arange(len(anchors))] = 0.0
    most = min(_GAINS, gains.shape[1])
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
