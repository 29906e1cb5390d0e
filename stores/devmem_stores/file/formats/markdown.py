"""Markdown: a section for each heading; code fences are kept whole."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Final

from markdown_it import MarkdownIt
from markdown_it.token import Token

from devmem_stores.file.chunks import Section, lines_of

_FENCES: Final = ("fence", "code_block")
_FRONT_MATTER: Final = re.compile(r"\A---[ \t]*\n.*?^(?:---|\.\.\.)[ \t]*$", re.MULTILINE | re.DOTALL)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Heading:
    line: int
    """0-based."""
    after: int
    """The first line behind it."""
    level: int
    title: str


@cache
def _parser() -> MarkdownIt:
    return MarkdownIt("commonmark").enable("table")


def sections(text: str) -> list[Section]:
    """Split at the headings; what stands before the first one is a section too."""
    lines = lines_of(text)
    # A front matter's last line would make a heading of the line before it.
    front = _FRONT_MATTER.match(text)
    body = text if front is None else re.sub(r"[^\n]", "", front[0]) + text[front.end() :]
    tokens = _parser().parse(body)
    fences = [range(*token.map) for token in tokens if token.type in _FENCES and token.map]
    return [part for part in _parts(lines, list(_headings(tokens)), fences) if part.text.strip()]


def _headings(tokens: Sequence[Token]) -> Iterator[_Heading]:
    for at, token in enumerate(tokens):
        if token.type == "heading_open" and token.level == 0 and token.map:
            title = "".join(part.content for part in tokens[at + 1].children or () if part.content)
            yield _Heading(line=token.map[0], after=token.map[1], level=int(token.tag[1:]), title=title.strip())


def _parts(lines: Sequence[str], headings: Sequence[_Heading], fences: Sequence[range]) -> Iterator[Section]:
    start = headings[0].line if headings else 0
    path: list[_Heading] = []
    if start > 0:
        yield _section(lines, 0, start, path, fences)
    for at, heading in enumerate(headings):
        path = [*(above for above in path if above.level < heading.level), heading]
        following = headings[at + 1] if at + 1 < len(headings) else None
        end = following.line if following else len(lines)
        is_empty = not "".join(lines[heading.after : end]).strip()
        # A heading with nothing of its own goes with the one below it.
        if following is None or following.level <= heading.level or not is_empty:
            yield _section(lines, start, end, path, fences)
            start = end
    if start < len(lines):
        yield _section(lines, start, len(lines), path, fences)


def _section(lines: Sequence[str], start: int, end: int, path: Sequence[_Heading], fences: Sequence[range]) -> Section:
    inside = tuple(
        range(fence.start - start, min(fence.stop, end) - start) for fence in fences if start <= fence.start < end
    )
    return Section(
        text="".join(lines[start:end]),
        numbers=range(start + 1, end + 1),
        heading=tuple(heading.title for heading in path),
        whole=inside,
    )
