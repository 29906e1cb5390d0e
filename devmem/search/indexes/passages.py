"""The text of an item that is searched: its passages, each found by itself, and the day of its event."""

from __future__ import annotations

import copy
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, ClassVar, Final, Self

import numpy as np
from numpy.typing import NDArray

from devmem.model.fields import field_texts
from devmem.model.items import MemoryItem, SourceKind
from devmem.model.record_fields import words_of
from devmem.search.indexes.columns import Rows, places_in_distinct, ranges, rows_mask, with_room
from devmem.text.analysis import split_passages
from devmem.text.patterns import lazy_pattern

_ROLE: Final = lazy_pattern(r"^\((?:system|user|assistant|tool)\) ", re.MULTILINE)
"""The label that `MemoryContentSnapshot.from_messages` puts before a message."""
_MONTHS: Final = (
    *("January", "February", "March", "April", "May", "June"),
    *("July", "August", "September", "October", "November", "December"),
)
"""Not `%B`, which depends on the locale that the application has set."""
_PARAGRAPH: Final = lazy_pattern(r"\n\s*\n")
_BLANK_LINE: Final = "\n\n"


@dataclass(frozen=True, slots=True)
class Passage:
    """A part of an item's text that is found by itself."""

    text: str
    field: str | None = None
    """Path of the indexed field that it is of; None for the item's own text."""


def has_text(item: MemoryItem) -> bool:
    """Whether there is anything to embed: a summary, or a text in an indexed field."""
    return bool(item.content_summary.strip()) or bool(field_texts(item))


def passages_of(item: MemoryItem) -> list[str]:
    """Return the texts of the passages of an item, in order; none when it has no text."""
    return [passage.text for passage in named_passages(item)]


def named_passages(item: MemoryItem) -> list[Passage]:
    """Split all text of an item into passages: its own text first, then that of each indexed field.

    Its own text leaves out the text of fields, paragraphs of a snapshot that the summary or an earlier snapshot has,
    a summary that is only the start of a snapshot, and the name of the source.
    """
    fields = field_texts(item) if item.indexed_fields else []
    parts = _own_parts(item)
    if fields:
        parts = _without(parts, [each.text for each in fields])
    own = [Passage(text) for text in split_passages(_BLANK_LINE.join(parts))]
    return own + [Passage(text, each.path) for each in fields for text in split_passages(each.text)]


def _own_parts(item: MemoryItem) -> list[str]:
    """Return the summary and the paragraphs of the snapshots, without repetitions."""
    summary = item.content_summary.strip()
    shots = [shot.text for shot in (item.input_snapshot, item.output_snapshot) if shot]
    texts = [_ROLE.sub("", text).strip() for text in shots if text != item.provenance.name]
    if any(_starts_with(text, summary) for text in texts):
        summary = ""
    said = [summary]
    own = frozenset(_paragraphs(summary))
    for text in texts:
        known = own.union(said)
        said += [part for part in _paragraphs(text) if part not in known and not _holds(summary, part)]
    return [part for part in said if part]


def _without(parts: Sequence[str], fields: Sequence[str]) -> list[str]:
    """Return the paragraphs of texts that no field holds in full."""
    known = {part for text in fields for part in _paragraphs(text)}
    paragraphs = (part for text in parts for part in _paragraphs(text))
    # One that `shorten` cut is the start of another one, with its mark.
    starts = ((part, part.removesuffix("…").rstrip()) for part in paragraphs if part not in known)
    return [part for part, start in starts if start == part or not any(each.startswith(start) for each in known)]


def _paragraphs(text: str) -> Iterator[str]:
    return (part.strip() for part in _PARAGRAPH.split(text))


def _holds(summary: str, part: str) -> bool:
    """Whether a summary has a paragraph as separate words, not inside others; white space does not count."""
    part, summary = " ".join(part.split()), " ".join(summary.split())
    return part in summary and re.search(rf"(?<!\w){re.escape(part)}(?!\w)", summary, re.ASCII) is not None


def _starts_with(text: str, summary: str) -> bool:
    """Whether a summary is the start of a longer text, perhaps with a mark where it was cut."""
    if len(text) <= len(summary):
        return False
    same, differs = 0, len(summary) + 1
    while differs - same > 1:
        middle = (same + differs) // 2
        same, differs = (middle, differs) if text.startswith(summary[:middle]) else (same, middle)
    return same > 0 and not any(char.isalnum() for char in summary[same:])


def indexed_text(passage: str, item: MemoryItem) -> str:
    """Return the text that full-text search indexes for a passage.

    That is its words, the item's day, its file's name, and of a record the kind, people and place.
    """
    named = item.provenance.name if item.provenance.kind is SourceKind.FILE else ""
    return "\n".join(part for part in (passage, _day_words(item), named, *words_of(item, passage)) if part)


def _day_words(item: MemoryItem) -> str:
    """Return the day of an item's event in the forms that queries use; empty when it is not known."""
    if item.event_time is None:
        return ""
    try:
        day = datetime.fromtimestamp(item.event_time, UTC)
    except (ValueError, OverflowError, OSError):
        # Milliseconds taken for seconds, say: the text is found all the same.
        return ""
    return f"{day.day} {_MONTHS[day.month - 1]} {day.year} {day:%Y-%m-%d}"


