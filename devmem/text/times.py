"""The times and sessions that a text names, in English and Chinese: "last week", "before May 2023", "从五月到七月".

Days are those of the asker: of the zone of a `datetime`, or of the machine for seconds since the epoch. While a text is
read, a time is the asker's wall clock, labelled as UTC, which has no gaps. Weeks begin on Monday, seasons are those of
the northern hemisphere, and a month, a holiday or a weekday alone is the last one.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta, tzinfo
from functools import partial
from typing import Final, NamedTuple, TypeAlias

from devmem.text.patterns import lazy_pattern

AskedAt: TypeAlias = datetime | float
"""The time of a question: a `datetime`, whose zone is the asker's, or seconds since the epoch (the machine's zone)."""
Span: TypeAlias = tuple[datetime, datetime]
"""A half-open interval: from the first time on, before the second."""
_Groups: TypeAlias = Mapping[str, str | None]
"""Texts that the named groups of a pattern matched."""
_Read: TypeAlias = Callable[[_Groups, datetime], Span]

EARLIEST: Final = datetime.min.replace(tzinfo=UTC)
LATEST: Final = datetime(9999, 12, 31, tzinfo=UTC)
_DAY: Final = timedelta(days=1)
_WEEKLY: Final = 7
_YEARLY: Final = 364
"""Days after which a weekday and a date without a year come again; a year of whole weeks keeps the weekday."""
_FEW: Final = 6
"""Number of units that "a few days" and "the weeks after" cover."""
_SOON: Final = timedelta(days=14)
"""Longest time that "shortly before" covers, unless the date itself is longer."""
_LOOKED_AT: Final = 80
"""Number of characters before a date in which a preposition is looked for."""
_APART: Final = 40
"""Maximum number of characters between the two dates of a range."""


@dataclass(frozen=True, slots=True)
class Period:
    """From `start` on, before `end`: seconds since the epoch, UTC.

    A time before a date begins with the year 1; one after or since a date ends with the year 9999, as plans may lie
    ahead.
    """

    start: float
    end: float
    exact: tuple[float, float] | None = None
    """The part that the words mean where the period allows for more: the day of "12 days ago", the hours of "this
    morning"; None where they mean all of it."""
    floats: bool = False
    """Whether it comes of dates without a year alone, so that it is the last such time before the question."""
    coming: Period | None = None
    """The next such time, where it comes of dates without a year or of weekdays alone."""


def period_of(text: str, asked_at: AskedAt) -> Period | None:
    """Return the time that a text asks about; None when it names none, or several that do not overlap.

    Args:
        text: the question.
        asked_at: when it was asked.
    """
    clock = _wall_clock(asked_at)
    if clock is None or not _HINT.search(text):
        return None
    today, zone = clock
    text = _readable(text)
    named = _named_in(text)
    readings = _readings(text, named, today)
    found = _overlap(readings, zone)
    if found is None:
        # "What did she say on 8 July of the race next month?"
        readings = [one for one in readings if one.cycle != _WEEKLY and one.span[0] <= today]
        found = _overlap(readings, zone)
    cycle = max((reading.cycle for reading in readings), default=0)
    if found is None or not all(reading.cycle for reading in readings):
        return found
    floats = all(reading.cycle == _YEARLY for reading in readings)
    try:
        coming = _overlap(_readings(text, named, today + timedelta(days=cycle)), zone)
    except OverflowError:
        coming = None
    is_ahead = coming is not None and coming.start > found.start and coming.end > _seconds(today, zone)
    return replace(found, floats=floats, coming=coming if is_ahead else None)


def without_times(text: str, asked_at: AskedAt) -> str:
    """Return a text, normalized, without the times and the session that it names."""
    text = _readable(text)
    if session := _session(text):
        text = f"{text[: session.start()]} {text[session.end() :]}"
    clock = _wall_clock(asked_at)
    for reading in reversed(_readings(text, _named_in(text), clock[0]) if clock else []):
        text = f"{text[: reading.at]} {text[reading.until :]}"
    return " ".join(text.split())


def session_named(text: str) -> int | None:
    """Return the place of the session that a text names: "our third session", "two sessions ago", "上次聊天".

    It counts from 0 for the first session, and from -1 for the last one before the current. None where none is named.
    """
    found = _session(_readable(text))
    if found is None:
        return None
    if found["last"]:
        return -2 if found["twice"] else -1
    if said := found["count"] or found["times"]:
        return -_number(said) or None
    place = _ordinal(found["ordinal"] or found["place"])
    return place - 1 if place else None


def _session(text: str) -> re.Match[str] | None:
    return _SESSION.search(text) if _SESSION_HINT.search(text) else None


def _wall_clock(asked_at: AskedAt) -> tuple[datetime, tzinfo | None] | None:
    """Return the asker's day, labelled as UTC, and zone (None is the machine's); None for a time that no calendar has.

    For example milliseconds in the place of seconds: the search then goes without a time.
    """
    try:
        wall = asked_at if isinstance(asked_at, datetime) else datetime.fromtimestamp(asked_at)
    except (ValueError, OverflowError, OSError):
        return None
    return datetime(wall.year, wall.month, wall.day, tzinfo=UTC), wall.tzinfo


def _seconds(wall: datetime, zone: tzinfo | None) -> float:
    """Return the seconds since the epoch of a wall clock; those of the open ends are the same everywhere."""
    return wall.timestamp() if wall in (EARLIEST, LATEST) else wall.replace(tzinfo=zone).timestamp()


# Reading the times of a text, with the words beside them.


@dataclass(frozen=True, slots=True)
class _Named:
    """An expression of time in a text."""

    at: int
    """Offset of its first character."""
    until: int
    """Offset behind its last character."""
    form: _Form
    groups: _Groups

    @property
    def _is_fixed(self) -> bool:
        return bool(self.groups.get("year") or self.groups.get("which"))

    @property
    def bare(self) -> bool:
        """Whether it is a word, such as a month or a weekday, that is a time only in certain contexts."""
        return self.form.alone is not None and not self._is_fixed

    @property
    def cycle(self) -> int:
        """Days after which it comes again; 0 where it names its year, or "last" or "next" stands before it."""
        return 0 if self._is_fixed else _CYCLES.get(self.form.read, 0)

    def read(self, today: datetime) -> Span:
        """Resolve it as said on a day; raises ValueError or OverflowError for a time that no calendar has."""
        return self.form.read(self.groups, today)


