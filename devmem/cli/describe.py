"""Times, signals and outcomes as a person reads them."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Final

from devmem.model.items import MemoryItem
from devmem.model.results import WriteOutcome, WriteStatus
from devmem.text.relations import EARLIEST, LATEST

_NEGLIGIBLE: Final = 0.0005
"""A contribution that is zero in the three digits that are shown."""


def date_text(seconds: float | None) -> str:
    """Return a time (seconds since the epoch) as date and time in UTC; empty for None."""
    if seconds is None:
        return ""
    try:
        return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M")
    except (OverflowError, OSError, ValueError):  # outside of the years that a date can have
        return f"{seconds:g}"


def period_text(start: float, end: float) -> str:
    """Return a period (seconds since the epoch), which may be open at one end, in words."""
    if start <= EARLIEST.timestamp():
        return f"what was before {date_text(end)}"
    return f"{date_text(start)} and later" if end >= LATEST.timestamp() else f"{date_text(start)} to {date_text(end)}"


def item_date(item: MemoryItem) -> str:
    """Return the date of the event that an item reports, or else the date when it was stored."""
    return date_text(item.created_at if item.event_time is None else item.event_time)


def number(value: float | None) -> str:
    """Return a signal with three digits; empty when it does not apply."""
    return "" if value is None else f"{value:.3f}"


def contributions(parts: Mapping[str, float]) -> str:
    """Return the contributions to a score, the largest first; negligible ones are left out."""
    ordered = sorted(parts.items(), key=lambda part: -abs(part[1]))
    return ", ".join(f"{name} {value:+.3f}" for name, value in ordered if abs(value) >= _NEGLIGIBLE)


def outcome_text(outcome: WriteOutcome) -> str:
    """Return what became of one write, with the item's id and the reason where there is one."""
    reason = f" ({outcome.reason})" if outcome.reason else ""
    named = f" {outcome.item_id}" if outcome.item_id and outcome.status is not WriteStatus.SKIPPED else ""
    return f"{outcome.status.value}{named}{reason}"


def items_text(count: int) -> str:
    """Return a number of items in words: `1 item`, `2 items`."""
    return "1 item" if count == 1 else f"{count:,} items"


def size_text(size: int) -> str:
    """Return a size in bytes with a unit that fits it."""
    return f"{size} B" if size < 1000 else f"{size / 1000:,.1f} kB" if size < 1_000_000 else f"{size / 1e6:,.1f} MB"
