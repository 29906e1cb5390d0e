"""Facts that a place holds about the store in it, known without opening it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreFacts:
    """Which store a place belongs to."""

    store_type: str | None
    model: str | None
    """Name of the model that made its vectors; None when there are none yet."""
