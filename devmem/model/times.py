"""Times of records, as callers and data files write them: seconds, `datetime`, ISO 8601, `3. April 2025`, mail dates.

Words that are relative to now, such as `yesterday`, are left to `devmem.text.moments`: in a file they mean another day.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime, tzinfo
from enum import StrEnum
from numbers import Real
from typing import Any, Final, TypeAlias

from devmem.errors import AmbiguousDateError

When: TypeAlias = datetime | date | float | str
"""A point in time: a `datetime` (a naive one is local time, as Python has it), a `date` (its midnight), seconds since
the epoch (from 100,000,000,000 on milliseconds), or text such as `2026-06-02` or `2026-06-02T14:30:00Z` (local time
where it names no zone); a caller's text may be relative to now, such as `yesterday`, `3 days ago` or `in 30 days`."""
TIME_KEYS: Final = ("time", "event_time", "created_at", "timestamp", "date")
"""Keys of a record that may hold its time; the first that does counts, and the others are metadata."""
_MILLISECONDS_FROM: Final = 1e11
"""A number this large (the year 5138 in seconds) counts milliseconds."""
_NUMBER: Final = r"-?\d{9,13}(?:\.\d+)?"
"""A number as text; with fewer digits it is a year, or a date of ISO 8601."""
_FORMS: Final = (
    "%I:%M %p on %d %B, %Y",  # 1:56 pm on 8 May, 2023
    "%B-%d-%Y",  # March-15-2024
    "%B %d, %Y",
)
# `re` compiles a text once: at its first use, as each program imports this module and few read such times.
_WEEKDAY: Final = r"\s*\((?:Mon|Tue|Wed|Thu|Fri|Sat|Sun)\w*\)"
_MORNING: Final = r"a\.? ?m\.?|vorm\.|上午|凌晨|清晨|早上|早晨|午前|오전|ص"
_EVENING: Final = r"p\.? ?m\.?|nachm\.|下午|中午|傍晚|晚上|午後|오후|م"
_ENGLISH_HALF: Final = r"[ap]\.?m\.?"
_CLOCK: Final = (
    rf"(?:(?P<half_before>{_MORNING}|{_EVENING}) ?)?"
    r"(?P<hour>\d{1,2})[:.](?P<minute>\d\d)(?:[:.](?P<second>\d\d)(?:[.,]\d{1,9})?)?"
    rf"(?: ?(?P<half>{_MORNING}|{_EVENING}))?"
)
_AFTER: Final = rf"(?:[,،]?(?: |T)(?:um |at |klo )?{_CLOCK}(?: uhr)?)?"
_NUMBERS: Final = (
    r"(?P<first>\d{4}|\d{1,2})(?P<separator>[./-]) ?(?P<second_>\d{1,2})(?P=separator) ?(?P<third>\d{4}|\d{1,2})"
    rf"\.?{_AFTER}"
)
_EAST_ASIAN: Final = (
    r"(\d{4}) ?[年년] ?(\d{1,2}) ?[月월] ?(\d{1,2}) ?[日号號일](?: ?\(?(?:星期|礼拜|周|週)[一二三四五六日天]\)?)?"
)
_EAST_ASIAN_CLOCK: Final = r"(\d{1,2}) ?[时時点點시](?: ?(\d{1,2}) ?[分분])?"
_NAMED_MONTH: Final = (
    rf"(?:[^\W\d_]{{2,10}}\.?,? )?(?P<day>\d{{1,2}})\.? (?P<month>[^\W\d_]{{3,9}})\.?,? (?P<year>\d{{4}}){_AFTER}"
)
_MAIL: Final = r"(?:[A-Z][a-z]{2}, )?\d{1,2} [A-Z][a-z]{2} \d{4} \d\d:\d\d.{0,40}"
_MONTHS: Final = {
    name: number
    for number, names in enumerate(
        "jan feb mar|mär|mrz apr may|mai jun jul aug sep oct|okt nov dec|dez".split(), start=1
    )
    for name in names.split("|")
}
_LONG_MONTHS: Final = frozenset(
    """january february march april may june july august september october november december
    januar jänner februar märz april mai juni juli august september oktober november dezember sept""".split()
)
_DAYS: Final = 31
_MONTHS_OF_A_YEAR: Final = 12
_TWO_DIGITS: Final = 100
_LAST_CENTURY_FROM: Final = 70
"""Two digits of a year from here on are of the 20th century."""
_LONGEST: Final = 200
"""Characters that a time has at most."""
_NO_TIME: Final = frozenset(["", "none", "null", "nan", "nat", "n/a", "na", "-", "–", "—", "unknown", "keine", "keins"])