@dataclass(frozen=True, slots=True)
class _Reading:
    """A resolved time and its place in the text."""

    at: int
    until: int
    span: Span
    cycle: int = 0
    exact: Span | None = None


def _overlap(readings: Sequence[_Reading], zone: tzinfo | None) -> Period | None:
    first = max((reading.span[0] for reading in readings), default=EARLIEST)
    last = min((reading.span[1] for reading in readings), default=LATEST)
    if first >= last or (first, last) == (EARLIEST, LATEST):
        return None
    exact = readings[0].exact if len(readings) == 1 else None
    seconds = None if exact is None else (_seconds(exact[0], zone), _seconds(exact[1], zone))
    return Period(_seconds(first, zone), _seconds(last, zone), seconds)


def _readings(text: str, named: Sequence[_Named], today: datetime) -> list[_Reading]:
    """Return the times that a normalised text names, resolved together with the words beside them, in order."""
    readings: list[_Reading] = []
    behind = 0
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


def _named_in(text: str) -> list[_Named]:
    """Return the times that a normalised text names, in order; none overlaps another."""
    found, rest, has_chinese = [], text, _HAN.search(text) is not None
    for form in _FORMS:
        if form.is_chinese and not has_chinese:
            continue
        matches = list(form.pattern.finditer(rest))
        found += [_Named(match.start(), match.end(), form, match.groupdict()) for match in matches]
        if matches:  # A later, shorter form must not match what this one matched.
            rest = form.pattern.sub(lambda match: " " * len(match[0]), rest)
    return sorted(found, key=lambda named: named.at)


def _reading(text: str, one: _Named, last: _Named | None, today: datetime) -> _Reading | None:
    if last is not None:
        cycle = max(one.cycle, last.cycle) if one.cycle and last.cycle else 0
        return _Reading(one.at, last.until, _range(one, last, today), cycle)
    if related := _related(text, one, today):
        return related
    if one.bare and not _in_front(one.form.alone or _IN, text, one):
        return None
    if one.form.read is _ahead and _PAST.search(text, 0, one.at):
        return None  # "How much did he earn in two weeks?" names no time to come
    start, end = one.read(today)
    until, exact = one.until, None
    if end - start == _DAY and (part := _PART_BEHIND.match(text, until) or _PART_INSIDE.search(text, one.at, until)):
        first, behind = _HOURS[part["part"][0].lower()]
        until, exact = max(until, part.end()), (start + timedelta(hours=first), start + timedelta(hours=behind))
    elif one.form.read in (_ago, _ahead) and not one.groups.get("few") and _DAY < end - start <= 7 * _DAY:
        middle = start + (end - start - _DAY) / 2
        exact = (middle, middle + _DAY)
    return _Reading(one.at, until, (start, end), one.cycle, exact)


def _related(text: str, named: _Named, today: datetime) -> _Reading | None:
    """Resolve a date together with the words beside it; None when these add nothing."""
    for pattern, read in (*_BEHIND, _ONWARD) if _in_front(_FROM, text, named) else _BEHIND:
        match = pattern.match(text, named.until)
        if match and (span := read(match, named, today)):
            return _Reading(named.at, match.end(), span, named.cycle)
    for pattern, read in _AHEAD:
        match = _in_front(pattern, text, named)
        if match and not (_stands_alone(text, named) or match.groupdict().get("since")):
            continue
        if match and (span := read(match, named, today)):
            return _Reading(match.start(), named.until, span, named.cycle)
    return None


def _in_front(pattern: re.Pattern[str], text: str, named: _Named) -> re.Match[str] | None:
    """Match a pattern that ends where a date begins."""
    return pattern.search(text, max(0, named.at - _LOOKED_AT), named.at)


def _stands_alone(text: str, named: _Named) -> bool:
    """Whether a month or a year is one, and not a name ("May Smith"), a verb ("may") or a count ("2000 people")."""
    if not named.bare:
        return True
    word = text[named.at : named.until]
    if word.isdigit() or word in {"may", "march"}:
        return _ENDS_HERE.match(text, named.until) is not None
    return _NAME.match(text, named.until) is None


def _joined_with(text: str, named: Sequence[_Named], at: int) -> _Named | None:
    """Return the last date of the range or the list that a date begins; None where it stands alone."""
    if at + 1 < len(named) and _is_range(text, named[at], named[at + 1]):
        return named[at + 1]
    last = at
    while last + 1 < len(named) and _is_pair(text, named[last], named[last + 1]):
        last += 1
    return named[last] if last > at else None


def _is_range(text: str, first: _Named, second: _Named) -> bool:
    gap = text[first.until : second.at]
    if len(gap) > _APART or not _stands_alone(text, second):
        return False
    if _in_front(_BETWEEN, text, first) and _AND.fullmatch(gap):
        return True
    if _AND_CHINESE.fullmatch(gap):
        return _BETWEEN_CHINESE.match(text, second.until) is not None
    to = _TO.search(gap)
    if to is None:
        return False
    if _in_front(_FROM, text, first):
        return not _SENTENCE_END.search(gap, 0, to.start())
    # "5 May - 2023" is a date and its year, "may to" no month, "Monday to Friday" every week.
    if gap[: to.start()].strip() or (second.bare and first.cycle and not second.cycle):
        return False
    return not first.bare or (
        first.cycle != _WEEKLY and (text[first.at].isupper() or _in_front(_IN, text, first) is not None)
    )


def _is_pair(text: str, first: _Named, second: _Named) -> bool:
    """Whether two dates stand beside each other, as in "5 May and 13 May": the time from one to the other counts."""
    gap = text[first.until : second.at]
    if first.bare or second.bare:
        return False
    if first.cycle and _PAIR.fullmatch(gap):
        return True
    # "2025年1月和3月" has its year once.
    return bool(first.cycle or second.cycle) and (_AND_CHINESE.fullmatch(gap) or _LISTED.fullmatch(gap)) is not None


