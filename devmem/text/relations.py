"""Times relative to a date: "before May", "since 2022", "the week after 8 May", "5月3日前一周"."""

from __future__ import annotations

import calendar
import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final

from devmem.text.dates import ENDS, NUMBER, WEEKDAY, Named, Span, ago, form, number, unit_of, weekday_before
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


def related(text: str, named: Named, today: datetime) -> Reading | None:
    """Resolve a date together with the words beside it; None when these add nothing.

    Raises:
        ValueError, OverflowError: no calendar has such a time.
    """
    for pattern, read in (*_BEHIND, _ONWARD) if in_front(FROM, text, named) else _BEHIND:
        match = pattern.match(text, named.until)
        span = read(match, named, today) if match else None
        if match and span:
            return Reading(named.at, match.end(), span)
    for pattern, read in _AHEAD:
        match = in_front(pattern, text, named)
        if match and not (stands_alone(text, named) or match.groupdict().get("since")):
            match = None
        span = read(match, named, today) if match else None
        if match and span:
            return Reading(match.start(), named.until, span)
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
_UNIT_CHINESE: Final = r"(?:[个個]?(?P<unit>[天日晚周週年]|星期|礼拜|(?<=[个個])月)(?!\d))"

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
