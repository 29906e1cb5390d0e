"""Recorded times, and how long versions are kept: shared by the databases that keep versions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from devmem.model.items import MemoryItem, SourceKind
from devmem.model.versions import Operation

MICROSECONDS: Final = 1_000_000
"""Units of a recorded time in a second."""
_DAY: Final = 86_400.0


@dataclass(frozen=True, slots=True, kw_only=True)
class HistoryLimit:
    """How long versions are kept after another one took their place."""

    days: float | None
    """None keeps them for good, 0 keeps none."""

    @property
    def keeps(self) -> bool:
        """Whether any are kept."""
        return self.days is None or self.days > 0

    def oldest(self, now: float) -> int | None:
        """Return the recorded time before which versions must have ended to be removed; None removes none.

        `now` is in seconds since the epoch.
        """
        return None if self.days is None else recorded(now - self.days * _DAY)

    def keeps_since(self, at: int, now: float) -> bool:
        """Whether every version that ended at a recorded time, or later, is still kept at `now`."""
        oldest = self.oldest(now)
        return self.keeps and (oldest is None or at >= oldest)


@dataclass(frozen=True, slots=True, kw_only=True)
class Ending:
    """The change that ends versions, without when it happens."""

    operation: Operation
    run: str | None = None
    actor: str | None = None
    """Who makes it, as far as it is known."""


def author_of(item: MemoryItem) -> str | None:
    """Return who wrote an item, as far as it says so itself; the name of a file or an import is nobody's."""
    is_place = item.provenance.kind in (SourceKind.FILE, SourceKind.IMPORT)
    return (None if is_place else item.provenance.name) or item.scope.agent


def recorded(seconds: float) -> int:
    """Return a time in seconds since the epoch as a database records it."""
    return round(seconds * MICROSECONDS)


def seconds(time: int) -> float:
    """Return a recorded time in seconds since the epoch."""
    return time / MICROSECONDS
