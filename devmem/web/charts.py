"""Bars of scores as plain data for the templates, which write them as SVG."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from devmem.model.results import Hit
    from devmem.storage.recall_log import RecallEntry

WIDTH: Final = 600
"""Units of a drawing's width; the page scales it."""
_COLOURS: Final = 8
"""Number of colours of the parts of a score; see the style sheet."""


LABELS: Final = {
    "match": "meaning and words",
    "lexical": "same words",
    "window": "lines around it",
    "answered": "its answer",
    "conversation": "its conversation",
    "speaker": "who speaks",
    "has_time": "names a time",
    "names": "names somebody",
    "second_person": "speaks to somebody",
    "is_question": "asks itself",
    "in_time": "in the time asked for",
    "standing": "a lasting wish",
    "restated": "the answer repeats it",
    "opening": "begins an answer",
    "same_event": "the same event",
    "latest": "the latest",
    "meaning": "meaning",
    "recency": "recent",
    "importance": "important",
    "score": "score",
}
"""The parts of a score in words of people."""


@dataclass(frozen=True, slots=True)
class BarSegment:
    """A part of a bar."""

    name: str
    value: float
    x: float
    width: float
    colour: int

    @property
    def label(self) -> str:
        """The name of the part for people."""
        return LABELS.get(self.name, self.name)


def score_bars(scored: Iterable[Hit | RecallEntry]) -> list[list[BarSegment]]:
    """Return the bar of each hit or entry, whose parts are the contributions to its score.

    All of them have one scale. Parts below zero are drawn to the left of the others' end, as they are taken off.
    """
    every = [one.parts or {"score": one.score} for one in scored]
    most = max((sum(value for value in parts.values() if value > 0) for parts in every), default=0.0)
    scale = WIDTH / most if most > 0 else 0.0
    return [_bar(parts, scale) for parts in every]


def _bar(parts: Mapping[str, float], scale: float) -> list[BarSegment]:
    x = 0.0
    bar: list[BarSegment] = []
    for at, (name, value) in enumerate(sorted(parts.items(), key=lambda part: -part[1])):
        width = abs(value) * scale
        start = x if value >= 0 else max(x - width, 0.0)
        if width > 0:
            bar.append(BarSegment(name, value, round(start, 1), round(max(width, 0.5), 1), at % _COLOURS))
        x += value * scale
    return bar
