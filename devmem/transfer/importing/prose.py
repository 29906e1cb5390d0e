"""Plain text and Markdown: each paragraph an item, below the headings that it stands under."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final, TypeAlias

from devmem.model.items import MemoryItem
from devmem.transfer.importing.records import Origin, digest, text_item

_HEADING: Final = re.compile(r"(#{1,6})\s+(.*?)\s*#*\s*$")
_FENCE: Final = re.compile(r"\s{0,3}(`{3,}|~{3,})")

Line = tuple[int, str]
Paragraph: TypeAlias = tuple[int, list[str], str]
"""Line (1-based), headings above it from the highest, and text."""


def read_paragraphs(lines: Iterable[Line], origin: Origin, *, markdown: bool) -> Iterator[MemoryItem]:
    """Yield an item for each paragraph, with its 1-based line in the metadata.

    Args:
        lines: all lines with their 1-based numbers, blank ones included.
        origin: the file.
        markdown: whether headings and blocks of code are recognized.
    """
    yield from paragraph_items(_paragraphs(lines, markdown=markdown), origin)


def paragraph_items(
    paragraphs: Iterable[Paragraph],
    origin: Origin,
    *,
    metadata: Mapping[str, Any] | None = None,
    time: float | None = None,
) -> Iterator[MemoryItem]:
    """Yield an item for each paragraph, with its line and its headings in the metadata.

    Args:
        paragraphs: those of the document in order.
        origin: the file.
        metadata: of the whole document; the paragraph's own `line` and `section` come before it.
        time: of the document, in seconds since the epoch.
    """
    seen: Counter[str] = Counter()
    for number, headings, text in paragraphs:
        section = " > ".join(headings)
        # The same words a second time are another paragraph.
        key = digest(origin.path.name, section, text)
        seen[key] += 1
        yield text_item(
            origin=origin,
            id=key if seen[key] == 1 else f"{key}-{seen[key]}",
            text=text,
            event_time=time,
            metadata={**(metadata or {}), "line": number, **({"section": section} if section else {})},
        )


def _paragraphs(lines: Iterable[Line], *, markdown: bool) -> Iterator[Paragraph]:
    headings: list[tuple[int, str]] = []
    paragraph: list[str] = []
    start, fence = 0, ""
    for number, line in [*lines, (0, "")]:
        opened = _FENCE.match(line) if markdown else None
        heading = _HEADING.match(line) if markdown and not fence else None
        if (not line.strip() and not fence) or heading or not number:
            if paragraph:
                yield start, [title for _, title in headings], "\n".join(paragraph)
            paragraph = []
        if heading:
            level = len(heading[1])
            headings = [*(one for one in headings if one[0] < level), (level, heading[2])]
        elif line.strip() or fence:
            start = start if paragraph else number
            paragraph.append(line.rstrip())
        if opened:
            fence = "" if fence and opened[1].startswith(fence) else fence or opened[1]


def is_text_list(document: object) -> bool:
    """Whether a document is a list of texts."""
    return isinstance(document, list) and bool(document) and all(isinstance(one, str) for one in document)


def read_text_list(texts: list[object], origin: Origin) -> Iterator[MemoryItem]:
    """Yield an item for each text that is not blank.

    Raises:
        DataFileError: an element is no text.
    """
    for at, text in enumerate(texts):
        if not isinstance(text, str):
            raise origin.error(f"[{at}]: expected a text, found {type(text).__name__}")
        if text.strip():
            yield text_item(origin=origin, id=digest(text), text=text)
