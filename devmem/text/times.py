"""The time that a question asks about, in English and Chinese: "last week", "before May 2023", "从五月到七月".

Days are those of the local zone, relative to `now`: "May" is the last May. While a text is read, a time is the local
wall clock, labelled as UTC, which has no gaps; `period_of` turns it into seconds since the epoch.
"""

from __future__ import annotations

import calendar
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final

from devmem.text.dates import (
    ENDS,
    MONTHS,
    NUMBER,
    WEEKDAY,
    Named,
    Span,
    ago,
    dates_in,
    form,
    number,
    readable,
    unit_of,
    weekday_before,
)
from devmem.text.patterns import lazy_pattern

EARLIEST: Final = datetime.min.replace(tzinfo=UTC)
LATEST: Final = datetime(9999, 12, 31, tzinfo=UTC)
_FEW: Final = 6
"""Number of units that "a few days" and "the weeks after" cover."""
_SOON: Final = timedelta(days=14)
"""Longest time that "shortly before" covers, unless the date itself is longer."""
_HALF_YEAR: Final = timedelta(days=182)
_LOOKED_AT: Final = 80
"""Number of characters before a date in which a preposition is looked for."""
ABOUT: Final = r"(?:(?:the|about|around|roughly|early|mid|late)[\s-]+|(?P<edge>end|start|beginning|middle)\s+of\s+)*"
"""Words that may stand between a preposition and its date."""


@dataclass(frozen=True, slots=True)
class Reading:
    """A resolved time and its place in the text."""

    at: int
    """Offset of the first character."""
    until: int
    """Offset behind the last character."""
    span: Span
    floats: bool
    """Whether it is a date without a year; see `Named`."""


def related(text: str, named: Named, today: datetime) -> Reading | None:
    """Resolve a date together with the words beside it; None when these add nothing.

    Raises:
        ValueError, OverflowError: no calendar has such a time.
    """
    for pattern, read in (*_BEHIND, _ONWARD) if in_front(FROM, text, named) else _BEHIND:
        match = pattern.match(text, named.until)
        span = read(match, named, today) if match else None
        if match and span:
            return Reading(named.at, match.end(), span, named.floats)
    for pattern, read in _AHEAD:
        match = in_front(pattern, text, named)
        if match and not (stands_alone(text, named) or match.groupdict().get("since")):
            match = None
        span = read(match, named, today) if match else None
        if match and span:
            return Reading(match.start(), named.until, span, named.floats)
    return None


def in_front(pattern: re.Pattern[str], text: str, named: Named) -> re.Match[str] | None:
    """Match a pattern that ends where a date begins."""
    return pattern.search(text, max(0, named.at - _LOOKED_AT), named.at)


def stands_alone(text: str, named: Named) -> bool:
    """Whether a month or a year is one, and not a name ("May Smith"), a verb ("may") or a count ("2000 people")."""
    if not named.bare:
        return True
    word = text[named.at : named.until]
    if word.isdigit() or word in {"may", "march"}:
        return _ENDS.match(text, named.until) is not None
    return _NAME.match(text, named.until) is None


def _open(match: re.Match[str], named: Named, today: datetime) -> Span | None:
    groups = match.groupdict()
    kind = next(kind for kind in ("either", "before", "until", "since", "after") if groups.get(kind))
    # "By 30 May", said on the 24th, is the one that comes: the nearest is meant.
    said = today + _HALF_YEAR if named.floats and kind in {"before", "until"} else today
    start, end = _edge(named.read(said), groups.get("edge"))
    spans = {"before": (EARLIEST, start), "until": (EARLIEST, end), "since": (start, LATEST), "after": (end, LATEST)}
    return spans.get(kind, (EARLIEST, LATEST))


def _up_to(match: re.Match[str], named: Named, today: datetime) -> Span | None:
    """Resolve "up to" before a date; in "What was she up to last week?" it means something else."""
    dated = named.floats or _HAS_YEAR.search(match.string[named.at : named.until])
    return _open(match, named, today) if dated else None


