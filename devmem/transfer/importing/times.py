"""Formats in which data files write a time."""

from __future__ import annotations

import math
import re
from datetime import UTC, datetime
from typing import Final

_FORMS: Final = (
    "%I:%M %p on %d %B, %Y",  # LoCoMo: 1:56 pm on 8 May, 2023
    "%B-%d-%Y",  # BEAM: March-15-2024
    "%d.%m.%Y, %H:%M:%S",  # chats of telephones: 29.12.2023, 22:42:04
    "%Y/%m/%d %H:%M",  # LongMemEval: 2023/05/20 (Sat) 02:21
    "%Y/%m/%d",
    "%d %B %Y",
    "%d %B, %Y",
    "%B %d, %Y",
)
_WEEKDAY: Final = re.compile(r"\s*\((?:Mon|Tue|Wed|Thu|Fri|Sat|Sun)\w*\)")
_MILLISECONDS_FROM: Final = 1e11
"""A number this large (the year 5138 in seconds) counts milliseconds."""


def parse_time(raw: object) -> float:
    """Return the seconds since the epoch that a number or a text means; a time without a zone is UTC.

    Raises:
        ValueError: it is no time.
    """
    if isinstance(raw, (int, float)) and not isinstance(raw, bool):
        return _from_number(raw)
    if not isinstance(raw, str) or not raw.strip():
        raise ValueError(f"expected a time, found {raw!r}")
    text = " ".join(_WEEKDAY.sub(" ", raw).split())
    found = next((time for form in (None, *_FORMS) if (time := _read(text, form))), None)
    if found is not None:
        return (found if found.tzinfo else found.replace(tzinfo=UTC)).timestamp()
    raise ValueError(f"{raw[:60]!r} is no time; write it as 2023-05-08T13:56:00Z or in seconds since 1970")


def _from_number(raw: float) -> float:
    seconds = raw / 1000 if abs(raw) >= _MILLISECONDS_FROM else float(raw)
    if not math.isfinite(seconds) or abs(seconds) >= _MILLISECONDS_FROM:
        raise ValueError(f"{raw} is no time in seconds since 1970")
    return seconds


def _read(text: str, form: str | None) -> datetime | None:
    """Read the text in one form, None being ISO 8601; None when it has another."""
    try:
        return datetime.fromisoformat(text) if form is None else datetime.strptime(text, form).replace(tzinfo=UTC)
    except ValueError:
        return None