def datetime_of(seconds: float) -> datetime:
    """Return the time in UTC; a time that no calendar has becomes its first or last moment."""
    try:
        return datetime.fromtimestamp(seconds, UTC)
    except (ValueError, OverflowError, OSError):
        return (datetime.max if seconds > 0 else datetime.min).replace(tzinfo=UTC)


def day_of(seconds: float) -> str:
    """Return the local day of a time in seconds since the epoch, as `2026-06-02`; empty where no calendar has it."""
    try:
        return f"{datetime.fromtimestamp(seconds):%Y-%m-%d}"
    except (ValueError, OverflowError, OSError):
        # As with milliseconds in place of seconds: the text is shown without it.
        return ""


class DateOrder(StrEnum):
    """Order of the numbers of a date whose year comes last."""

    DMY = "dmy"
    MDY = "mdy"


@dataclass(frozen=True, slots=True)
class NumericDate:
    """A date of three numbers, and a time of the day."""

    numbers: tuple[int, int, int]
    """As they are written."""
    clock: tuple[int, int, int] = (0, 0, 0)
    is_day_first: bool = False
    """Whether it is written as only people do who put the day before the month."""

    def orders(self) -> frozenset[DateOrder]:
        """Return the orders in which it can be a date; both where they mean the same day."""
        first, second, _ = self.numbers
        if first > _DAYS or first == second:
            return frozenset(DateOrder)
        possible = {
            order
            for order, month in ((DateOrder.DMY, second), (DateOrder.MDY, first))
            if 1 <= month <= _MONTHS_OF_A_YEAR
        }
        is_day_first = self.is_day_first and DateOrder.DMY in possible
        return frozenset({DateOrder.DMY}) if is_day_first else frozenset(possible)

    def means_one_day(self) -> bool:
        """Whether both orders mean the same day."""
        return self.numbers[0] > _DAYS or self.numbers[0] == self.numbers[1]

    def time(self, order: DateOrder, zone: tzinfo | None = None) -> float:
        """Return the seconds since the epoch, the clock being that of a zone; None is the local one.

        Raises:
            ValueError: no calendar has the day, or no day the clock.
        """
        first, second, third = self.numbers
        if first > _DAYS:
            year, month, day = first, second, third
        else:
            day, month, year = (first, second, third) if order is DateOrder.DMY else (second, first, third)
        if year < _TWO_DIGITS:
            year += 1900 if year >= _LAST_CENTURY_FROM else 2000
        return _seconds(datetime(year, month, day, *self.clock), zone)


def numeric_date(text: str) -> NumericDate | None:
    """Return the date of three numbers that a text is, as `03/04/2025 10:30 PM`; None where it is something else."""
    plain = re.sub(_EAST_ASIAN_CLOCK, lambda found: f"{found[1]}:{int(found[2] or 0):02}", text)
    plain = " ".join(re.sub(_EAST_ASIAN, r"\1/\2/\3 ", plain).split())
    found = re.fullmatch(_NUMBERS, plain, re.IGNORECASE)
    if found is None:
        return None
    numbers = int(found["first"]), int(found["second_"]), int(found["third"])
    half = found["half_before"] or found["half"]
    is_local = half is not None and re.fullmatch(_ENGLISH_HALF, half, re.IGNORECASE) is None
    return NumericDate(numbers, _clock(found), is_local or found["separator"] == ".")


def is_clock(text: str) -> bool:
    """Whether a text is a time of the day alone, as `10:30`, `10:30 PM`, `10:30 Uhr` or `下午3:30`."""
    return re.fullmatch(rf"{_CLOCK}(?: uhr)?", text.strip(), re.IGNORECASE) is not None


def is_no_time(raw: object) -> bool:
    """Whether a value says that no time is known: nothing, `none`, `n/a`, `-` and the like."""
    return raw is None or (isinstance(raw, str) and raw.strip().lower() in _NO_TIME)


def time_key(raw: Mapping[str, Any]) -> str | None:
    """Return the key under which a record holds its time; None where it says none."""
    return next((key for key in TIME_KEYS if not is_no_time(raw.get(key))), None)


