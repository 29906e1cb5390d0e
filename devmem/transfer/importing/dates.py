"""Times as data files write them: ISO 8601, `03/04/2025 10:30`, `3. April 2025`, `Tue, 1 Apr 2025 10:00:00 +0200`."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import datetime
from email.utils import parsedate_to_datetime
from enum import StrEnum
from typing import Final

from devmem.text.moments import from_number

_FORMS: Final = (
    "%I:%M %p on %d %B, %Y",  # 1:56 pm on 8 May, 2023
    "%B-%d-%Y",  # March-15-2024
    "%B %d, %Y",
)
_WEEKDAY: Final = re.compile(r"\s*\((?:Mon|Tue|Wed|Thu|Fri|Sat|Sun)\w*\)")
_CLOCK: Final = r"(?P<hour>\d{1,2}):(?P<minute>\d\d)(?::(?P<second>\d\d)(?:[.,]\d{1,9})?)?(?: ?(?P<half>[ap])\.?m\.?)?"
_AFTER: Final = rf"(?:,?(?: |T)(?:um )?{_CLOCK}(?: uhr)?)?"
_NUMBERS: Final = re.compile(
    rf"(?P<first>\d{{4}}|\d{{1,2}})(?P<separator>[./-])(?P<second_>\d{{1,2}})(?P=separator)(?P<third>\d{{4}}|\d{{1,2}})"
    rf"{_AFTER}",
    re.IGNORECASE,
)
_NAMED_MONTH: Final = re.compile(
    rf"(?:[^\W\d_]{{2,10}}\.?,? )?(?P<day>\d{{1,2}})\.? (?P<month>[^\W\d_]{{3,9}})\.?,? (?P<year>\d{{4}}){_AFTER}",
    re.IGNORECASE,
)
_MAIL: Final = re.compile(r"(?:[A-Z][a-z]{2}, )?\d{1,2} [A-Z][a-z]{2} \d{4} \d\d:\d\d.{0,40}")
_ONLY_CLOCK: Final = re.compile(rf"{_CLOCK}(?: uhr)?", re.IGNORECASE)
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


class DateOrder(StrEnum):
    """Order of the numbers of a date whose year comes last."""

    DMY = "dmy"
    MDY = "mdy"


class AmbiguousDateError(ValueError):
    """Day and month of a date cannot be told apart."""

    def __init__(self, raw: str) -> None:
        super().__init__(
            f"day and month of {raw[:40]!r} cannot be told apart: say which comes first, by `--dates dmy` or "
            "`--dates mdy`"
        )


@dataclass(frozen=True, slots=True)
class NumericDate:
    """A date of three numbers, and a time of the day."""

    numbers: tuple[int, int, int]
    """As they are written."""
    clock: tuple[int, int, int] = (0, 0, 0)
    separator: str = "/"

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
        # With periods the day comes first wherever people write dates so.
        is_dotted = self.separator == "." and DateOrder.DMY in possible
        return frozenset({DateOrder.DMY}) if is_dotted else frozenset(possible)

    def means_one_day(self) -> bool:
        """Whether both orders mean the same day."""
        return self.numbers[0] > _DAYS or self.numbers[0] == self.numbers[1]

    def time(self, order: DateOrder) -> float:
        """Return the seconds since the epoch, the clock being a local one.

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
        return _seconds(datetime(year, month, day, *self.clock))


def numeric_date(text: str) -> NumericDate | None:
    """Return the date of three numbers that a text is, as `03/04/2025 10:30 PM`; None where it is something else."""
    found = _NUMBERS.fullmatch(" ".join(text.split()))
    if found is None:
        return None
    numbers = int(found["first"]), int(found["second_"]), int(found["third"])
    return NumericDate(numbers, _clock(found), found["separator"])


def is_clock(text: str) -> bool:
    """Whether a text is a time of the day alone, as `10:30`, `10:30 PM` or `10:30 Uhr`."""
    return _ONLY_CLOCK.fullmatch(text.strip()) is not None


def is_no_time(raw: object) -> bool:
    """Whether a value says that no time is known: nothing, `none`, `n/a`, `-` and the like."""
    return raw is None or (isinstance(raw, str) and raw.strip().lower() in _NO_TIME)


def parse_time(raw: object, order: DateOrder | None = None) -> float:
    """Return the seconds since the epoch that a number or a text means; a time without a zone is of the local one.

    Args:
        raw: the number or the text.
        order: order of day and month in a date such as `03/04/2025`; None takes the one that is possible.

    Raises:
        AmbiguousDateError: both orders are possible.
        ValueError: it is not a time.
    """
    if isinstance(raw, (int, float)) and not isinstance(raw, bool):
        return from_number(raw)
    if not isinstance(raw, str) or not raw.strip():
        raise ValueError(f"expected a time, found {raw!r}")
    text = " ".join(_WEEKDAY.sub(" ", raw).split()) if len(raw) <= _LONGEST else ""
    if (found := _read(text, None)) is not None:
        return _seconds(found)
    # Before the other forms, which take ten times as long to try.
    if (date := numeric_date(text)) is not None:
        return _time_of_numbers(date, text, order)
    found = _named(text) or next((time for form in _FORMS if (time := _read(text, form))), None)
    if found is not None:
        return _seconds(found)
    raise ValueError(f"not a time: {raw[:60]!r}; write it as 2023-05-08T13:56:00Z or in seconds since 1970")


def _seconds(time: datetime) -> float:
    """Return the seconds since the epoch; a time without a zone is one of the local clock.

    Raises:
        ValueError: it is one of the first or last days that a calendar has.
    """
    try:
        return time.timestamp()
    except (OverflowError, ValueError) as error:
        shown = time.replace(tzinfo=None).isoformat(sep=" ", timespec="minutes")
        raise ValueError(f"{shown} is too close to an end of the calendar, which has the years 1 to 9999") from error


def _time_of_numbers(date: NumericDate, text: str, order: DateOrder | None) -> float:
    possible = date.orders()
    if len(possible) > 1 and not date.means_one_day() and order is None:
        raise AmbiguousDateError(text)
    try:
        return date.time(order or next(iter(sorted(possible)), DateOrder.DMY))
    except ValueError as error:
        hint = f"; is `--dates {order}` right?" if order else ""
        raise ValueError(f"not a time: {text!r} ({error}){hint}") from error


def _read(text: str, form: str | None) -> datetime | None:
    """Read the text in one form, None being ISO 8601; None when it has another."""
    try:
        return datetime.fromisoformat(text) if form is None else datetime.strptime(text, form)
    except ValueError:
        return None


def _named(text: str) -> datetime | None:
    """Read a date whose month is a word, English or German, or the date of a mail."""
    if (found := _NAMED_MONTH.fullmatch(text)) is not None:
        name = found["month"].lower()
        month = _MONTHS.get(name[:3]) if len(name) == 3 or name in _LONG_MONTHS else None
        try:
            return datetime(int(found["year"]), month, int(found["day"]), *_clock(found)) if month else None
        except ValueError:
            return None
    if _MAIL.fullmatch(text) is None:
        return None
    try:
        return parsedate_to_datetime(text)
    except ValueError:
        return None


def _clock(found: re.Match[str]) -> tuple[int, int, int]:
    hour, minute, second = (int(found[name] or 0) for name in ("hour", "minute", "second"))
    if found["half"]:
        hour = hour % 12 + (12 if found["half"] in "pP" else 0)
    return hour, minute, second
