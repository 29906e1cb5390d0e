"""HTML: the text of its blocks, a section for each heading; scripts, styles and navigation are left out."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from devmem import MissingExtraError
from devmem_stores.file.chunks import Section

try:
    from bs4 import BeautifulSoup, Tag
    from bs4.element import NavigableString, PreformattedString
except ImportError as error:
    raise MissingExtraError(feature="indexing HTML", package="beautifulsoup4", extra="files") from error

_SILENT: Final = frozenset(["script", "style", "noscript", "template", "head", "nav", "svg", "iframe"])
_BLOCKS: Final = frozenset(
    """address article aside blockquote body dd details div dl dt fieldset figcaption figure footer form h1 h2 h3 h4 h5
    h6 header hr html li main ol p pre section summary table tbody td tfoot th thead tr ul br""".split()
)
_HEADING: Final = re.compile(r"h([1-6])")
_BLANKS: Final = re.compile(r"\s+")


def sections(text: str) -> list[Section]:
    """Split at the headings; each line of a section is a block's text."""
    soup = BeautifulSoup(text, "html.parser")
    title = soup.title.get_text(" ", strip=True) if soup.title else ""
    path: list[tuple[int, str]] = [(0, title)] if title else []
    found: list[Section] = []
    lines: list[tuple[int, str]] = []
    for number, level, line in _lines(soup):
        if level:
            _flush(found, lines, path)
            path = [(above, name) for above, name in path if above < level] + [(level, line)]
        lines.append((number, line))
    _flush(found, lines, path)
    return found


def _flush(found: list[Section], lines: list[tuple[int, str]], path: list[tuple[int, str]]) -> None:
    if lines:
        numbers = [number for number, _ in lines]
        text = "\n".join(line for _, line in lines)
        found.append(Section(text=text, numbers=numbers, heading=tuple(name for _, name in path)))
        lines.clear()


def _lines(soup: BeautifulSoup) -> Iterator[tuple[int, int, str]]:
    """Return the blocks: line in the file, level of the heading or 0, text."""
    words: list[str] = []
    number, level, last = 1, 0, 1
    for is_block, piece in _walk(soup):
        if isinstance(piece, Tag):
            last = max(last, piece.sourceline or 1)
        if is_block:
            if line := _BLANKS.sub(" ", "".join(words)).strip():
                yield number, level, line
            words = []
            heading = _HEADING.fullmatch(piece.name) if isinstance(piece, Tag) else None
            number, level = last, int(heading[1]) if heading else 0
        elif isinstance(piece, NavigableString):
            words.append(str(piece))
    if line := _BLANKS.sub(" ", "".join(words)).strip():
        yield number, level, line


def _walk(root: Tag) -> Iterator[tuple[bool, Tag | NavigableString | None]]:
    """Return texts and block boundaries in order, without recursion: pages nest deeply."""
    stack: list[Tag | NavigableString | None] = [root]
    while stack:
        node = stack.pop()
        if node is None:
            yield True, None
        elif isinstance(node, Tag):
            if node.name in _SILENT:
                continue
            is_block = node.name in _BLOCKS
            yield is_block, node
            if is_block:
                stack.append(None)
            stack.extend(child for child in reversed(node.contents) if isinstance(child, (Tag, NavigableString)))
        elif not isinstance(node, PreformattedString):  # a comment, a doctype
            yield False, node
