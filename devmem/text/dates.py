"""The times that a text names, in English and Chinese, one by one: "last week", "May 2023", "上周", "2023年5月8日".

Weeks begin on Monday; all times are UTC.
"""

from __future__ import annotations

import calendar
import re
import unicodedata
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Final

from devmem.text.patterns import lazy_pattern

Span = tuple[datetime, datetime]
"""A half-open interval: from the first time on, before the second."""

MONTHS: Final = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_DAYS: Final = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
_CHINESE_DAYS: Final = {day: at for at, days in enumerate(("一", "二", "三", "四", "五", "六", "日天")) for day in days}
_NUMBERS: Final = {
    **dict(
        zip("a one two three four five six seven eight nine ten eleven twelve".split(), [1, *range(1, 13)], strict=True)
    ),
    **dict(zip("一二三四五六七八九十", range(1, 11), strict=True)),
    "an": 1,
    "两": 2,
    "兩": 2,
}
_UNITS: Final = {
    **dict.fromkeys(("day", "night", "evening", "morning", "天", "日", "晚"), "day"),
    **dict.fromkeys(("week", "周", "週", "星期", "礼拜", "禮拜"), "week"),
    **dict.fromkeys(("month", "月"), "month"),
    **dict.fromkeys(("year", "年"), "year"),
}
_MONTH: Final = (
    r"(?P<month>jan(?:uary)?|feb(?:ruary)?|mar(?:ch)?|apr(?:il)?|may|june?|july?|aug(?:ust)?|sept?(?:ember)?|"
    r"oct(?:ober)?|nov(?:ember)?|dec(?:ember)?)"
)
NUMBER: Final = r"(?P<number>\d+|an?|one|two|three|four|five|six|seven|eight|nine|ten|eleven|twelve)"
WEEKDAY: Final = r"(?P<day>monday|tuesday|wednesday|thursday|friday|saturday|sunday)"
ENDS: Final = (
    r"(?=\s*(?:$|[^\w\s-])|\s+-|\s+(?:and|or|but|if|while|i|you|he|she|it|they|we|that|this|who|what|when|where|which|how|"
    r"did|do|does|had|has|have|was|were|is|are|in|at|on|with|for|to)\b)"
)
"""Lookahead after a number that does not count a noun, unlike "2023 winners" or "10 people"."""
_DIGITS: Final = {**{digit: str(at) for at, digit in enumerate("〇一二三四五六七八九")}, "零": "0"}
_CHINESE_NUMBER: Final = lazy_pattern(
    # Not the weekday of "周三", nor the tail of a longer number.
    r"(?<![周週期拜\d〇零一二三四五六七八九十百千万两几数])[〇零一二三四五六七八九十]+"
    r"(?=\s*(?:[年月日号號天周週个個]|星期|[礼禮]拜|[到至][〇零一二三四五六七八九十]+[年月日号號]))"
)
_SAID_YEAR: Final = r"(?P<year>\d{4}|(?:last|this)\s+year)"
_TO: Final = r"(?:[-–—~]|to|until|till|through)"


@dataclass(frozen=True, slots=True)
class Named:
    """An expression of time in a text."""

    at: int
    """Offset of its first character."""
    until: int
    """Offset behind its last character."""
    read: Callable[[datetime], Span]
    """Resolves it as said on a given day; raises ValueError or OverflowError for a time that no calendar has."""
    floats: bool
    """Whether it is a date without a year, which means the last such date before the given day."""
    bare: bool
    """Whether it is a month or a year alone, which is a time only in certain contexts."""


def readable(text: str) -> str:
    """Normalise a text to the letters and digits that the patterns expect."""
    return _CHINESE_NUMBER.sub(_digits, " ".join(unicodedata.normalize("NFKC", text).split()))


def dates_in(text: str) -> list[Named]:
    """Return the times that a normalised text names, in order; none overlaps another."""
    found, rest = [], text
    for forms, bare in ((_FORMS, False), (_BARE, True)):
        for pattern, read in forms:
            matches = list(pattern.finditer(rest))
            found += [
                Named(match.start(), match.end(), partial(read, match), match.groupdict("").get("year") == "", bare)
                for match in matches
            ]
            if matches:  # A later, shorter form must not match what this one matched.
                rest = pattern.sub(lambda match: " " * len(match[0]), rest)
    return sorted(found, key=lambda named: named.at)


