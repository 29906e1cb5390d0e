"""Plain text, Markdown and HTML: each paragraph an item, with the headings that it stands under."""

from __future__ import annotations

import logging
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from datetime import date
from math import isfinite
from typing import Any, Final, TypeAlias

from devmem.config.compose import compose
from devmem.errors import ConfigError
from devmem.model.items import MemoryItem
from devmem.model.times import parse_time
from devmem.text.html import HtmlPage, read_page
from devmem.transfer.importing.files import FileReader
from devmem.transfer.importing.records import Position, digest, text_item, unique_id

_HEADING: Final = re.compile(r"(#{1,6})\s+(.*?)\s*#*\s*$")
_FRONT_MATTER_KEY: Final = re.compile(r"""["']?[^\s:#-][^:]{0,80}:(?:\s|$)""")
_FRONT_MATTER_LINES: Final = 1_000
_FRONT_MATTER_TIMES: Final = ("date", "created", "created_at", "datum", "erstellt")
"""Keys that name the time of a note, in lower case, the first one before the others."""
_TAGS: Final = frozenset({"tags", "keywords", "schlagworte"})
_SECONDS_FROM: Final = 100_000_000
"""A number this large (in 1973) is of seconds; a smaller one is a year or a day without hyphens."""
_LOG: Final = logging.getLogger(__name__)
_FENCE: Final = re.compile(r"\s{0,3}(`{3,}|~{3,})")
_LINK: Final = re.compile(r"\[\[(?!\s)([^\[\]|\n]{1,300}?)(?:\\?\|([^\[\]\n]{1,300}))?\]\]")
_EMBEDDED: Final = re.compile(r"!\[\[(?!\s)([^\[\]|\n]{1,300}?)(?:\\?\|[^\[\]\n]{0,300})?\]\]")
_DAY: Final = re.compile(r"((?:19|20)\d\d)(?:[-._ ]|年)?(\d{1,2})(?:[-._ ]|月)?(\d{1,2})(?!\d)")
"""Beginning of the name of a daily note."""
_CHARSET: Final = re.compile(rb"""<meta[^>]{0,200}?charset\s*=\s*["']?([\w.:-]{1,40})""", re.IGNORECASE)
_CHARSET_WITHIN: Final = 4096
"""Number of bytes in which a page names its encoding."""

Line = tuple[int, str]
Paragraph: TypeAlias = tuple[int, list[str], str]
"""Line (1-based), headings above it from the highest, and text."""


def read_text(source: FileReader, origin: Position) -> Iterator[MemoryItem]:
    """Yield an item for each paragraph."""
    return read_paragraphs(_numbered(source), origin, markdown=False)


def read_markdown(source: FileReader, origin: Position) -> Iterator[MemoryItem]:
    """Yield an item for each paragraph of a Markdown note; see `read_paragraphs`."""
    return read_paragraphs(_numbered(source), origin, markdown=True)


def _numbered(source: FileReader) -> Iterator[Line]:
    return enumerate((line.rstrip("\r\n") for line in source.text_lines()), start=1)


def read_paragraphs(lines: Iterable[Line], origin: Position, *, markdown: bool) -> Iterator[MemoryItem]:
    """Yield an item for each paragraph, with its 1-based line in the metadata.

    Args:
        lines: all lines with their 1-based numbers, blank ones included.
        origin: the file.
        markdown: whether headings, blocks of code, links of Obsidian and a front matter are recognized. The keys of the
            front matter are metadata of every paragraph, and its `date` or `created` is their time; without one, that
            of a file whose name begins with a date is that day.

    Raises:
        DateOrderError: day and month of the front matter's date cannot be told apart.
    """
    about, time = {}, None
    if markdown:
        lines = list(lines)
        front, lines = _split_front_matter(lines, origin)
        about = {str(key): value for key, raw in front.items() if (value := _json_value(key, raw)) is not None}
        time = _front_matter_time(front, origin)
        if time is None and (found := _DAY.match(origin.path.stem)):
            # The name of a daily note.
            with suppress(ValueError):
                time = parse_time("-".join((found[1], found[2].zfill(2), found[3].zfill(2))))
    paragraphs = _paragraphs(lines, markdown=markdown)
    yield from paragraph_items(paragraphs, origin, metadata=about, time=time, linked=markdown)