def _beside(match: re.Match[str], named: Named, today: datetime) -> Span | None:
    groups = match.groupdict()
    counted, whole = groups.get("number"), groups.get("whole")
    several = groups.get("some") or groups.get("many")
    if groups.get("other") or not (counted or whole or several):
        return None
    start, end = _edge(named.read(today), groups.get("edge"))
    unit, before = unit_of(match["unit"]), bool(groups.get("before"))
    if counted and not whole:
        return ago(start, unit, number(counted)) if before else ago(end - timedelta(days=1), unit, -number(counted))
    count = number(counted) if counted else _FEW if several else 1
    return (_moved(start, unit, -count), start) if before else (end, _moved(end, unit, count))


def _shortly(match: re.Match[str], named: Named, today: datetime) -> Span:
    start, end = _edge(named.read(today), match["edge"])
    length = max(_SOON, end - start)
    return (start - length, start) if match["before"] else (end, end + length)


def _weekday(match: re.Match[str], named: Named, today: datetime) -> Span:
    start, end = _edge(named.read(today), match["edge"])
    if match["day"]:
        return weekday_before(start if match["before"] else end + timedelta(weeks=1), match["day"])
    seen = start - timedelta(days=1) if match["before"] else end + timedelta(weeks=1)
    saturday = weekday_before(seen, "saturday")[0]
    return saturday, saturday + timedelta(days=2)


def _edge(span: Span, edge: str | None) -> Span:
    start, end = span
    at = (edge or "").lower()
    if at in {"end", "底", "末"}:
        return end, end
    return (start, start) if at in {"start", "beginning", "初"} else span


def _moved(day: datetime, unit: str, count: int) -> datetime:
    if unit in {"day", "week"}:
        return day + timedelta(**{f"{unit}s": count})
    year, month = divmod(12 * day.year + day.month - 1 + (12 * count if unit == "year" else count), 12)
    return day.replace(year=year, month=month + 1, day=min(day.day, calendar.monthrange(year, month + 1)[1]))


_ENDS: Final = form(ENDS)
_NAME: Final = form(r"['’]s\b|\s+(?!I\b)(?-i:[A-Z])")
_HAS_YEAR: Final = lazy_pattern(r"\d{4}", re.ASCII)
FROM: Final = form(rf"(?:\bfrom\s+{ABOUT}|(?:[从從]|(?<![来來])自)\s*)$")
"""Start of a range, before its first date."""
_SIDE: Final = r"(?:(?P<before>before|prior\s+to|preceding|leading\s+up\s+to)|after|following)"
_JUST: Final = r"(?:shortly|soon|right|just|immediately|directly)"
_EDGE: Final = r"\s*的?(?P<edge>[底末初])?"
_SIDE_CHINESE: Final = r"(?:[之以]?(?P<before>前)|[之以过過]?[后後])"
_UNIT_CHINESE: Final = r"(?:[个個]?(?P<unit>[天日晚周週年]|星期|[礼禮]拜|(?<=[个個])月)(?!\d))"