def _digits(match: re.Match[str]) -> str:
    """Convert a Chinese number below 100, or a year written digit by digit, to digits."""
    tens, ten, ones = match[0].partition("十")
    if not ten:
        return "".join(_DIGITS[digit] for digit in tens) if len(tens) in {1, 4} else match[0]
    if len(tens) > 1 or len(ones) > 1:
        return match[0]
    return _DIGITS.get(tens, "1") + _DIGITS.get(ones, "0")


def _day(start: datetime, days: int = 1) -> Span:
    return start, start + timedelta(days=days)


def _month(year: int, month: int) -> Span:
    start = datetime(year, month, 1, tzinfo=UTC)
    return start, datetime(year + month // 12, month % 12 + 1, 1, tzinfo=UTC)


def _year(year: int) -> Span:
    return datetime(year, 1, 1, tzinfo=UTC), datetime(year + 1, 1, 1, tzinfo=UTC)


def number(text: str) -> int:
    """Read a number in digits or as a word.

    Raises:
        KeyError: it is not a number that is known.
        ValueError: it has too many digits.
    """
    return int(text) if text.isdigit() else _NUMBERS[text.lower()]


def _month_number(name: str) -> int:
    return MONTHS.index(name[:3].lower()) + 1


def unit_of(text: str) -> str:
    """Return the unit that a word names: day, week, month or year."""
    return _UNITS[text.lower()]


def _unit(today: datetime, unit: str, back: int) -> Span:
    """Return the day, week, month or year `back` units before the current one."""
    if unit == "day":
        return _day(today - timedelta(days=back))
    if unit == "week":
        return _day(today - timedelta(days=today.weekday(), weeks=back), 7)
    if unit == "month":
        months = 12 * today.year + today.month - 1 - back
        return _month(months // 12, months % 12 + 1)
    return _year(today.year - back)


def ago(today: datetime, unit: str, count: int) -> Span:
    """Return the time around `count` units before today; a negative count lies ahead.

    The larger the unit, the wider the result: people mean "two months ago" less exactly than "two days ago".
    """
    start, end = _unit(today, unit, count)
    if unit == "week":
        day = today - timedelta(weeks=count)
        return day - timedelta(days=3), day + timedelta(days=4)
    return (start, end) if unit != "day" or abs(count) < 5 else (start - timedelta(days=1), end + timedelta(days=1))


def _date(match: re.Match[str], _: datetime) -> Span:
    return _day(datetime(int(match["year"]), int(match["month"]), int(match["day"]), tzinfo=UTC))


def _named_date(match: re.Match[str], today: datetime) -> Span:
    month, day, year = _month_number(match["month"]), int(match["day"]), match["year"]
    first = _day(datetime(_said_year(year, today), month, day, tzinfo=UTC)) if year else _last_day(month, day, today)
    return _through(first, match.groupdict().get("last"))


def _through(first: Span, last: str | None) -> Span:
    """Extend a day to a range that ends with another day of its month, if one is given."""
    return (first[0], first[0].replace(day=int(last)) + timedelta(days=1)) if last else first


def _named_month(match: re.Match[str], today: datetime) -> Span:
    said = match.groupdict()
    month, year = _month_number(said["month"]), said.get("year")
    if (said.get("which") or "").lower() == "this":
        return _month(today.year, month)
    return _month(_said_year(year, today) if year else _last_year_of(month, today), month)


def _said_year(text: str, today: datetime) -> int:
    return int(text) if text.isdigit() else today.year - text.lower().startswith("last")


def _chinese_month(match: re.Match[str], today: datetime) -> Span:
    groups = match.groupdict()
    month, day, third = int(match["month"]), groups.get("day"), groups.get("third")
    year = _chinese_year(match["year"], today) if match["year"] else None
    if third:
        start, end = _month(year or _last_year_of(month, today), month)
        return _third(start, end, third)
    if not day:
        return _month(year or _last_year_of(month, today), month)
    first = _last_day(month, int(day), today) if year is None else _day(datetime(year, month, int(day), tzinfo=UTC))
    return _through(first, match["last"])


def _chinese_year(said: str, today: datetime) -> int:
    words = {"今年": today.year, "去年": today.year - 1, "前年": today.year - 2}
    return words.get(said) or int(said[:-1])


def _third(start: datetime, end: datetime, third: str) -> Span:
    """Return ten days of a month: the first ones (上旬), the next ones (中旬), or the rest (下旬)."""
    days = (start, start + timedelta(days=10), start + timedelta(days=20), end)
    at = "上中下".index(third)
    return days[at], days[at + 1]


def _half_year(match: re.Match[str], today: datetime) -> Span:
    start, end = _year(_chinese_year(match["year"], today))
    middle = start.replace(month=7)
    return (start, middle) if match["half"] == "上" else (middle, end)


def _last_day(month: int, day: int, today: datetime) -> Span:
    # The last 29 February may be eight years ago.
    for year in range(today.year, today.year - 9, -1):
        if (month, day) != (2, 29) or calendar.isleap(year):
            at = datetime(year, month, day, tzinfo=UTC)
            if at <= today:
                return _day(at)
    raise ValueError("no such day")


def _last_year_of(month: int, today: datetime) -> int:
    return today.year if month <= today.month else today.year - 1


def _relative(match: re.Match[str], today: datetime) -> Span:
    return _unit(today, unit_of(match["unit"]), {"last": 1, "past": 1, "previous": 1}.get(match["which"].lower(), 0))


def _which_year(match: re.Match[str], _: datetime) -> Span:
    return _year(int(match["number"]))


def _weekend(match: re.Match[str], today: datetime) -> Span:
    monday = today - timedelta(days=today.weekday())
    return _day(monday + timedelta(days=5 if match["which"].lower() == "this" else -2), 2)


def weekday_before(today: datetime, name: str) -> Span:
    """Return the last day of that name before today."""
    back = (today.weekday() - _DAYS.index(name.lower())) % 7 or 7
    return _day(today - timedelta(days=back))


def _chinese_relative(match: re.Match[str], today: datetime) -> Span:
    back = {"上": 1, "去": 1, "上上": 2, "前": 2, "大前": 3}.get(match["which"], 0)
    start, end = _unit(today, unit_of(match["unit"]), back)
    day = match["day"]
    if not day:
        return start, end
    if day.isdigit():
        return _day(start.replace(day=int(day)))
    return _day(start + timedelta(days=5), 2) if day == "末" else _day(start + timedelta(days=_CHINESE_DAYS[day]))


def _days_back(days: int) -> Callable[[re.Match[str], datetime], Span]:
    return lambda _, today: _day(today - timedelta(days=days))


def form(pattern: str) -> re.Pattern[str]:
    """Return a pattern for a time that ignores case."""
    # With Unicode's rules for case "ſeven" and "fıve" match, which no table knows, and a month's name inside a Chinese
    # text has no word boundary.
    return lazy_pattern(pattern, re.IGNORECASE | re.ASCII)


_CHINESE_MONTH: Final = r"(?:(?P<year>(?<!\d)\d{4}\s*年|今年|去年|前年)\s*)?(?<!\d)(?P<month>1[0-2]|0?[1-9])"
_FORMS: Final = (
    (form(r"\b(?P<year>(?:19|20)\d\d)[-/.](?P<month>\d{1,2})[-/.](?P<day>\d{1,2})\b"), _date),
    (form(rf"{_CHINESE_MONTH}(?=\s*[-–—~到至]\s*(?:1[0-2]|0?[1-9])\s*月(?!\s*\d))"), _chinese_month),
    (
        form(
            rf"{_CHINESE_MONTH}\s*月(?:份?的?(?P<third>[上中下])旬|份|\s*(?P<day>\d{{1,2}})"
            r"(?:\s*[日号號]?\s*[-–—~到至]\s*(?P<last>\d{1,2}))?\s*[日号號])?"
        ),
        _chinese_month,
    ),
    (form(r"(?<!\d)(?P<number>(?:19|20)\d\d)(?=\s*[-–—~到至]\s*\d{4}\s*年)"), _which_year),
    (form(r"(?P<year>(?<!\d)\d{4}\s*年|今年|去年|前年)的?(?P<half>[上下])半年"), _half_year),
    (form(r"(?P<number>\d{4})\s*年"), _which_year),
    (
        form(
            r"(?<![\d:.-])\b(?P<between>between\s+(?:the\s+)?)?(?P<day>\d{1,2})(?:st|nd|rd|th)?\s*"
            rf"(?(between)and|{_TO})\s*(?:the\s+)?(?P<last>\d{{1,2}})(?:st|nd|rd|th)?(?:\s+of)?\s+{_MONTH}\b"
            rf",?(?:\s+{_SAID_YEAR}\b)?"
        ),
        _named_date,
    ),
    (form(rf"\b(?P<day>\d{{1,2}})(?:st|nd|rd|th)?(?:\s+of)?\s+{_MONTH}\b,?(?:\s+{_SAID_YEAR}\b)?"), _named_date),
    (
        form(
            rf"\b(?P<between>between\s+)?{_MONTH}\.?\s+(?P<day>\d{{1,2}})(?:st|nd|rd|th)?\s*(?(between)and|{_TO})\s*"
            rf"(?P<last>\d{{1,2}})(?:st|nd|rd|th)?\b(?!:\d)(?:,?\s+{_SAID_YEAR}\b|{ENDS})"
        ),
        _named_date,
    ),
    (form(rf"\b{_MONTH}\.?\s+(?P<day>\d{{1,2}})(?:st|nd|rd|th)?\b(?:,?\s+{_SAID_YEAR}\b)?"), _named_date),
    (form(rf"\b{_MONTH}\.?,?\s+(?:of\s+)?{_SAID_YEAR}\b"), _named_month),
    (form(rf"\b(?P<which>last|this)\s+(?:early\s+|mid\s+|late\s+)?{_MONTH}\b"), _named_month),
    (form(r"\b(?:the\s+)?day\s+before\s+yesterday\b|(?<!大)前天(?!气)"), _days_back(2)),
    (form(r"大前天"), _days_back(3)),
    (form(r"\byesterday\b|\blast\s+night\b|昨[天日晚]"), _days_back(1)),
    (form(r"\b(?:today|tonight|this\s+(?:morning|afternoon|evening))\b|今[天日晚早]"), _days_back(0)),
    (form(r"\b(?P<which>this|last|past)\s+weekend\b"), _weekend),
    (form(rf"\blast\s+{WEEKDAY}\b"), lambda match, today: weekday_before(today, match["day"])),
    (form(r"\b(?P<which>this|last|past|previous)\s+(?P<unit>week|month|year)\b"), _relative),
    (
        form(rf"(?<![\w-])(?<!ty ){NUMBER}\s+(?P<unit>day|week|month|year)s?\s+ago\b"),
        lambda match, today: ago(today, unit_of(match["unit"]), number(match["number"])),
    ),
    (
        form(
            r"(?P<number>(?<!\d)\d+|[一二三四五六七八九十两兩])[个個]?(?P<unit>天|日|周|週|星期|[礼禮]拜|月|年)[之以]?前"
        ),
        lambda match, today: ago(today, unit_of(match["unit"]), number(match["number"])),
    ),
    (
        form(
            r"(?P<which>上上|(?<!上)上|[这這]|(?<![日版基根])本)[个個]?(?P<unit>[周週]|星期|[礼禮]拜|月)"
            r"(?P<day>(?<=[周週期拜])[一二三四五六日天末]|(?<=月)\d{1,2}(?=\s*[日号號]))?"
        ),
        _chinese_relative,
    ),
    (form(r"(?P<which>[今去]|(?<![目以])大?前)(?P<unit>年)(?P<day>(?!))?"), _chinese_relative),
)
_BARE: Final = (
    (form(rf"\b{_MONTH}\b(?P<year>(?!))?"), _named_month),
    (form(r"\b(?P<number>(?:19|20)\d\d)\b"), _which_year),
)
