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
from functools import cache, partial
from typing import Final, NamedTuple, TypeAlias

from devmem.text.patterns import lazy_pattern, read_patterns

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
    return _word("session").search(text) if _SESSION_HINT.search(text) else None


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
    form: _TimeForm
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
    for form in _forms():
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
    if one.bare and not _in_front(one.form.alone or _word("in"), text, one):
        return None
    if one.form.read is _ahead and _word("past").search(text, 0, one.at):
        return None  # "How much did he earn in two weeks?" names no time to come
    start, end = one.read(today)
    until, exact = one.until, None
    if end - start == _DAY and (
        part := _word("part_behind").match(text, until) or _word("part_inside").search(text, one.at, until)
    ):
        first, behind = _HOURS[part["part"][0].lower()]
        until, exact = max(until, part.end()), (start + timedelta(hours=first), start + timedelta(hours=behind))
    elif one.form.read in (_ago, _ahead) and not one.groups.get("few") and _DAY < end - start <= 7 * _DAY:
        middle = start + (end - start - _DAY) / 2
        exact = (middle, middle + _DAY)
    return _Reading(one.at, until, (start, end), one.cycle, exact)


def _related(text: str, named: _Named, today: datetime) -> _Reading | None:
    """Resolve a date together with the words beside it; None when these add nothing."""
    behind = _words_beside("behind")
    if _in_front(_word("from"), text, named):
        behind = [*behind, (_word("onward"), _open)]
    for pattern, read in behind:
        match = pattern.match(text, named.until)
        if match and (span := read(match, named, today)):
            return _Reading(named.at, match.end(), span, named.cycle)
    for pattern, read in _words_beside("ahead"):
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
        return _word("ends_here").match(text, named.until) is not None
    return _word("name").match(text, named.until) is None


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
    if _in_front(_word("between"), text, first) and _word("and").fullmatch(gap):
        return True
    if _word("and_chinese").fullmatch(gap):
        return _word("between_chinese").match(text, second.until) is not None
    to = _word("to").search(gap)
    if to is None:
        return False
    if _in_front(_word("from"), text, first):
        return not _SENTENCE_END.search(gap, 0, to.start())
    # "5 May - 2023" is a date and its year, "may to" no month, "Monday to Friday" every week.
    if gap[: to.start()].strip() or (second.bare and first.cycle and not second.cycle):
        return False
    return not first.bare or (
        first.cycle != _WEEKLY and (text[first.at].isupper() or _in_front(_word("in"), text, first) is not None)
    )


def _is_pair(text: str, first: _Named, second: _Named) -> bool:
    """Whether two dates stand beside each other, as in "5 May and 13 May": the time from one to the other counts."""
    gap = text[first.until : second.at]
    if first.bare or second.bare:
        return False
    if first.cycle and _word("pair").fullmatch(gap):
        return True
    # "2025年1月和3月" has its year once.
    return (
        bool(first.cycle or second.cycle)
        and (_word("and_chinese").fullmatch(gap) or _word("listed").fullmatch(gap)) is not None
    )


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


# The forms and the words beside them are in `data/times.txt`. A pattern ignores case: with Unicode's rules for case
# "ſeven" and "fıve" would match, which no table knows, and a month's name inside a Chinese text would have no word
# boundary.


class _TimeForm(NamedTuple):
    """A way to name a time."""

    pattern: re.Pattern[str]
    is_chinese: bool
    """Whether only a text with a Chinese character matches."""
    read: _Read
    alone: re.Pattern[str] | None
    """Matches what has to stand before a word that is not always a time; None where it always is."""


_Beside: TypeAlias = Callable[[re.Match[str], _Named, datetime], Span | None]
_READERS: Final[Mapping[str, _Read]] = {
    "date": _date,
    "numeric_date": _numeric_date,
    "part_of_year": _part_of_year,
    "year": _year,
    "near_day": _near_day,
    "relative": _relative,
    "weekday": _weekday,
    "recent": _recent,
    "ago": _ago,
    "ahead": _ahead,
}
_BESIDE: Final[Mapping[str, _Beside]] = {
    "beside": _beside,
    "weekday_beside": _weekday_beside,
    "shortly": _shortly,
    "open": _open,
    "up_to": _up_to,
}


def _pattern(source: str) -> re.Pattern[str]:
    return lazy_pattern(source, re.IGNORECASE | re.ASCII)


@cache
def _grammar() -> Mapping[str, Sequence[tuple[str, str]]]:
    return read_patterns("times.txt", ORDINAL="|".join(sorted(_ORDINALS, key=len, reverse=True)).replace("-", "[- ]"))


@cache
def _word(name: str) -> re.Pattern[str]:
    """Return the pattern of words that have a name."""
    return _pattern(dict(_grammar()["words"])[name])


@cache
def _forms() -> Sequence[_TimeForm]:
    found = []
    for label, source in _grammar()["forms"]:
        read, _, alone = label.partition(" ")
        is_chinese = _HAN.search(source) is not None
        found.append(_TimeForm(_pattern(source), is_chinese, _READERS[read], _word(alone) if alone else None))
    return found


@cache
def _words_beside(side: str) -> Sequence[tuple[re.Pattern[str], _Beside]]:
    """Return the patterns of words `ahead` of a date or `behind` it, and how each resolves them."""
    return [(_pattern(source), _BESIDE[label]) for label, source in _grammar()[side]]


_SENTENCE_END: Final = lazy_pattern("[.?!;。？！；]")
_HAS_YEAR: Final = lazy_pattern(r"\d{4}", re.ASCII)
_HINT: Final = lazy_pattern(
    r"\d|ago\b|day|tomorrow|night|morning|evening|afternoon|week|month|quarter|year|spring|summer|autumn|fall|winter|"
    r"christmas|halloween|[天日晚早周週季月年春夏秋冬诞誕夜旦节節庆慶]|星期|[礼禮]拜|"
    + "|".join((*_MONTHS, *_WEEKDAYS)),
    re.IGNORECASE,
)
"""A cheap test that every text with a time passes."""
_SESSION_HINT: Final = lazy_pattern(
    r"sess|conv|chat|talk|disc|[对對][话話]|聊天|[会會][话話]|[谈談][话話]", re.IGNORECASE
)
