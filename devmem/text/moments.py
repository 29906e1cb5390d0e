"""Points in time as people write them: `2026-06-02`, `2.6.2026 14:30`, `yesterday`, `in 30 days`, `P30D`, `上周一`.

A time that names no zone is in the local one, and times are shown in it.
"""

from __future__ import annotations

import math
import re
import time
from datetime import UTC, datetime, timedelta
from typing import Final

from devmem.text.durations import parse_duration
from devmem.text.patterns import lazy_pattern
from devmem.text.times import EARLIEST, AskedAt, period_of, without_times

_MILLISECONDS_FROM: Final = 1e11
"""A number this large (the year 5138 in seconds) counts milliseconds."""
_NUMBER: Final = re.compile(r"(?!\d{8}$)\d+(\.\d+)?")
"""Seconds since 1970; eight digits are a date, as in ISO 8601."""
_CLOCK: Final = r"(?:(?:\s+(?:at\s+)?|T)(?P<hour>\d{1,2}):(?P<minute>\d\d)(?::(?P<second>\d\d))?)?"
_RELATIVE_DAYS: Final = {
    "today": 0,
    "yesterday": -1,
    "tomorrow": 1,
    "今天": 0,
    "昨天": -1,
    "明天": 1,
    "前天": -2,
    "后天": 2,
}
_DAY: Final = lazy_pattern(rf"(?P<day>{'|'.join(_RELATIVE_DAYS)}){_CLOCK}", re.IGNORECASE)
_DATED: Final = lazy_pattern(
    rf"(?:(?P<d>\d{{1,2}})\.\s?(?P<m>\d{{1,2}})\.\s?(?P<y>\d{{4}})|(?P<y2>\d{{4}})[/年](?P<m2>\d{{1,2}})[/月](?P<d2>\d{{1,2}})日?)"
    rf"{_CLOCK}"
)
_SLASHES: Final = lazy_pattern(r"\d{1,2}/\d{1,2}/\d{4}\b.*")
_AHEAD: Final = lazy_pattern(r"in\s+(?P<span>.+)|(?P<after>.+?)\s*(?:from now|以后|之后|后)", re.IGNORECASE)
_AGO: Final = lazy_pattern(r"(?P<span>.+?)\s*(?:ago|以前|之前|前)", re.IGNORECASE)
_DURATION: Final = lazy_pattern(r"P[T\d]|\d+(?:\.\d+)?\s*[a-z]", re.IGNORECASE)
_FORMS: Final = "2026-06-02, 2026-06-02T14:30, 2.6.2026, today, yesterday 14:30, 3 days ago, in 30 days, P30D"


def local(seconds: float) -> datetime:
    """Return a time (seconds since the epoch) in the local zone.

    Raises:
        ValueError, OverflowError, OSError: no calendar has it.
    """
    return datetime.fromtimestamp(seconds, UTC).astimezone()


def zone_name(seconds: float | None = None) -> str:
    """Return the name of the local zone, as `UTC` or `CEST`: at a time, or now."""
    return local(time.time() if seconds is None else seconds).tzname() or "local"


def from_number(raw: float) -> float:
    """Return the seconds since the epoch that a number of seconds or milliseconds means.

    Raises:
        ValueError: no calendar has it.
    """
    seconds = raw / 1000 if abs(raw) >= _MILLISECONDS_FROM else float(raw)
    if not math.isfinite(seconds) or abs(seconds) >= _MILLISECONDS_FROM:
        raise ValueError(f"not a time in seconds since 1970: {raw}")
    return seconds