def _split_front_matter(lines: list[Line], origin: Position) -> tuple[Mapping[object, object], list[Line]]:
    """Return the mapping of a front matter and the lines below it; one that is not valid stays text, and is logged."""
    if not lines or lines[0][1].rstrip() != "---":
        return {}, lines
    inside = lines[1 : _FRONT_MATTER_LINES + 1]
    end = next((at for at, (_, line) in enumerate(inside) if line.rstrip() in ("---", "...")), None)
    if end is None:
        return {}, lines
    first = next((line for _, line in inside[:end] if line.strip() and not line.startswith("#")), "")
    if not first:
        return {}, lines[end + 2 :]
    if _FRONT_MATTER_KEY.match(first) is None:
        # A text between two rules.
        return {}, lines
    try:
        return compose("\n".join(line for _, line in inside[:end])).data, lines[end + 2 :]
    except ConfigError as error:
        found = error.findings[0]
        reason = f"the front matter is not usable and is read as text: {found.message}"
        _LOG.warning("%s", replace(origin, line=(found.line or 0) + 1).error(reason))
        return {}, lines


def _json_value(key: object, raw: object) -> object:
    """Return a value of a front matter as JSON has it, tags as a list; None for nothing."""
    if str(key).lower() in _TAGS and isinstance(raw, str):
        return [tag.strip().removeprefix("#") for tag in raw.split(",") if tag.strip()]
    if isinstance(raw, Mapping):
        return {str(name): _json_value("", value) for name, value in raw.items()}
    if isinstance(raw, list):
        return [_json_value("", value) for value in raw]
    if isinstance(raw, date):
        return raw.isoformat()
    return str(raw) if isinstance(raw, float) and not isfinite(raw) else raw


def _front_matter_time(front: Mapping[object, object], origin: Position) -> float | None:
    """Return the time that a front matter names, in seconds since the epoch; an invalid date is logged."""
    named = {str(key).lower(): (str(key), raw) for key, raw in front.items() if raw is not None}
    for usual in _FRONT_MATTER_TIMES:
        if usual in named:
            key, raw = named[usual]
            is_day = isinstance(raw, int) and not isinstance(raw, bool) and raw < _SECONDS_FROM
            written = raw.isoformat() if isinstance(raw, date) else str(raw) if is_day else raw
            if (time := origin.event_time(key, written)) is not None:
                return time
    return None


def paragraph_items(
    paragraphs: Iterable[Paragraph],
    origin: Position,
    *,
    metadata: Mapping[str, Any] | None = None,
    time: float | None = None,
    linked: bool = False,
) -> Iterator[MemoryItem]:
    """Yield an item for each paragraph, with its line and its headings in the metadata.

    Args:
        paragraphs: those of the document in order.
        origin: the file.
        metadata: of the whole document; the paragraph's own `line` and `section` come before it.
        time: of the document, in seconds since the epoch.
        linked: whether links of Obsidian are read as their text, and what it embeds as attachments.
    """
    seen: Counter[str] = Counter()
    for number, headings, written in paragraphs:
        section = " > ".join(headings)
        text, attached = written, list[str]()
        if linked and not _FENCE.match(written):
            # Links read as their text; code is unchanged.
            attached = [found[1] for found in _EMBEDDED.finditer(written)]
            text = _LINK.sub(lambda found: found[2] or found[1], _EMBEDDED.sub("", written)).strip()
        if not text:
            origin.leave("attachments")
            continue
        # The same words a second time are another paragraph.
        yield text_item(
            origin=origin,
            id=unique_id(digest(origin.path.name, section, text), seen),
            text=text,
            event_time=time,
            metadata={
                **(metadata or {}),
                "line": number,
                **({"section": section} if section else {}),
                **({"attachments": attached} if attached else {}),
            },
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


def is_html(head: bytes) -> bool:
    """Whether a file begins as a page does."""
    return head.lower().startswith((b"<!doctype html", b"<html"))


def read_html(source: FileReader, origin: Position) -> Iterator[MemoryItem]:
    """Yield an item for each block of text, with the headings above it as `section` and the title in the metadata.

    Raises:
        DataFileError: the file cannot be read, or is not text.
    """
    data = source.data()
    declared = _CHARSET.search(data, 0, _CHARSET_WITHIN)
    page = read_page(source.decoded(data, declared[1].decode("ascii", "replace") if declared else ""))
    about = {"title": page.title, "author": page.author}
    time = origin.event_time("published", page.published)
    metadata = {key: value for key, value in about.items() if value}
    yield from paragraph_items(_blocks(page), origin, metadata=metadata, time=time)


def _blocks(page: HtmlPage) -> Iterator[Paragraph]:
    headings: list[tuple[int, str]] = []
    for block in page.blocks:
        if block.level:
            headings = [*(one for one in headings if one[0] < block.level), (block.level, block.text)]
        else:
            yield block.lines[0], [text for _, text in headings], block.text


def text_items(text: object, origin: Position) -> Iterator[MemoryItem]:
    """Yield the item of a text that is not blank."""
    if not isinstance(text, str):
        raise origin.error(f"expected a text, found {type(text).__name__}")
    if text.strip():
        yield text_item(origin=origin, id=digest(text), text=text)
