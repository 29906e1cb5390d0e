"""The time that a question asks about, in English and Chinese: "last week", "before May 2023", "从五月到七月".

All times are UTC and relative to `now`: "May" is the last May.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import zip_longest
from typing import Final

from devmem.text.dates import MONTHS, Named, Span, dates_in, form, readable
from devmem.text.patterns import lazy_pattern
from devmem.text.relations import ABOUT, EARLIEST, FROM, LATEST, Reading, in_front, related, stands_alone


@dataclass(frozen=True, slots=True)
class Period:
    """From `start` on, before `end`: seconds since the epoch, UTC.

    A time before a date begins with the year 1; one after or since a date ends with the year 9999, as plans may lie
    ahead.
    """

    start: float
    end: float


def period_of(query: str, now: float) -> Period | None:
    """Return the time that the query asks about; None when it names none, or several that do not overlap.

    Args:
        query: the question.
        now: time of the question, in seconds since the epoch.
    """
    if not _HINT.search(query):
        return None
    try:
        today = datetime.fromtimestamp(now, UTC).replace(hour=0, minute=0, second=0, microsecond=0)
    except (ValueError, OverflowError, OSError):
        # For example milliseconds in the place of seconds: the search then goes without a time.
        return None
    found = [reading.span for reading in _readings(readable(query), today)]
    first = max((start for start, _ in found), default=EARLIEST)
    last = min((end for _, end in found), default=LATEST)
    if first >= last or (first, last) == (EARLIEST, LATEST):
        return None
    return Period(first.timestamp(), last.timestamp())


_HINT: Final = lazy_pattern(
    r"\d|ago\b|day|night|morning|evening|afternoon|week|month|year|[天日晚早周月年]|星期|礼拜|" + "|".join(MONTHS),
    re.IGNORECASE,
)
"""A cheap test that every question with a time passes."""
_AND: Final = form(rf"\s*,?\s*and\s+{ABOUT}")
_AND_CHINESE: Final = form(r"\s*[和与與跟及]\s*")
_BETWEEN: Final = form(rf"\bbetween\s+{ABOUT}$")
_BETWEEN_CHINESE: Final = form(r"\s*之?[间間]")
_TO: Final = form(rf"(?:\b(?:(?:up\s+)?to|until|till|through)\s+|[-–—~]\s*|(?:一?直)?[到至]\s*){ABOUT}$")
_IN: Final = form(r"\b(?:in|during|of)\s+(?:(?:early|mid|late)\s+)?$")
_APART: Final = 40
"""Maximum number of characters between the two dates of a range."""
_SENTENCE_END: Final = lazy_pattern("[.?!;。？！；]")


def _readings(text: str, today: datetime) -> list[Reading]:
    readings: list[Reading] = []
    named, behind = dates_in(text), 0
    for one, following in zip_longest(named, named[1:]):
        if one.at < behind:
            continue
        try:
            reading = _reading(text, one, following, today)
        except (ValueError, OverflowError):
            continue  # the 31st of a month that has none names no time
        if reading is None:
            continue
        behind = reading.until
        # "The last weekend before 10 April" is not last weekend.
        while readings and readings[-1].until > reading.at:
            readings.pop()
        readings.append(reading)
    return readings


def _reading(text: str, one: Named, following: Named | None, today: datetime) -> Reading | None:
    if following is not None and _is_range(text, one, following):
        return Reading(one.at, following.until, _range(one, following, today))
    reading = related(text, one, today)
    if reading is None and (not one.bare or in_front(_IN, text, one)):
        return Reading(one.at, one.until, one.read(today))
    return reading


def _is_range(text: str, first: Named, second: Named) -> bool:
    gap = text[first.until : second.at]
    if len(gap) > _APART or not stands_alone(text, second):
        return False
    if in_front(_BETWEEN, text, first) and _AND.fullmatch(gap):
        return True
    if _AND_CHINESE.fullmatch(gap):
        return _BETWEEN_CHINESE.match(text, second.until) is not None
    to = _TO.search(gap)
    if to is None:
        return False
    if in_front(FROM, text, first):
        return not _SENTENCE_END.search(gap, 0, to.start())
    # "5 May - 2023" is a date and its year, "may to" no month.
    if gap[: to.start()].strip() or (second.bare and first.floats and not second.floats):
        return False
    return not first.bare or text[first.at].isupper() or in_front(_IN, text, first) is not None


def _range(first: Named, second: Named, today: datetime) -> Span:
    """Return the time from one date to another; a date without a year takes that of the other."""
    if second.floats and not first.floats:
        end = second.read(first.read(today)[0] + timedelta(days=364))
    else:
        end = second.read(today)
    start = first.read(end[0] if first.floats else today)
    return min(start[0], end[0]), max(start[1], end[1])
