"""Configuration of the `blackboard` store type."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from devmem.stores import PlaceConfig


class BlackboardConfig(PlaceConfig):
    """Configuration of a `blackboard` store."""

    memory_path: str | None = "auto"
    """Where the entries live: a path (SQLite, or DevAll's format when it ends in `.json`), `auto` for a file of the
    session, null for this process only."""
    max_items: int = Field(default=1000, ge=1)
    """Entries to keep; the oldest go first."""
    max_age: float | None = Field(default=None, gt=0)
    """Seconds that an entry stays on the board; absent means until `max_items` pushes it out."""
    order: Literal["newest", "chronological"] = "newest"
    """Order of the entries: the newest first, or as they happened."""