_Read = Callable[[re.Match[str], Named, datetime], Span | None]
_AHEAD: Final[tuple[tuple[re.Pattern[str], _Read], ...]] = (
    (
        form(
            r"\b(?P<whole>(?:the|within|last|first|that|previous)\s+(?:(?:very|first|last|next|whole|previous)\s+)?)?"
            r"(?:(?P<some>(?:a\s+)?few|several|some|(?:a\s+)?couple(?:\s+of)?)\s+|"
            rf"(?P<other>many|all|every|each|most|any)\s+|{NUMBER}\s+)?"
            rf"(?P<unit>day|night|evening|morning|week|month|year)(?P<many>s)?\s+(?:{_JUST}\s+)?{_SIDE}\s+{ABOUT}$"
        ),
        _beside,
    ),
    (
        form(
            r"\b(?<!every )(?:(?:the|an?|last|first|that|next|previous)\s+){0,2}"
            rf"(?:{WEEKDAY}|weekend)\s+(?:{_JUST}\s+)?{_SIDE}\s+{ABOUT}$"
        ),
        _weekday,
    ),
    (form(rf"\b{_JUST}\s+{_SIDE}\s+{ABOUT}$"), _shortly),
    (
        form(
            r"\b(?:(?P<either>before\s+(?:and|or)\s+after|after\s+(?:and|or)\s+before)|"
            r"(?P<until>(?:on|in)\s+or\s+before|(?:up\s+)?until|(?:up\s+)?till|by|no\s+later\s+than|as\s+of)|"
            r"(?P<since>(?:on|in)\s+or\s+after|since|(?:starting|beginning)(?:\s+(?:from|on|in|with))?)|"
            r"(?P<before>before|prior\s+to|earlier\s+than|preceding)|(?P<after>after|later\s+than|following))"
            rf"\s+{ABOUT}$"
        ),
        _open,
    ),
    (form(rf"\bup\s+(?P<until>to)\s+{ABOUT}$"), _up_to),
    (form(r"(?:(?P<until>截至|截止到?|直到)|(?P<since>自[从從]))\s*$"), _open),
)
_BEHIND: Final[tuple[tuple[re.Pattern[str], _Read], ...]] = (
    (
        form(
            rf"{_EDGE}(?P<whole>{_SIDE_CHINESE})的?(?=[那整\d两兩几幾数數])那?整?"
            rf"(?:(?P<number>\d{{1,3}}|[两兩])|(?P<some>[几幾数數]))?{_UNIT_CHINESE}"
        ),
        _beside,
    ),
    (form(rf"{_EDGE}的?(?P<number>\d{{1,3}}|[两兩]){_UNIT_CHINESE}{_SIDE_CHINESE}(?![后後])"), _beside),
    (
        form(
            rf"{_EDGE}(?:(?P<until>[为為]?止)|(?P<since>以[来來]|至今|[到至][现現]在|起(?![床来來飞飛诉訴草码碼身点點火夜]))|"
            r"(?P<before>[之以]前|前(?![往去来來夫男女任台面进進后後景途线線妻辈輩提天]))|"
            r"(?P<after>[之以过過][后後]|[后後](?![来來悔果台臺续續勤面院])))"
        ),
        _open,
    ),
    (
        form(r"\s+or\s+(?P<until>earlier)\b|(?P<since>\s+or\s+later\b|\s*,?\s*onwards?\b)"),
        _open,
    ),
)
_ONWARD: Final[tuple[re.Pattern[str], _Read]] = (
    form(rf"\s*,?\s*(?P<since>on{ENDS}|(?:until|till)\s+now\b|to\s+(?:now|date|the\s+present)\b|开始|開始)"),
    _open,
)
"""Words that mean "since" behind a date that follows "from"."""


@dataclass(frozen=True, slots=True)
class Period:
    """From `start` on, before `end`: seconds since the epoch, UTC.

    A time before a date begins with the year 1; one after or since a date ends with the year 9999, as plans may lie
    ahead.
    """

    start: float
    end: float
    floats: bool = False
    """Whether it comes of dates without a year alone, so that it is the last such time before the question."""


def period_of(query: str, now: float) -> Period | None:
    """Return the time that the query asks about; None when it names none, or several that do not overlap.

    Args:
        query: the question.
        now: time of the question, in seconds since the epoch.
    """
    if not _HINT.search(query):
        return None
    try:
        today = datetime.fromtimestamp(now).replace(hour=0, minute=0, second=0, microsecond=0, tzinfo=UTC)
    except (ValueError, OverflowError, OSError):
        # For example milliseconds in the place of seconds: the search then goes without a time.
        return None
    found = _readings(readable(query), today)
    first = max((reading.span[0] for reading in found), default=EARLIEST)
    last = min((reading.span[1] for reading in found), default=LATEST)
    if first >= last or (first, last) == (EARLIEST, LATEST):
        return None
    return Period(_seconds(first), _seconds(last), all(reading.floats for reading in found))