class PassageMap:
    """Passages and their items' rows, sorted. Not thread-safe but for its views.

    The higher row has the higher passages, so both columns ascend together. The room of removed ones is freed
    when they are as many as the others.
    """

    least_removed: ClassVar[int] = 1024
    """Number of removed passages below which their room is not freed."""

    def __init__(self) -> None:
        self._passages: Rows = np.empty(0, dtype=np.int64)
        self._rows: Rows = np.empty(0, dtype=np.int64)
        self._used = 0
        self._singles = True
        self._removed: list[Rows] = []
        self._passages_removed = 0

    def __len__(self) -> int:
        return self._used

    @property
    def singles(self) -> bool:
        """Whether no item has more than one passage."""
        return self._singles

    @property
    def passages(self) -> Rows:
        """The passages, ascending; removed ones may be among them."""
        return self._passages[: self._used]

    def view(self) -> Self:
        """Return a snapshot that later changes do not affect."""
        return copy.copy(self)

    def add(self, passages: Sequence[int], rows: Sequence[int]) -> None:
        """Add passages with the row of each, none of which was added before."""
        if not len(passages):
            return
        new_passages, new_rows = np.array(passages, dtype=np.int64), np.array(rows, dtype=np.int64)
        order = np.argsort(new_passages, kind="stable")
        new_passages, new_rows = new_passages[order], new_rows[order]
        if self._used and new_passages[0] < self._passages[self._used - 1]:
            self._merge(new_passages, new_rows)
            return
        need = self._used + len(new_passages)
        self._passages, self._rows = with_room(self._passages, need), with_room(self._rows, need)
        self._passages[self._used : need], self._rows[self._used : need] = new_passages, new_rows
        joined = self._rows[max(0, self._used - 1) : need]
        self._singles = self._singles and bool((joined[1:] > joined[:-1]).all())
        self._used = need

    def _merge(self, passages: Rows, rows: Rows) -> None:
        """Insert passages of which some come before those that are there."""
        at = np.searchsorted(self._passages[: self._used], passages)
        self._passages = np.insert(self._passages[: self._used], at, passages)
        self._rows = np.insert(self._rows[: self._used], at, rows)
        self._used = len(self._rows)
        self._singles = bool((self._rows[1:] > self._rows[:-1]).all())

    def remove(self, rows: Rows) -> None:
        """Drop the passages of some rows, at once or later; rows that are not there are passed over."""
        _, owner = self.passages_of(rows)
        self._removed.append(rows[np.unique(owner)])
        self._passages_removed += len(owner)
        if self._passages_removed > max(self.least_removed, self._used // 2):
            self._compact()

    def _compact(self) -> None:
        """Free the room of removed passages."""
        known = self._rows[: self._used]
        kept = ~np.isin(known, np.concatenate(self._removed))
        self._passages, self._rows = self._passages[: self._used][kept], known[kept]
        self._used = len(self._rows)
        self._singles = bool((self._rows[1:] > self._rows[:-1]).all())
        self._removed, self._passages_removed = [], 0

    def rows_of(self, passages: Rows) -> Rows:
        """Return the row of each passage, all of which are there."""
        return self._rows[places_in_distinct(self._passages[: self._used], passages)]

    def passages_of(self, rows: Rows) -> tuple[Rows, Rows]:
        """Return the passages of some rows, in the order of the rows, and for each passage its row's place in `rows`.

        A row that is not there has none.
        """
        known = self._rows[: self._used]
        if self._singles:
            at = places_in_distinct(known, rows)
            there = (at >= 0).nonzero()[0]
            return self._passages[at[there]], there
        starts, ends = np.searchsorted(known, rows), np.searchsorted(known, rows, side="right")
        counts = ends - starts
        return self._passages[ranges(starts, counts)], np.repeat(np.arange(len(rows)), counts)

    def all_passages_of(self, rows: Rows) -> Rows:
        """Return the passages of some rows, which are in any order, in ascending order; fast for many rows."""
        if self._singles:
            return self._passages[: self._used][rows_mask(self._rows[: self._used], rows)]
        return self.passages_of(np.sort(rows))[0]

    def parts(self) -> dict[str, NDArray[Any]]:
        """Return arrays by name, which `restore` takes."""
        if self._passages_removed:
            self._compact()
        return {"passages": self._passages[: self._used], "rows": self._rows[: self._used]}

    @classmethod
    def restore(cls, parts: Mapping[str, NDArray[Any]]) -> Self:
        """Return the map that `parts` was made of.

        Raises:
            ValueError, KeyError: they are not such parts.
        """
        restored = cls()
        passages, rows = parts["passages"], parts["rows"]
        if len(passages) != len(rows):
            raise ValueError(f"{len(passages)} passages of {len(rows)} rows")
        restored._passages, restored._rows, restored._used = passages, rows, len(rows)
        restored._singles = bool((rows[1:] > rows[:-1]).all())
        return restored