def parse_time(raw: object, order: DateOrder | None = None, *, zone: tzinfo | None = None) -> float:
    """Return the seconds since the epoch that a number, a `datetime`, a `date` or a text means; see `When`.

    Args:
        raw: the time.
        order: order of day and month in a date such as `03/04/2025`; None takes the one that is possible.
        zone: zone of a time that names none; None is the local one.

    Raises:
        AmbiguousDateError: both orders are possible.
        ValueError: it is not a time.
    """
    if isinstance(raw, float | int | Real) and not isinstance(raw, bool):
        return _from_number(raw)
    if isinstance(raw, date):
        return _seconds(raw if isinstance(raw, datetime) else datetime(raw.year, raw.month, raw.day), zone)
    if not isinstance(raw, str) or not raw.strip():
        raise ValueError(f"expected a time, found {raw!r:.60}")
    text = " ".join(re.sub(_WEEKDAY, " ", raw).split()) if len(raw) <= _LONGEST else ""
    if re.fullmatch(_NUMBER, text):
        return _from_number(float(text))
    if (found := _read(text, None)) is not None:
        return _seconds(found, zone)
    # Before the other forms, which take ten times as long to try.
    if (numbers := numeric_date(text)) is not None:
        return _time_of_numbers(numbers, text, order, zone)
    found = _named(text) or next((time for form in _FORMS if (time := _read(text, form))), None)
    if found is not None:
        return _seconds(found, zone)
    raise ValueError(f"not a time: {raw[:60]!r}; write it as 2023-05-08T13:56:00Z or in seconds since 1970")


def _from_number(raw: float | Real) -> float:
    """Return the seconds that a number of seconds or milliseconds means; raises `ValueError` for no such number."""
    try:
        number = float(raw)
    except OverflowError:
        number = math.inf
    seconds = number / 1000 if abs(number) >= _MILLISECONDS_FROM else number
    if not math.isfinite(seconds) or abs(seconds) >= _MILLISECONDS_FROM:
        raise ValueError(f"not a time in seconds or milliseconds since 1970: {number:g}")
    return seconds


def _seconds(time: datetime, zone: tzinfo | None) -> float:
    """Return the seconds since the epoch; raises `ValueError` for one of the first or last days of the calendar."""
    try:
        return (time if time.tzinfo else time.replace(tzinfo=zone)).timestamp()
    except (OverflowError, ValueError) as error:
        shown = time.replace(tzinfo=None).isoformat(sep=" ", timespec="minutes")
        raise ValueError(f"{shown} is too close to an end of the calendar, which has the years 1 to 9999") from error


def _time_of_numbers(date: NumericDate, text: str, order: DateOrder | None, zone: tzinfo | None) -> float:
    possible = date.orders()
    if len(possible) > 1 and not date.means_one_day() and order is None:
        raise AmbiguousDateError(
            f"not clear whether the day or the month comes first: {text[:60]!r}; write it as 2026-06-02"
        )
    try:
        return date.time(order or next(iter(sorted(possible)), DateOrder.DMY), zone)
    except ValueError as error:
        reason = f"not a time: {text!r} ({error})"
        raise (AmbiguousDateError if order and possible - {order} else ValueError)(reason) from error


def _read(text: str, form: str | None) -> datetime | None:
    """Read the text in one form, None being ISO 8601; None when it has another."""
    try:
        return datetime.fromisoformat(text) if form is None else datetime.strptime(text, form)
    except ValueError:
        return None


def _named(text: str) -> datetime | None:
    """Read a date whose month is a word, English or German, or the date of a mail."""
    if (found := re.fullmatch(_NAMED_MONTH, text, re.IGNORECASE)) is not None:
        name = found["month"].lower()
        month = _MONTHS.get(name[:3]) if len(name) == 3 or name in _LONG_MONTHS else None
        try:
            return datetime(int(found["year"]), month, int(found["day"]), *_clock(found)) if month else None
        except ValueError:
            return None
    if re.fullmatch(_MAIL, text) is None:
        return None
    from email.utils import parsedate_to_datetime

    try:
        return parsedate_to_datetime(text)
    except ValueError:
        return None


def _clock(found: re.Match[str]) -> tuple[int, int, int]:
    hour, minute, second = (int(found[name] or 0) for name in ("hour", "minute", "second"))
    if half := found["half_before"] or found["half"]:
        hour = hour % 12 + (12 if re.fullmatch(_EVENING, half, re.IGNORECASE) else 0)
    return hour, minute, second
