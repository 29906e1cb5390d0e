"""Drawings as plain data for the templates, which write them as SVG: bars of scores, counts, sequence diagrams."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from devmem.text.analysis import shorten
from devmem.views.diagrams import Transfer, participants_of

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


def score_bar(parts: Mapping[str, float], most: float) -> list[BarSegment]:
    """Return the bar of a hit, whose parts are the contributions to its score.

    Args:
        parts: contributions by name; those below zero are drawn to the left of the others' end, as they are taken off.
        most: the largest sum of positive parts among the bars beside it.
    """
    scale = WIDTH / most if most > 0 else 0.0
    x = 0.0
    bar: list[BarSegment] = []
    for at, (name, value) in enumerate(sorted(parts.items(), key=lambda part: -part[1])):
        width = abs(value) * scale
        start = x if value >= 0 else max(x - width, 0.0)
        if width > 0:
            bar.append(BarSegment(name, value, round(start, 1), round(max(width, 0.5), 1), at % _COLOURS))
        x += value * scale
    return bar


def longest_bar(all_parts: Sequence[Mapping[str, float]]) -> float:
    """Return the largest sum of positive parts."""
    return max((sum(value for value in parts.values() if value > 0) for parts in all_parts), default=0.0)


@dataclass(frozen=True, slots=True)
class Column:
    """A bar of a chart of counts."""

    x: float
    height: float
    label: str
    count: int


_COLUMNS_WIDTH: Final = 112
COLUMNS_HEIGHT: Final = 24
"""Units of the height of a chart of counts, whose width is 112."""


def columns(counts: Sequence[tuple[str, int]]) -> list[Column]:
    """Return labelled counts as upright bars side by side; the largest is as high as the chart."""
    most = max((count for _, count in counts), default=0)
    wide = _COLUMNS_WIDTH / max(len(counts), 1)
    return [
        Column(round(at * wide, 1), round(max(count / most * COLUMNS_HEIGHT, 2), 1) if count else 0, label, count)
        for at, (label, count) in enumerate(counts)
    ]


@dataclass(frozen=True, slots=True)
class Arrow:
    """A message of a sequence diagram."""

    y: int
    start: int
    end: int
    label: str
    item: str
    time: float

    @property
    def is_own(self) -> bool:
        """Whether the sender sent it to itself."""
        return self.start == self.end


@dataclass(frozen=True, slots=True)
class SequenceDiagram:
    """A sequence diagram."""

    width: int
    height: int
    names: list[tuple[int, str]] = field(default_factory=list)
    """Participants with the places of their lines."""
    arrows: list[Arrow] = field(default_factory=list)


_COLUMN: Final = 220
_ROW: Final = 44
_HEAD: Final = 48
_LABEL: Final = 36


def sequence_diagram(transfers: Sequence[Transfer]) -> SequenceDiagram:
    """Return the diagram of messages, in their order."""
    names = participants_of(transfers)
    places = {name: _COLUMN // 2 + at * _COLUMN for at, name in enumerate(names)}
    arrows = [
        Arrow(
            _HEAD + 30 + at * _ROW,
            places[one.sender],
            places[one.receiver],
            shorten(" ".join(one.text.split()), _LABEL),
            one.item_id,
            one.time,
        )
        for at, one in enumerate(transfers)
    ]
    return SequenceDiagram(
        width=max(len(names), 1) * _COLUMN,
        height=_HEAD + 30 + len(arrows) * _ROW,
        names=[(place, shorten(name, 22)) for name, place in places.items()],
        arrows=arrows,
    )
