"""The text of an item that is searched: its passages, each found by itself, and the day of its event."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

from devmem.model.indexed_fields import field_texts
from devmem.model.items import MemoryItem, SourceKind
from devmem.text.passages import split_passages
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


def passages_of(item: MemoryItem) -> list[str]:
    """Return the texts of the passages of an item, in order; none when it has no text."""
    return [passage.text for passage in named_passages(item)]


def named_passages(item: MemoryItem) -> list[Passage]:
    """Split all text of an item into passages: its own text first, then that of each indexed field.

    Left out of its own text is what a field has, paragraphs of a snapshot that the summary or an earlier snapshot has,
    a summary that is only the start of a snapshot, and the name of the source.
    """
    fields = field_texts(item)
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
    """Return the paragraphs of texts that no field has, be it only that theirs was cut."""
    known = {part for text in fields for part in _paragraphs(text)}
    paragraphs = (part for text in parts for part in _paragraphs(text))
    return [part for part in paragraphs if part not in known and not _is_cut_from(part, known)]


def _is_cut_from(part: str, known: Iterable[str]) -> bool:
    """Whether a paragraph is the start of another one, with the mark of `shorten`."""
    start = part.removesuffix("…").rstrip()
    return start != part and any(each.startswith(start) for each in known)


def _paragraphs(text: str) -> Iterator[str]:
    return (part.strip() for part in _PARAGRAPH.split(text))


def _holds(summary: str, part: str) -> bool:
    """Whether a summary has a paragraph as words of its own, not inside of others; white space does not count."""
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
    """Return the text that full-text search indexes for a passage: its words, the item's day, and its file's name."""
    named = item.provenance.name if item.provenance.kind is SourceKind.FILE else ""
    return "\n".join(part for part in (passage, _day_words(item), named) if part)


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
