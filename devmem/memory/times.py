"""Points in time as callers write them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TypeAlias

from devmem.transfer.importing import parse_time

When: TypeAlias = datetime | float | str
"""A point in time: a `datetime` (a naive one is local time, as Python has it), seconds since the epoch, or text such as
`2026-06-02` or `2026-06-02T14:30:00Z` (UTC where it names no zone)."""


def seconds_of(when: When) -> float:
    """Return the seconds since the epoch, UTC.

    Raises:
        ValueError: it is no point in time.
    """
    return when.timestamp() if isinstance(when, datetime) else parse_time(when)


def expiry_of(expires_at: When | timedelta, now: float) -> float:
    """Return the seconds since the epoch at which something expires; a `timedelta` counts from `now`.

    Raises:
        ValueError: it is no point in time, or one that is past.
    """
    expiry = now + expires_at.total_seconds() if isinstance(expires_at, timedelta) else seconds_of(expires_at)
    if expiry <= now:
        raise ValueError(f"`expires_at` is {datetime_of(expiry).isoformat()}, which is past; forget the item instead")
    return expiry


def datetime_of(seconds: float) -> datetime:
    """Return the time in UTC; what no calendar has becomes its first or last moment."""
    try:
        return datetime.fromtimestamp(seconds, UTC)
    except (ValueError, OverflowError, OSError):
        return (datetime.max if seconds > 0 else datetime.min).replace(tzinfo=UTC)