def _seconds(wall: datetime) -> float:
    """Return the seconds since the epoch of a local wall clock; those of the open ends are the same everywhere."""
    return wall.timestamp() if wall in (EARLIEST, LATEST) else wall.replace(tzinfo=None).timestamp()


_HINT: Final = lazy_pattern(
    r"\d|ago\b|day|night|morning|evening|afternoon|week|month|year|[天日晚早周週月年]|星期|[礼禮]拜|"
    + "|".join(MONTHS),
    re.IGNORECASE,
)
"""A cheap test that every question with a time passes."""
_AND: Final = form(rf"\s*,?\s*and\s+{ABOUT}")
_AND_CHINESE: Final = form(r"[初底末]?\s*[和与與跟及]\s*")
_LISTED: Final = form(r"[初底末]?\s*、\s*")
_PAIR: Final = form(r"\s*,?\s*and\s+(?:(?:on|of)\s+)?(?:the\s+)?")
_BETWEEN: Final = form(rf"\bbetween\s+{ABOUT}$")
_BETWEEN_CHINESE: Final = form(r"\s*之?[间間]")
_TO: Final = form(rf"(?:\b(?:(?:up\s+)?to|until|till|through)\s+|[-–—~]\s*|(?:一?直)?[到至]\s*){ABOUT}$")
_IN: Final = form(r"\b(?:in|during|of)\s+(?:(?:early|mid|late)[\s-]+)?$")
_APART: Final = 40
"""Maximum number of characters between the two dates of a range."""
_SENTENCE_END: Final = lazy_pattern("[.?!;。？！；]")


def _readings(text: str, today: datetime) -> list[Reading]:
    readings: list[Reading] = []
    named, behind = dates_in(text), 0
    for at, one in enumerate(named):
        if one.at < behind:
            continue
        try:
            reading = _reading(text, one, _joined_with(text, named, at), today)
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


def _joined_with(text: str, named: Sequence[Named], at: int) -> Named | None:
    """Return the last date of the range or the list that a date begins; None where it stands alone."""
    if at + 1 < len(named) and _is_range(text, named[at], named[at + 1]):
        return named[at + 1]
    last = at
    while last + 1 < len(named) and _is_pair(text, named[last], named[last + 1]):
        last += 1
    return named[last] if last > at else None


def _reading(text: str, one: Named, last: Named | None, today: datetime) -> Reading | None:
    if last is not None:
        return Reading(one.at, last.until, _range(one, last, today), one.floats and last.floats)
    reading = related(text, one, today)
    if reading is None and (not one.bare or in_front(_IN, text, one)):
        return Reading(one.at, one.until, one.read(today), one.floats)
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


def _is_pair(text: str, first: Named, second: Named) -> bool:
    """Whether two dates stand beside each other, as in "5 May and 13 May": the time from one to the other counts."""
    gap = text[first.until : second.at]
    if first.bare or second.bare:
        return False
    if first.floats and _PAIR.fullmatch(gap):
        return True
    # "2025年1月和3月" has its year once.
    return (first.floats or second.floats) and (_AND_CHINESE.fullmatch(gap) or _LISTED.fullmatch(gap)) is not None


def _range(first: Named, second: Named, today: datetime) -> Span:
    """Return the time from one date to another; a date without a year takes that of the other."""
    if second.floats and not first.floats:
        end = second.read(first.read(today)[0] + timedelta(days=364))
    else:
        end = second.read(today)
    start = first.read(end[0] if first.floats else today)
    return min(start[0], end[0]), max(start[1], end[1])
