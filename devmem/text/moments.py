"""Points in time as people write them: `2026-06-02`, `2.6.2026 14:30`, `yesterday`, `in 30 days`, `P30D`, `上周一`.

A time that names no zone is in the local one, and times are shown in it.
"""

from __future__ import annotations

import re
import time
from datetime import UTC, datetime, timedelta
from typing import Final

from devmem.errors import AmbiguousDateError
from devmem.model.times import When, parse_time
from devmem.text.durations import parse_duration
from devmem.text.patterns import lazy_pattern
from devmem.text.times import EARLIEST, AskedAt, period_of, without_times

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


def parse_moment(raw: When, *, now: float | None = None, ahead: bool = False) -> float:
    """Return the seconds since the epoch of a point in time; a day or a longer time means its beginning.

    Args:
        raw: a time as `parse_time` reads it, or text that is relative to now, as `yesterday` or `in 30 days`.
        now: what relative times count from; None takes the clock.
        ahead: whether a duration alone, as `P30D`, lies ahead, as for an expiry, instead of behind.

    Raises:
        ValueError: it is not a point in time; the message lists the forms.
    """
    try:
        return parse_time(raw)
    except AmbiguousDateError:
        raise
    except ValueError:
        if not isinstance(raw, str):
            raise
    text = " ".join(raw.split())
    current = time.time() if now is None else now
    for read in (_of_day, lambda text, now: _of_span(text, now, ahead=ahead), _of_words):
        try:
            found = read(text, current)
        except (ValueError, OverflowError, OSError):
            continue
        if found is not None:
            return found
    raise ValueError(f"not a time: {raw[:60]!r}; write it as one of {_FORMS}")


def _of_day(text: str, now: float) -> float | None:
    if text.lower() in ("now", "现在"):
        return now
    found = _DAY.fullmatch(text)
    if found is None:
        return None
    hour, minute, second = (int(found[name] or 0) for name in ("hour", "minute", "second"))
    day = _midnight(now) + timedelta(days=_RELATIVE_DAYS[found["day"].lower()])
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


def asker_time(when: When) -> AskedAt:
    """Return the time of a question, with the asker's zone where it names one.

    Raises:
        ValueError: it is not a point in time; see `parse_moment`.
    """
    if isinstance(when, datetime):
        return when
    seconds = parse_moment(when)
    try:
        zoned = datetime.fromisoformat(" ".join(str(when).split()))
    except ValueError:
        return seconds
    return zoned if zoned.timestamp() == seconds else seconds