def _range(first: _Named, second: _Named, today: datetime) -> Span:
    """Return the time from one date to another; a date without a year takes that of the other."""
    if second.cycle and not first.cycle:
        end = second.read(first.read(today)[0] + timedelta(days=second.cycle))
    else:
        end = second.read(today)
    start = first.read(end[0] if first.cycle else today)
    return min(start[0], end[0]), max(start[1], end[1])


def _open(match: re.Match[str], named: _Named, today: datetime) -> Span | None:
    said = match.groupdict()
    kind = next(kind for kind in ("either", "before", "until", "since", "after") if said.get(kind))
    if named.cycle and kind in {"before", "until"}:
        # "By 30 May", said on the 24th, is the one that comes: the nearest is meant.
        today += timedelta(days=named.cycle // 2 if named.cycle == _YEARLY else named.cycle)
    start, end = _edge(named.read(today), said.get("edge"))
    spans = {"before": (EARLIEST, start), "until": (EARLIEST, end), "since": (start, LATEST), "after": (end, LATEST)}
    return spans.get(kind, (EARLIEST, LATEST))


def _up_to(match: re.Match[str], named: _Named, today: datetime) -> Span | None:
    """Resolve "up to" before a date; in "What was she up to last week?" it means something else."""
    is_dated = named.cycle == _YEARLY or _HAS_YEAR.search(match.string[named.at : named.until])
    return _open(match, named, today) if is_dated else None


def _beside(match: re.Match[str], named: _Named, today: datetime) -> Span | None:
    said = match.groupdict()
    counted, whole = said.get("number"), said.get("whole")
    several = said.get("some") or said.get("many")
    if said.get("other") or not (counted or whole or several):
        return None
    start, end = _edge(named.read(today), said.get("edge"))
    unit, sign = _unit_of(match["unit"]), -1 if said.get("before") else 1
    if counted and not whole:
        return _around(start if sign < 0 else end - _DAY, unit, sign * _number(counted))
    count = _number(counted) if counted else _FEW if several else 1
    return (_moved(start, unit, -count), start) if sign < 0 else (end, _moved(end, unit, count))


def _shortly(match: re.Match[str], named: _Named, today: datetime) -> Span:
    start, end = _edge(named.read(today), match["edge"])
    length = max(_SOON, end - start)
    return (start - length, start) if match["before"] else (end, end + length)


def _weekday_beside(match: re.Match[str], named: _Named, today: datetime) -> Span:
    start, end = _edge(named.read(today), match["edge"])
    if match["day"]:
        return _weekday_before(start if match["before"] else end + timedelta(weeks=1), match["day"])
    saturday, _ = _weekday_before(start - _DAY if match["before"] else end + timedelta(weeks=1), "sat")
    return saturday, saturday + timedelta(days=2)


def _edge(span: Span, edge: str | None) -> Span:
    start, end = span
    at = (edge or "").lower()
    if at in {"end", "底", "末"}:
        return end, end
    return (start, start) if at in {"start", "beginning", "初"} else span


# Numbers, units and calendars.

_HAN: Final = re.compile("[\u4e00-\u9fff]")

_COUNTS: Final = {
    **dict(zip("one two three four five six seven eight nine ten eleven twelve".split(), range(1, 13), strict=True)),
    "a": 1,
    "an": 1,
    "couple": 2,
}
_ONES: Final = (
    "first second third fourth fifth sixth seventh eighth ninth tenth eleventh twelfth thirteenth fourteenth fifteenth "
    "sixteenth seventeenth eighteenth nineteenth"
).split()
_TENS: Final = ("twent", "thirt", "fort", "fift")
_ORDINALS: Final = {
    **{word: at for at, word in enumerate(_ONES, 1)},
    **{f"{ten}ieth": 10 * tens for tens, ten in enumerate(_TENS, 2)},
    **{f"{ten}y-{_ONES[at - 1]}": 10 * tens + at for tens, ten in enumerate(_TENS, 2) for at in range(1, 10)},
}
_MONTHS: Final = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_WEEKDAYS: Final = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
_CHINESE_WEEKDAYS: Final = {
    day: at for at, days in enumerate(("一", "二", "三", "四", "五", "六", "日天")) for day in days
}
_SEASONS: Final = {"spr": 3, "sum": 6, "aut": 9, "fal": 9, "win": 12, "春": 3, "夏": 6, "秋": 9, "冬": 12}
"""First month of each."""
_HOLIDAYS: Final = {
    **dict.fromkeys(("christmas eve", "平安夜", "圣诞夜", "聖誕夜"), (12, 24)),
    **dict.fromkeys(("christmas", "christmas day", "圣诞", "圣诞节", "聖誕", "聖誕節"), (12, 25)),
    **dict.fromkeys(("boxing day",), (12, 26)),
    **dict.fromkeys(("new year's eve", "跨年夜"), (12, 31)),
    **dict.fromkeys(("new year's", "new year's day", "元旦"), (1, 1)),
    **dict.fromkeys(("valentine's day", "情人节", "情人節"), (2, 14)),
    **dict.fromkeys(("halloween", "万圣节", "萬聖節"), (10, 31)),
    **dict.fromkeys(("劳动节", "勞動節"), (5, 1)),
    **dict.fromkeys(("国庆", "国庆节", "國慶", "國慶節"), (10, 1)),
}
"""Month and day."""
_UNITS: Final = {
    **dict.fromkeys(("day", "night", "evening", "morning", "天", "日", "晚", "早"), "day"),
    **dict.fromkeys(("week", "周", "週", "星期", "礼拜", "禮拜"), "week"),
    **dict.fromkeys(("month", "月"), "month"),
    **dict.fromkeys(("quarter", "季", "季度"), "quarter"),
    **dict.fromkeys(("year", "年"), "year"),
}
_MONTHS_OF: Final = {"month": 1, "quarter": 3, "year": 12}
_DAYS_OF: Final = {"day": 1, "week": 7, "month": 30, "quarter": 91, "year": 365}
_STEPS: Final = {
    **dict.fromkeys(("last", "past", "previous", "this past", "上", "去", "昨"), -1),
    **dict.fromkeys(("next", "coming", "upcoming", "this coming", "下", "明"), 1),
    **dict.fromkeys(("上上", "前"), -2),
    **dict.fromkeys(("下下", "后", "後"), 2),
    **dict.fromkeys(("大后", "大後"), 3),
    "大前": -3,
}
"""Units from the current one to that of "last" or "next"; 0 for every other word."""
_HOURS: Final = {
    **dict.fromkeys("m早上", (0, 12)),
    **dict.fromkeys("a中下", (12, 18)),
    **dict.fromkeys("etn晚傍夜", (17, 24)),
}
"""First hour of a part of the day, and the hour behind it, by the first letter of its name."""
_DIGITS: Final = dict(zip("〇一二三四五六七八九零两兩", "0123456789022", strict=True))
_CHINESE_NUMBER: Final = lazy_pattern(
    # Not the weekday of "周三", nor the tail of a longer number.
    r"(?<![周週期拜\d〇零一二三四五六七八九十百千万两兩几幾数數])[〇零一二两兩三四五六七八九十]+"
    r"(?=\s*(?:[年月日号號天周週季次场場个個]|星期|[礼禮]拜|[到至][〇零一二三四五六七八九十]+[年月日号號]))"
)


def _readable(text: str) -> str:
    """Normalise a text to the letters and digits that the patterns expect."""
    text = " ".join(unicodedata.normalize("NFKC", text).replace("’", "'").split())
    return _CHINESE_NUMBER.sub(_digits, text)


def _digits(match: re.Match[str]) -> str:
    """Convert a Chinese number below 100, or a year written digit by digit, to digits."""
    tens, ten, ones = match[0].partition("十")
    if not ten:
        return "".join(_DIGITS[digit] for digit in tens) if len(tens) in {1, 4} else match[0]
    if len(tens) > 1 or len(ones) > 1:
        return match[0]
    return _DIGITS.get(tens, "1") + _DIGITS.get(ones, "0")


def _number(text: str) -> int:
    """Read a number in digits or as a word; one with too many digits raises ValueError."""
    return int(text) if text.isdigit() else _COUNTS[text.lower()]


def _ordinal(text: str) -> int:
    digits = re.match(r"\d+", text)
    return int(digits[0]) if digits else _ORDINALS[text.lower().replace(" ", "-")]


def _unit_of(text: str) -> str:
    """Return the unit that a word names: day, week, month, quarter or year."""
    return _UNITS[text.lower()]


def _step(which: str | None) -> int:
    return _STEPS.get(" ".join((which or "").lower().split()), 0)


def _days(start: datetime, days: int = 1) -> Span:
    return start, start + timedelta(days=days)


def _months(first: int, count: int = 1) -> Span:
    """Return some months; the first is counted from January of the year 0."""
    start, end = (datetime(month // 12, month % 12 + 1, 1, tzinfo=UTC) for month in (first, first + count))
    return start, end


def _unit(today: datetime, unit: str, step: int) -> Span:
    """Return the day, week, month, quarter or year `step` units from the current one."""
    if unit == "day":
        return _days(today + step * _DAY)
    if unit == "week":
        return _days(today + timedelta(days=-today.weekday(), weeks=step), 7)
    count = _MONTHS_OF[unit]
    return _months(((12 * today.year + today.month - 1) // count + step) * count, count)


def _moved(day: datetime, unit: str, count: int) -> datetime:
    if unit not in _MONTHS_OF:
        return day + timedelta(days=_DAYS_OF[unit] * count)
    start, end = _months(12 * day.year + day.month - 1 + _MONTHS_OF[unit] * count)
    return min(start + timedelta(days=day.day - 1), end - _DAY)


def _around(day: datetime, unit: str, count: int) -> Span:
    """Return the time around `count` units from a day.

    The larger the unit, the wider the result: people mean "two months ago" less exactly than "two days ago".
    """
    if unit == "week":
        return _days(day + timedelta(weeks=count, days=-3), 7)
    if unit == "day" and abs(count) >= 5:
        return _days(day + timedelta(days=count - 1), 3)
    return _unit(day, unit, count)


def _weekday_before(day: datetime, name: str) -> Span:
    """Return the last day of that name before a day."""
    at = _WEEKDAYS.index(name[:3].lower()) if name.isascii() else _CHINESE_WEEKDAYS[name]
    return _days(day - timedelta(days=(day.weekday() - at) % 7 or 7))


def _recurring(said: _Groups, today: datetime, of_year: Callable[[int], Span]) -> Span:
    """Return what comes once a year: of the year that is said, "last", "this" or "next", or the last that began."""
    if (stated := _year_of(said, today)) is not None:
        return of_year(stated)
    which = said.get("which")
    found: list[Span] = []
    for year in range(today.year - 8, today.year + 9):  # 29 February may be eight years away
        try:
            found.append(of_year(year))
        except (ValueError, OverflowError):
            continue
    if which and not _step(which):
        of_now = [span for span in found if span[0] <= today < span[1]]
        wanted = of_now or [span for span in found if span[0].year == today.year]
    elif _step(which) > 0:
        wanted = [span for span in found if span[0] > today][:1]
    else:
        wanted = [span for span in found if (span[1] if which else span[0]) <= today][-1:]
    if not wanted:
        raise ValueError("no calendar has it")
    return wanted[0]


def _year_of(said: _Groups, today: datetime) -> int | None:
    text = said.get("year") or said.get("digits")
    if text is None:
        return None
    digits = re.match(r"\d{4}", text)
    return int(digits[0]) if digits else today.year + _step(re.sub(r"\s*(?:year|年)", "", text))


# Readers of forms: each resolves what the groups of its pattern matched.


def _date(said: _Groups, today: datetime) -> Span:
    """Resolve a month, a third of it (上旬), a day of it or a few days."""
    text, day, last, third = said["month"] or "", said.get("day"), said.get("last"), said.get("third")
    month = int(text) if text.isdigit() else _MONTHS.index(text[:3].lower()) + 1
    if day is None:
        start, end = _recurring(said, today, lambda year: _months(12 * year + month - 1))
        days = (start, start + 10 * _DAY, start + 20 * _DAY, end)
        at = "上中下".index(third) if third else 0
        return (days[at], days[at + 1]) if third else (start, end)
    start, end = _recurring(said, today, lambda year: _days(datetime(year, month, int(day), tzinfo=UTC)))
    return start, start.replace(day=int(last)) + _DAY if last else end


def _numeric_date(said: _Groups, _: datetime) -> Span:
    """Resolve 13.10.2026 or 10/13/2026; with slashes the larger number must tell which is the day."""
    day, month = int(said["first"] or 0), int(said["second"] or 0)
    if said["sign"] == "/" and day <= 12:
        if month <= 12 and day != month:
            raise ValueError("either may be the month")
        day, month = month, day
    return _days(datetime(int(said["year"] or 0), month, day, tzinfo=UTC))


def _year(said: _Groups, today: datetime) -> Span:
    half = said.get("half")
    return _months(12 * (_year_of(said, today) or 0) + 6 * (half == "下"), 6 if half else 12)


def _part_of_year(said: _Groups, today: datetime) -> Span:
    """Resolve a quarter, a week by its number, a season or a holiday."""
    if week := said.get("week"):
        return _recurring(
            said, today, lambda year: _days(datetime.fromisocalendar(year, int(week), 1).replace(tzinfo=UTC), 7)
        )
    if holiday := said.get("holiday"):
        month, day = _HOLIDAYS[" ".join(holiday.lower().split())]
        return _recurring(said, today, lambda year: _days(datetime(year, month, day, tzinfo=UTC)))
    quarter, season = said.get("quarter") or said.get("nth"), (said.get("season") or "")[:3].lower()
    first = 3 * _ordinal(quarter) - 2 if quarter else _SEASONS[season]
    return _recurring(said, today, lambda year: _months(12 * year + first - 1, 3))


def _weekday(said: _Groups, today: datetime) -> Span:
    which, day = said.get("which"), said["day"] or ""
    if which and not _step(which):
        return _weekday_before(_unit(today, "week", 1)[0], day)
    return _weekday_before(today + timedelta(days=8 if _step(which) > 0 else 0), day)


def _near_day(said: _Groups, today: datetime) -> Span:
    ahead = bool(said["after"]) + bool(said["ahead"]) - bool(said["before"]) - bool(said["back"])
    return _days(today + ahead * _DAY)


def _relative(said: _Groups, today: datetime) -> Span:
    """Resolve "last week" and the like, with a day of it; "the weekend" is that of the last week."""
    which, day = said.get("which"), said.get("day")
    start, end = _unit(today, _unit_of(said["unit"] or ""), _step(which) if which else -1)
    if not day:
        return start, end
    if day.isdigit():
        return _days(start.replace(day=int(day)))
    if day in {"end", "末"}:
        return _days(start + 5 * _DAY, 2)
    return _weekday_before(end, day)


def _counted(said: _Groups, today: datetime, *, sign: int) -> Span:
    unit = _unit_of(said["unit"] or "")
    if said.get("few"):
        start, end = sorted((_moved(today, unit, sign), _moved(today, unit, sign * _FEW)))
        return start, end
    return _around(today, unit, sign * _number(said["number"] or ""))


_ago, _ahead = partial(_counted, sign=-1), partial(_counted, sign=1)


def _recent(said: _Groups, today: datetime) -> Span:
    """Resolve the last days, weeks, months or years up to today, which is one of them."""
    count = _number(said["number"] or "") if said.get("number") else _FEW if said.get("few") else 1
    return today - timedelta(days=count * _DAYS_OF[_unit_of(said["unit"] or "")]), today + _DAY


_CYCLES: Final[Mapping[_Read, int]] = {_date: _YEARLY, _part_of_year: _YEARLY, _weekday: _WEEKLY, _relative: _WEEKLY}
"""Days after which what a reader resolves comes again, where neither its year nor "last" or "next" is said."""


# The forms. A pattern ignores case: with Unicode's rules for case "ſeven" and "fıve" would match, which no table knows,
# and a month's name inside a Chinese text would have no word boundary.


def _pattern(source: str) -> re.Pattern[str]:
    return lazy_pattern(source, re.IGNORECASE | re.ASCII)


class _Form(NamedTuple):
    """A way to name a time."""

    pattern: re.Pattern[str]
    is_chinese: bool
    """Whether only a text with a Chinese character matches."""
    read: _Read
    alone: re.Pattern[str] | None
    """Matches what has to stand before a word that is not always a time; None where it always is."""


def _form(source: str, read: _Read, *, alone: re.Pattern[str] | None = None) -> _Form:
    return _Form(_pattern(source), _HAN.search(source) is not None, read, alone)


_N: Final = r"(?P<number>\d+|an?|one|two|three|four|five|six|seven|eight|nine|ten|eleven|twelve|couple)"
_COUNT: Final = rf"(?:(?P<few>(?:a\s+)?few|several)|(?:a\s+)?{_N}(?:\s+of)?)"
_COUNT_CHINESE: Final = r"(?:(?P<number>(?<!\d)\d+)|(?P<few>[几幾数數]))"
_UNIT: Final = r"(?P<unit>day|week|month|year)"
_UNIT_CHINESE: Final = r"[个個]?(?P<unit>天|日|周|週|星期|[礼禮]拜|月|年)"
_WHICH: Final = r"(?P<which>last|past|previous|this(?:\s+(?:past|coming))?|next|coming|upcoming)"
_YEAR: Final = r"(?P<year>\d{4}|(?:last|this|next)\s+year)"
_YEAR_CHINESE: Final = r"(?P<year>(?<!\d)\d{4}\s*年|[今去明前后後]年)"
_MONTH: Final = (
    r"(?P<month>jan(?:uary)?|feb(?:ruary)?|mar(?:ch)?|apr(?:il)?|may|june?|july?|aug(?:ust)?|sept?(?:ember)?|"
    r"oct(?:ober)?|nov(?:ember)?|dec(?:ember)?)"
)
_MONTH_CHINESE: Final = rf"(?:{_YEAR_CHINESE}\s*)?(?<!\d)(?P<month>1[0-2]|0?[1-9])"
_WEEKDAY: Final = r"(?P<day>(?:mon|tues|wednes|thurs|fri|satur|sun)day|(?-i:Mon|Tue|Wed|Thu|Fri|Sat|Sun))\b"
_TH: Final = r"(?:st|nd|rd|th)?"
_UP_TO: Final = r"(?:[-–—~]|to|until|till|through)"
_ENDS: Final = (
    r"(?=\s*(?:$|[^\w\s-])|\s+-|\s+(?:and|or|but|if|while|i|you|he|she|it|they|we|that|this|who|what|when|where|which|how|"
    r"did|do|does|had|has|have|was|were|is|are|in|at|on|with|for|to)\b)"
)
"""Lookahead after a word that does not qualify a noun, unlike "2023 winners", "10 people" or "summer camp"."""
_PART: Final = r"(?P<part>morning|afternoon|evening|night|早上|上午|中午|下午|傍晚|晚上|晚|早)(?![a-z])"
_ABOUT: Final = r"(?:(?:the|about|around|roughly|early|mid|late)[\s-]+|(?P<edge>end|start|beginning|middle)\s+of\s+)*"
"""Words that may stand between a preposition and its date."""
_IN: Final = _pattern(r"\b(?:in|during|of)\s+(?:(?:early|mid|late)[\s-]+)?$")
_AT: Final = _pattern(r"\b(?:in|on|at|over|during|of)\s+(?:the\s+)?(?:(?:early|mid|late)[\s-]+)?$")
_ON: Final = _pattern(r"\bon\s+$")

_FORMS: Final = (
    _form(r"(?<![\d.])(?P<year>(?:19|20)\d\d)[-/.](?P<month>\d{1,2})[-/.](?P<day>\d{1,2})(?=T\d|\b(?!\.?\d))", _date),
    _form(
        r"(?<![\d./])(?P<first>\d\d?)(?P<sign>[./])\s?(?P<second>\d\d?)(?P=sign)\s?(?P<year>(?:19|20)\d\d)\b(?!\.?\d)",
        _numeric_date,
    ),
    _form(rf"{_MONTH_CHINESE}(?=\s*[-–—~到至]\s*(?:1[0-2]|0?[1-9])\s*月(?!\s*\d))", _date),
    _form(
        rf"{_MONTH_CHINESE}\s*月(?:份?的?(?P<third>[上中下])旬|份|\s*(?P<day>\d{{1,2}})"
        r"(?:\s*[日号號]?\s*[-–—~到至]\s*(?P<last>\d{1,2}))?\s*[日号號])?",
        _date,
    ),
    _form(
        rf"(?:{_YEAR_CHINESE}\s*的?)?(?:(?:第?(?=[1-4]季度)|Q(?=[1-4]\b))(?P<quarter>[1-4])(?:季度)?"
        r"|(?<![孕月])第(?P<week>\d\d)[周週]"
        r"|(?P<holiday>平安夜|[圣聖][诞誕](?:[节節夜]|(?![树樹老礼禮装裝卡歌帽快]))|跨年夜"
        r"|元旦|[情万萬][人圣聖][节節]|[劳勞][动動][节節]|[国國][庆慶](?:[节節]|(?![装裝活阅閱快]))))",
        _part_of_year,
    ),
    _form(rf"(?:{_YEAR_CHINESE}\s*的?|(?P<which>上|[这這]|下)[个個])(?P<season>[春夏秋冬])[天季]?", _part_of_year),
    _form(rf"(?:{_YEAR_CHINESE}\s*的?)(?P<half>[上下])半年", _year),
    _form(r"(?P<year>(?<!\d)(?:19|20)\d\d(?=\s*[-–—~到至]\s*\d{4}\s*年)|\d{4}\s*年)", _year),
    _form(
        rf"(?<![\d:.-])\b(?P<between>between\s+(?:the\s+)?)?(?P<day>\d{{1,2}}){_TH}\s*(?(between)and|{_UP_TO})\s*"
        rf"(?:the\s+)?(?P<last>\d{{1,2}}){_TH}(?:\s+of)?\s+{_MONTH}\b,?(?:\s+{_YEAR}\b)?",
        _date,
    ),
    _form(rf"\b(?P<day>\d{{1,2}}){_TH}(?:\s+of)?\s+{_MONTH}\b,?(?:\s+{_YEAR}\b)?", _date),
    _form(
        rf"\b(?P<between>between\s+)?{_MONTH}\.?\s+(?P<day>\d{{1,2}}){_TH}\s*(?(between)and|{_UP_TO})\s*"
        rf"(?P<last>\d{{1,2}}){_TH}\b(?!:\d)(?:,?\s+{_YEAR}\b|{_ENDS})",
        _date,
    ),
    _form(rf"\b{_MONTH}\.?\s+(?P<day>\d{{1,2}}){_TH}\b(?:,?\s+{_YEAR}\b)?", _date),
    _form(r"\b(?P<year>(?:19|20)\d\d)[-\s]?(?:Q(?P<quarter>[1-4])|W(?P<week>\d\d))\b", _part_of_year),
    _form(
        rf"\b(?:{_WHICH}\s+)?(?P<season>spring|summer|autumn|fall|winter)\b(?:,?\s+(?:of\s+)?{_YEAR}\b|(?(which)|{_ENDS}))",
        _part_of_year,
        alone=_AT,
    ),
    _form(
        rf"\b(?:{_WHICH}\s+)?(?P<holiday>christmas(?:\s+(?:eve|day))?|boxing\s+day|new\s+year's(?:\s+(?:eve|day))?"
        rf"|valentine's\s+day|halloween)\b(?:,?\s+(?:of\s+|in\s+)?{_YEAR}\b|(?(which)|{_ENDS}))",
        _part_of_year,
        alone=_AT,
    ),
    _form(
        rf"\b(?:Q(?P<quarter>[1-4])|(?P<nth>first|second|third|fourth|[1-4](?:st|nd|rd|th))\s+quarter"
        rf"|week\s+(?P<week>\d\d))\b(?:,?\s+(?:of\s+)?{_YEAR}\b|(?!\s+of\b))",
        _part_of_year,
        alone=_AT,
    ),
    _form(r"\b(?P<digits>(?:19|20)\d\d)-(?P<month>0[1-9]|1[0-2])\b(?!-)", _date, alone=_IN),
    _form(
        rf"\b(?:{_WHICH}\s+(?:early\s+|mid\s+|late\s+)?)?{_MONTH}\b(?:\.?,?\s+(?:of\s+)?{_YEAR}\b)?", _date, alone=_IN
    ),
    _form(
        r"\b(?:(?P<before>(?:the\s+)?day\s+before\s+)?(?P<back>yesterday|last\s+night)"
        r"|(?P<after>(?:the\s+)?day\s+after\s+)?(?P<ahead>tomorrow)"
        r"|(?:(?:earlier|later)\s+)?(?:today|tonight|this\s+(?:morning|afternoon|evening)))\b",
        _near_day,
    ),
    _form(rf"\b{_WHICH}\s+(?P<unit>week)(?P<day>end)\b", _relative),
    _form(rf"\b{_WEEKDAY}\s+(?:of\s+)?{_WHICH}\s+(?P<unit>week)\b", _relative),
    _form(rf"\b{_WHICH}\s+{_WEEKDAY}", _weekday),
    _form(
        rf"\b(?:(?:over|in|during|within)\s+)?(?:(?:(?:the|this)\s+)?(?:last|past|previous)\s+{_COUNT}\s+"
        rf"|(?:(?:the|this)\s+(?:last|past)|past)\s+(?!day)){_UNIT}s?\b(?!\s+(?:of|before)\b)",
        _recent,
    ),
    _form(rf"\b(?:(?:earlier|later)\s+)?{_WHICH}\s+(?P<unit>week|month|quarter|year)\b(?!\s+of\b)", _relative),
    _form(rf"(?<![\w-])(?<!ty ){_COUNT}\s+{_UNIT}s?\s+ago\b", _ago),
    _form(
        rf"\b(?:in\s+(?P<soon>))?(?:a\s+)?{_N}(?:\s+of)?\s+{_UNIT}s?(?(soon)(?:'?\s+time)?(?=\W*$)|\s+from\s+now\b)",
        _ahead,
    ),
    _form(rf"{_COUNT_CHINESE}{_UNIT_CHINESE}[之以]?前", _ago),
    _form(rf"(?<![^，。,？?！!\s在过過]){_COUNT_CHINESE}{_UNIT_CHINESE}[之以]?[后後]", _ahead),
    _form(
        rf"(?:最近|[过過]去|近|[这這](?=[几幾])|(?<!的)前(?=[几幾])){_COUNT_CHINESE}{_UNIT_CHINESE}(?:[之以]?[来來内內])?",
        _recent,
    ),
    _form(
        r"(?P<which>上上|下下|(?<!上)上|(?<![以之下])下|[这這]|(?<![日版基根])本)[个個]?"
        r"(?P<unit>[周週]|星期|[礼禮]拜|月|季度)(?![围圍边邊亮台])"
        r"(?P<day>(?<=[周週期拜])[一二三四五六日天末]|(?<=月)\d{1,2}(?=\s*[日号號]))?",
        _relative,
    ),
    _form(
        r"(?P<which>[昨今明]|去(?=年)|(?<![目以之今往从從])大?[前后後](?=[天年]))(?P<unit>[天日晚早年])(?![气性龄])",
        _relative,
    ),
    _form(r"(?<![每逢隔个個\d一])(?:[周週]|星期|[礼禮]拜)(?P<day>[一二三四五六日天])(?![次个個小])", _weekday),
    _form(r"(?<![每逢隔个個])(?P<unit>[周週])(?P<day>末)", _relative),
    _form(rf"\b{_WEEKDAY}(?!\s+(?:morning|afternoon|evening|night)s\b)", _weekday, alone=_ON),
    _form(rf"\b(?P<unit>week)(?P<day>end)\b{_ENDS}", _relative, alone=_AT),
    _form(r"\b(?P<digits>(?:19|20)\d\d)\b", _year, alone=_IN),
)

# The words beside a date.

_SIDE: Final = r"(?:(?P<before>before|prior\s+to|preceding|leading\s+up\s+to)|after|following)"
_JUST: Final = r"(?:shortly|soon|right|just|immediately|directly)"
_EDGE: Final = r"\s*的?(?P<edge>[底末初])?"
_SIDE_CHINESE: Final = r"(?:[之以]?(?P<before>前)|[之以过過]?[后後])"
_UNIT_BESIDE: Final = r"(?:[个個]?(?P<unit>[天日晚周週年]|星期|[礼禮]拜|(?<=[个個])月)(?!\d))"

_Beside: TypeAlias = Callable[[re.Match[str], _Named, datetime], Span | None]
_AHEAD: Final[tuple[tuple[re.Pattern[str], _Beside], ...]] = (
    (
        _pattern(
            r"\b(?P<whole>(?:the|within|last|first|that|previous)\s+(?:(?:very|first|last|next|whole|previous)\s+)?)?"
            r"(?:(?P<some>(?:a\s+)?few|several|some|(?:a\s+)?couple(?:\s+of)?)\s+|"
            rf"(?P<other>many|all|every|each|most|any)\s+|{_N}\s+)?"
            rf"(?P<unit>day|night|evening|morning|week|month|year)(?P<many>s)?\s+(?:{_JUST}\s+)?{_SIDE}\s+{_ABOUT}$"
        ),
        _beside,
    ),
    (
        _pattern(
            r"\b(?<!every )(?:(?:the|an?|last|first|that|next|previous)\s+){0,2}"
            rf"(?:{_WEEKDAY}|weekend)\s+(?:{_JUST}\s+)?{_SIDE}\s+{_ABOUT}$"
        ),
        _weekday_beside,
    ),
    (_pattern(rf"\b{_JUST}\s+{_SIDE}\s+{_ABOUT}$"), _shortly),
    (
        _pattern(
            r"\b(?:(?P<either>before\s+(?:and|or)\s+after|after\s+(?:and|or)\s+before)|"
            r"(?P<until>(?:on|in)\s+or\s+before|(?:up\s+)?until|(?:up\s+)?till|by|no\s+later\s+than|as\s+of)|"
            r"(?P<since>(?:on|in)\s+or\s+after|since|(?:starting|beginning)(?:\s+(?:from|on|in|with))?)|"
            r"(?P<before>before|prior\s+to|earlier\s+than|preceding)|(?P<after>after|later\s+than|following))"
            rf"\s+{_ABOUT}$"
        ),
        _open,
    ),
    (_pattern(rf"\bup\s+(?P<until>to)\s+{_ABOUT}$"), _up_to),
    (_pattern(r"(?:(?P<until>截至|截止到?|直到)|(?P<since>自[从從]))\s*$"), _open),
)
_BEHIND: Final[tuple[tuple[re.Pattern[str], _Beside], ...]] = (
    (
        _pattern(
            rf"{_EDGE}(?P<whole>{_SIDE_CHINESE})的?(?=[那整\d几幾数數])那?整?"
            rf"(?:(?P<number>\d{{1,3}})|(?P<some>[几幾数數]))?{_UNIT_BESIDE}"
        ),
        _beside,
    ),
    (_pattern(rf"{_EDGE}的?(?P<number>\d{{1,3}}){_UNIT_BESIDE}{_SIDE_CHINESE}(?![后後])"), _beside),
    (
        _pattern(
            rf"{_EDGE}(?:(?P<until>[为為]?止)|(?P<since>以[来來]|至今|[到至][现現]在|起(?![床来來飞飛诉訴草码碼身点點火夜]))|"
            r"(?P<before>[之以]前|前(?![往去来來夫男女任台面进進后後景途线線妻辈輩提天]))|"
            r"(?P<after>[之以过過][后後]|[后後](?![来來悔果台臺续續勤面院])))"
        ),
        _open,
    ),
    (_pattern(r"\s+or\s+(?P<until>earlier)\b|(?P<since>\s+or\s+later\b|\s*,?\s*onwards?\b)"), _open),
)
_ONWARD: Final[tuple[re.Pattern[str], _Beside]] = (
    _pattern(rf"\s*,?\s*(?P<since>on{_ENDS}|(?:until|till)\s+now\b|to\s+(?:now|date|the\s+present)\b|开始|開始)"),
    _open,
)
"""Words that mean "since" behind a date that follows "from"."""
_FROM: Final = _pattern(rf"(?:\bfrom\s+{_ABOUT}|(?:[从從]|(?<![来來])自)\s*)$")
"""Start of a range, before its first date."""
_TO: Final = _pattern(rf"(?:\b(?:(?:up\s+)?to|until|till|through)\s+|[-–—~]\s*|(?:一?直)?[到至]\s*){_ABOUT}$")
_BETWEEN: Final = _pattern(rf"\bbetween\s+{_ABOUT}$")
_BETWEEN_CHINESE: Final = _pattern(r"\s*之?[间間]")
_AND: Final = _pattern(rf"\s*,?\s*and\s+{_ABOUT}")
_AND_CHINESE: Final = _pattern(r"[初底末]?\s*[和与與跟及]\s*")
_LISTED: Final = _pattern(r"[初底末]?\s*、\s*")
_PAIR: Final = _pattern(r"\s*,?\s*and\s+(?:(?:on|of)\s+)?(?:the\s+)?")
_SENTENCE_END: Final = lazy_pattern("[.?!;。？！；]")
_ENDS_HERE: Final = _pattern(_ENDS)
_NAME: Final = _pattern(r"'s\b|\s+(?!I\b)(?-i:[A-Z])")
_HAS_YEAR: Final = lazy_pattern(r"\d{4}", re.ASCII)
_PAST: Final = _pattern(r"\b(?:did|was|were|had|has|have)\b")
_PART_INSIDE: Final = _pattern(_PART)
_PART_BEHIND: Final = _pattern(rf"(?:\s+(?:in\s+the\s+)?|的)?{_PART}")
_HINT: Final = lazy_pattern(
    r"\d|ago\b|day|tomorrow|night|morning|evening|afternoon|week|month|quarter|year|spring|summer|autumn|fall|winter|"
    r"christmas|halloween|[天日晚早周週季月年春夏秋冬诞誕夜旦节節庆慶]|星期|[礼禮]拜|"
    + "|".join((*_MONTHS, *_WEEKDAYS)),
    re.IGNORECASE,
)
"""A cheap test that every text with a time passes."""

_TALK: Final = r"(?:sessions?|conversations?|chats?|discussions?)"
_TALK_CHINESE: Final = r"次?的?(?:[对對][话話]|聊天|[会會][话話]|[谈談][话話])"
_ORDINAL: Final = "|".join(sorted(_ORDINALS, key=len, reverse=True)).replace("-", "[- ]")
_SESSION: Final = _pattern(
    rf"\b(?<!his )(?<!her )(?<!their )(?P<ordinal>{_ORDINAL}"
    rf"|\d{{1,4}}(?:st|nd|rd|th))\s+{_TALK}\b(?!\s+of\b)|第\s*(?P<place>\d{{1,4}})\s*[场場个個]?{_TALK_CHINESE}"
    rf"|\b{_N.replace('number', 'count')}\s+{_TALK}\s+(?:ago|back|before|earlier)\b"
    rf"|(?P<times>\d{{1,4}}){_TALK_CHINESE}[之以]?前"
    rf"|(?P<last>(?P<twice>\b(?:session|conversation|chat|talk)\s+before\s+(?:the\s+)?last\b|上上{_TALK_CHINESE})"
    rf"|\b(?:last|previous|latest|most\s+recent)\s+{_TALK}\b(?!\s+of\b)|(?:上1?|最[后後近]1?){_TALK_CHINESE})"
)
_SESSION_HINT: Final = lazy_pattern(
    r"sess|conv|chat|talk|disc|[对對][话話]|聊天|[会會][话話]|[谈談][话話]", re.IGNORECASE
)