def parse_moment(raw: float | str, *, now: float | None = None, ahead: bool = False) -> float:
    """Return the seconds since the epoch of a point in time; a day or a longer time means its beginning.

    Args:
        raw: a number of seconds, or text.
        now: what relative times count from; None takes the clock.
        ahead: whether a duration alone, as `P30D`, lies ahead, as for an expiry, instead of behind.

    Raises:
        ValueError: it is not a point in time; the message lists the forms.
    """
    if not isinstance(raw, str):
        return from_number(raw)
    text = " ".join(raw.split())
    current = time.time() if now is None else now
    for read in (_of_number, _of_iso, _of_date, _of_day, lambda text, now: _of_span(text, now, ahead=ahead), _of_words):
        try:
            found = read(text, current)
        except (ValueError, OverflowError, OSError):
            continue
        if found is not None:
            return found
    if _SLASHES.fullmatch(text):
        raise ValueError(f"not clear whether the day or the month comes first: {text[:60]!r}; write it as 2026-06-02")
    raise ValueError(f"not a time: {raw[:60]!r}; write it as one of {_FORMS}")


def _of_number(text: str, _now: float) -> float | None:
    return from_number(float(text)) if _NUMBER.fullmatch(text) else None


def _of_iso(text: str, _now: float) -> float | None:
    return datetime.fromisoformat(text).timestamp()


def _of_date(text: str, _now: float) -> float | None:
    found = _DATED.fullmatch(text)
    if found is None:
        return None
    year, month, day = (int(found[name] or found[f"{name}2"]) for name in "ymd")
    return _at(datetime(year, month, day), found)


def _of_day(text: str, now: float) -> float | None:
    if text.lower() in ("now", "现在"):
        return now
    found = _DAY.fullmatch(text)
    return None if found is None else _at(_midnight(now) + timedelta(days=_RELATIVE_DAYS[found["day"].lower()]), found)


def _at(day: datetime, clock: re.Match[str]) -> float:
    hour, minute, second = (int(clock[name] or 0) for name in ("hour", "minute", "second"))
    return day.replace(hour=hour, minute=minute, second=second).timestamp()


def _midnight(now: float) -> datetime:
    """Return the beginning of the local day, without a zone."""
    return datetime.fromtimestamp(now).replace(hour=0, minute=0, second=0, microsecond=0)


def _of_span(text: str, now: float, *, ahead: bool) -> float | None:
    """Read a duration: alone, ahead of now, or before it."""
    if found := _AHEAD.fullmatch(text):
        return now + parse_duration(_spelled(found["span"] or found["after"]))
    if found := _AGO.fullmatch(text):
        return now - parse_duration(_spelled(found["span"]))
    if _DURATION.match(text):
        return now + parse_duration(text) * (1 if ahead else -1)
    return None


_CHINESE_UNITS: Final = {"天": "d", "周": "w", "小时": "h", "分钟": "m", "秒": "s"}


def _spelled(text: str) -> str:
    """Return a duration with its number in digits and its unit in English: `a week` is `1 week`, `3天` is `3d`."""
    text = re.sub(r"^an?\s", "1 ", text, flags=re.IGNORECASE)
    for word, unit in _CHINESE_UNITS.items():
        text = text.replace(word, unit)
    return text


def _of_words(text: str, now: float) -> float | None:
    """Read a period in words, such as `last Monday`, `May 2023` or `上周`, that is all of the text."""
    if _AHEAD.fullmatch(text):
        return None
    for before in ("", "in", "on"):
        said = f"{before} {text}"
        if without_times(said, now) == before and (found := period_of(said, now)):
            return found.start if found.start > EARLIEST.timestamp() else None
    return None


def asker_time(when: AskedAt | str) -> AskedAt:
    """Return the time of a question, with the asker's zone where it names one.

    Raises:
        ValueError: it is not a point in time; see `parse_moment`.
    """
    if isinstance(when, datetime):
        return when
    try:
        seconds = parse_moment(when)
    except OverflowError:
        raise ValueError("not a time: the number is too large for seconds since 1970") from None
    try:
        zoned = datetime.fromisoformat(" ".join(str(when).split()))
    except ValueError:
        return seconds
    return zoned if zoned.timestamp() == seconds else seconds
