"""The time that a question names, in English and Chinese: "last week", "in May 2023", "上周", "2023年5月8日".

Weeks begin on Monday; all times are UTC. What is said of `now` is understood as one says it: "May" is the last May.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final

_MONTHS: Final = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
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
_UNITS: Final = {"day": "day", "week": "week", "month": "month", "year": "year", "天": "day", "日": "day", "周": "week"}
_UNITS_CHINESE: Final = {"星期": "week", "礼拜": "week", "月": "month", "年": "year"}
_MONTH: Final = (
    r"(?P<month>jan(?:uary)?|feb(?:ruary)?|mar(?:ch)?|apr(?:il)?|may|june?|july?|aug(?:ust)?|sept?(?:ember)?|"
    r"oct(?:ober)?|nov(?:ember)?|dec(?:ember)?)"
)
_NUMBER: Final = r"(?P<number>\d+|an?|one|two|three|four|five|six|seven|eight|nine|ten|eleven|twelve)"


@dataclass(frozen=True, slots=True)
class Period:
    """From `start` on, before `end`: seconds since the epoch, UTC."""

    start: float
    end: float


def period_of(query: str, now: float) -> Period | None:
    """Give the time that the query names; None when it names none, or several that do not touch.

    Args:
        query: what is asked.
        now: when it is asked, in seconds since the epoch.
    """
    if not _HINT.search(query):
        return None
    today = datetime.fromtimestamp(now, UTC).replace(hour=0, minute=0, second=0, microsecond=0)
    found = list(_spans(unicodedata.normalize("NFKC", query), today))
    if not found:
        return None
    first, last = max(start for start, _ in found), min(end for _, end in found)
    return Period(first.timestamp(), last.timestamp()) if first < last else None


_HINT: Final = re.compile(
    r"\d|ago\b|day|night|morning|evening|afternoon|week|month|year|[天日晚早周月年]|星期|礼拜|" + "|".join(_MONTHS),
    re.IGNORECASE,
)
"""Something of this is in every time that is named."""

Span = tuple[datetime, datetime]


def _spans(query: str, today: datetime) -> Iterator[Span]:
    rest = query
    for pattern, read in _FORMS:
        for match in pattern.finditer(rest):
            try:
                yield read(match, today)
            except (ValueError, OverflowError):
                continue  # the 31st of a month that has none names no time
        # What one form has read, a later, shorter one shall not read again.
        rest = pattern.sub(lambda match: " " * len(match[0]), rest)


def _day(start: datetime, days: int = 1) -> Span:
    return start, start + timedelta(days=days)


def _month(year: int, month: int) -> Span:
    start = datetime(year, month, 1, tzinfo=UTC)
    return start, datetime(year + month // 12, month % 12 + 1, 1, tzinfo=UTC)


def _year(year: int) -> Span:
    return datetime(year, 1, 1, tzinfo=UTC), datetime(year + 1, 1, 1, tzinfo=UTC)


def _number(text: str) -> int:
    return int(text) if text.isdigit() else _NUMBERS[text.lower()]


def _month_number(name: str) -> int:
    return _MONTHS.index(name[:3].lower()) + 1


def _unit(today: datetime, unit: str, back: int) -> Span:
    """Give the day, week, month or year that is `back` before the one of today."""
    if unit == "day":
        return _day(today - timedelta(days=back))
    if unit == "week":
        return _day(today - timedelta(days=today.weekday(), weeks=back), 7)
    if unit == "month":
        months = 12 * today.year + today.month - 1 - back
        return _month(months // 12, months % 12 + 1)
    return _year(today.year - back)


def _ago(today: datetime, unit: str, count: int) -> Span:
    """Give the time around a count of units before today; the larger the unit, the less exactly people mean it."""
    start, end = _unit(today, unit, count)
    if unit == "week":
        day = today - timedelta(weeks=count)
        return day - timedelta(days=3), day + timedelta(days=4)
    return (start, end) if unit != "day" or count < 5 else (start - timedelta(days=1), end + timedelta(days=1))


def _date(match: re.Match[str], _: datetime) -> Span:
    return _day(datetime(int(match["year"]), int(match["month"]), int(match["day"]), tzinfo=UTC))


def _named_date(match: re.Match[str], today: datetime) -> Span:
    month, day, year = _month_number(match["month"]), int(match["day"]), match["year"]
    if year:
        return _day(datetime(int(year), month, day, tzinfo=UTC))
    return _last_day(month, day, today)


def _named_month(match: re.Match[str], today: datetime) -> Span:
    month, year = _month_number(match["month"]), match["year"]
    return _month(int(year) if year else _last_year_of(month, today), month)


def _chinese_month(match: re.Match[str], today: datetime) -> Span:
    month, said, day = int(match["month"]), match["year"], match["day"]
    words = {"今年": today.year, "去年": today.year - 1, "前年": today.year - 2}
    if not said:
        return _last_day(month, int(day), today) if day else _month(_last_year_of(month, today), month)
    year = words.get(said) or int(said[:-1])
    return _day(datetime(year, month, int(day), tzinfo=UTC)) if day else _month(year, month)


def _last_day(month: int, day: int, today: datetime) -> Span:
    at = datetime(today.year, month, day, tzinfo=UTC)
    return _day(at if at <= today else at.replace(year=today.year - 1))


def _last_year_of(month: int, today: datetime) -> int:
    return today.year if month <= today.month else today.year - 1


def _relative(match: re.Match[str], today: datetime) -> Span:
    return _unit(today, match["unit"].lower(), {"last": 1, "past": 1, "previous": 1}.get(match["which"].lower(), 0))


def _weekend(match: re.Match[str], today: datetime) -> Span:
    monday = today - timedelta(days=today.weekday())
    return _day(monday + timedelta(days=5 if match["which"].lower() == "this" else -2), 2)


def _last_weekday(match: re.Match[str], today: datetime) -> Span:
    back = (today.weekday() - _DAYS.index(match["day"].lower())) % 7 or 7
    return _day(today - timedelta(days=back))


def _chinese_relative(match: re.Match[str], today: datetime) -> Span:
    back = {"上": 1, "去": 1, "前": 2}.get(match["which"], 0)
    start, end = _unit(today, _chinese_unit(match["unit"]), back)
    return _day(start + timedelta(days=_CHINESE_DAYS[match["day"]])) if match["day"] else (start, end)


def _chinese_unit(text: str) -> str:
    return _UNITS.get(text) or _UNITS_CHINESE[text]


def _days_back(days: int) -> Callable[[re.Match[str], datetime], Span]:
    return lambda _, today: _day(today - timedelta(days=days))


def _form(pattern: str) -> re.Pattern[str]:
    # With Unicode's rules for case "ſeven" and "fıve" match, which no table knows, and a month's name inside a Chinese
    # text has no word boundary.
    return re.compile(pattern, re.IGNORECASE | re.ASCII)


_FORMS: Final = (
    (_form(r"\b(?P<year>(?:19|20)\d\d)[-/.](?P<month>\d{1,2})[-/.](?P<day>\d{1,2})\b"), _date),
    (
        _form(
            r"(?:(?P<year>(?<!\d)\d{4}\s*年|今年|去年|前年)\s*)?(?<!\d)(?P<month>1[0-2]|0?[1-9])\s*月"
            r"(?:份|\s*(?P<day>\d{1,2})\s*[日号號])?"
        ),
        _chinese_month,
    ),
    (_form(r"(?P<year>\d{4})\s*年"), lambda match, _: _year(int(match["year"]))),
    (_form(rf"\b(?P<day>\d{{1,2}})(?:st|nd|rd|th)?(?:\s+of)?\s+{_MONTH}\b,?(?:\s+(?P<year>\d{{4}})\b)?"), _named_date),
    (_form(rf"\b{_MONTH}\.?\s+(?P<day>\d{{1,2}})(?:st|nd|rd|th)?\b(?:,?\s+(?P<year>\d{{4}})\b)?"), _named_date),
    (_form(rf"\b{_MONTH}\.?,?\s+(?:of\s+)?(?P<year>\d{{4}})\b"), _named_month),
    (
        _form(rf"\b(?:in|since|during|of|last|this)\s+(?:early\s+|mid\s+|late\s+)?{_MONTH}\b(?P<year>(?!))?"),
        _named_month,
    ),
    (_form(r"\b(?:in|during|of|since)\s+(?P<year>(?:19|20)\d\d)\b"), lambda match, _: _year(int(match["year"]))),
    (_form(r"\b(?:the\s+)?day\s+before\s+yesterday\b|前天"), _days_back(2)),
    (_form(r"\byesterday\b|\blast\s+night\b|昨[天日晚]"), _days_back(1)),
    (_form(r"\b(?:today|tonight|this\s+(?:morning|afternoon|evening))\b|今[天日晚早]"), _days_back(0)),
    (_form(r"\b(?P<which>this|last|past)\s+weekend\b"), _weekend),
    (_form(rf"\blast\s+(?P<day>{'|'.join(_DAYS)})\b"), _last_weekday),
    (_form(r"\b(?P<which>this|last|past|previous)\s+(?P<unit>week|month|year)\b"), _relative),
    (
        _form(rf"\b{_NUMBER}\s+(?P<unit>day|week|month|year)s?\s+ago\b"),
        lambda match, today: _ago(today, match["unit"].lower(), _number(match["number"])),
    ),
    (
        _form(r"(?P<number>\d+|[一二三四五六七八九十两兩])个?(?P<unit>天|日|周|星期|礼拜|月|年)[之以]?前"),
        lambda match, today: _ago(today, _chinese_unit(match["unit"]), _number(match["number"])),
    ),
    (
        _form(r"(?P<which>[上这本])个?(?P<unit>周|星期|礼拜|月)(?P<day>(?<=[周期拜])[一二三四五六日天])?"),
        _chinese_relative,
    ),
    (_form(r"(?P<which>[今去前])(?P<unit>年)(?P<day>(?!))?"), _chinese_relative),
)
