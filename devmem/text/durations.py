"""Durations as people write them: `30d`, `12h`, `1h 30m`, `2 weeks`, `P30D`, or a number of seconds."""

from __future__ import annotations

import re
from datetime import timedelta
from typing import Final

from pydantic import TypeAdapter, ValidationError

from devmem.text.patterns import lazy_pattern

_SECONDS: Final = {"s": 1.0, "m": 60.0, "h": 3_600.0, "d": 86_400.0, "w": 604_800.0}
_UNITS: Final = {
    "s": ("s", "sec", "secs", "second", "seconds"),
    "m": ("m", "min", "mins", "minute", "minutes"),
    "h": ("h", "hr", "hrs", "hour", "hours"),
    "d": ("d", "day", "days"),
    "w": ("w", "week", "weeks"),
}
_UNIT_OF: Final = {name: unit for unit, names in _UNITS.items() for name in names}
_PART: Final = lazy_pattern(r"(?P<number>\d+(?:\.\d+)?)\s*(?P<unit>[a-z]+)\s*", re.IGNORECASE | re.ASCII)
_ISO_DATE: Final = lazy_pattern(r"P[^T]*[YM]")
_LONGEST: Final = 36_525 * 86_400.0
"""A century: a longer one is a mistake in the unit."""


def parse_duration(raw: object) -> float:
    """Return the seconds that a number, a `timedelta` or a text such as `30d`, `1h 30m` or ISO 8601's `P30D` means.

    Raises:
        ValueError: it is no duration, is not above 0, or is longer than a century; the message leaves the value out.
    """
    seconds = _seconds(raw)
    if not seconds > 0:  # nor is NaN
        raise ValueError("expected a duration above 0")
    if seconds > _LONGEST:
        raise ValueError("expected a duration of at most a century, where a number counts seconds")
    return float(seconds)


def _seconds(raw: object) -> float:
    if isinstance(raw, timedelta):
        return raw.total_seconds()
    if isinstance(raw, int | float) and not isinstance(raw, bool):
        # An integer of hundreds of digits is no float.
        return raw
    if not isinstance(raw, str) or not raw.strip():
        raise _refusal()
    text = raw.strip()
    if text[0] in "Pp":
        return _of_iso(text.upper())
    if "_" in text:
        raise _refusal()
    try:
        return float(text)
    except ValueError:
        return _of_parts(text)


def _of_parts(text: str) -> float:
    at, total = 0, 0.0
    while at < len(text):
        found = _PART.match(text, at)
        if found and found["unit"] == "M":
            raise ValueError("expected a duration without a capital M: 30m are minutes, and months are counted in days")
        unit = _UNIT_OF.get(found["unit"].lower()) if found else None
        if found is None or unit is None:
            raise _refusal()
        total += float(found["number"]) * _SECONDS[unit]
        at = found.end()
    return total


def _of_iso(text: str) -> float:
    if _ISO_DATE.match(text):
        raise ValueError("expected a duration without months and years, which have no fixed length: P30D, or PT30M")
    try:
        return TypeAdapter(timedelta).validate_python(text).total_seconds()
    except ValidationError:
        raise _refusal() from None


def _refusal() -> ValueError:
    return ValueError("expected a duration such as 30d, 12h, 45m, 1h 30m or a number of seconds")
