"""HTML to text: the title of a page and its blocks, without scripts, styles and navigation.

The reader is a scanner of our own: `html.parser` of Python 3.11 takes time quadratic in the number of unclosed tags.
"""

from __future__ import annotations

import html
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

_SILENT: Final = frozenset("script style noscript template nav svg iframe object select button".split())
"""Elements whose content is not text of the page."""
_RAW: Final = frozenset("script style".split())
"""Elements in which a `<` begins no tag, except their own end."""
_MAY_HIDE: Final = frozenset("div span table pre".split())
"""Elements with their own end tag, which a style may hide."""
_HIDDEN: Final = re.compile(r"display\s*:\s*none|gmail_signature\b|moz-signature\b", re.IGNORECASE)
_BLOCKS: Final = frozenset(
    """address article aside blockquote body caption center dd details div dl dt fieldset figcaption figure footer form
    h1 h2 h3 h4 h5 h6 header hr html li main ol p pre section summary table tbody td tfoot th thead tr ul""".split()
)
_GROUPS: Final = frozenset("ul ol dl table".split())
"""Elements that are one block with a line for each part."""
_CELLS: Final = frozenset("td th".split())
_CELL: Final = " | "
_ITEM: Final = "- "
_MARKS: Final = (_CELL, _ITEM)
_PUBLISHED: Final = frozenset("article:published_time date dc.date dcterms.created dcterms.date datepublished".split())
_HEAD: Final = 4096
"""Number of characters in which a tag has its attributes."""
_TAG: Final = re.compile(r"(/?[A-Za-z][^\s/>]{0,40})")
_ATTRIBUTE_END: Final = re.compile(r"""[^=>]*+(?:=\s*+(?P<quote>["']?)|(?P<end>>))""")
_ATTRIBUTE: Final = re.compile(r"""([\w:.-]{1,60})\s*=\s*(?:"([^"]*)"|'([^']*)'|([^\s"'>]+))""")
_MALFORMED: Final = 10
"""Number of attributes without a closing quote that are repaired; each costs a search to the end of the page."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Block:
    """A heading, a paragraph, a list or a table."""

    text: str
    lines: tuple[int, ...]
    """Line of the page, from 1, in which each line of the text begins."""
    level: int = 0
    """Level of a heading, from 1; 0 of other text."""
    is_quoted: bool = False
    """Whether it stands in a `blockquote`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HtmlPage:
    """The text of a page."""

    title: str
    blocks: tuple[Block, ...]
    published: str = ""
    """Time as the page names it; empty where it does not."""
    author: str = ""


def read_page(source: str) -> HtmlPage:
    """Return the text of a page; malformed HTML is read as far as it has text."""
    builder = _Builder()
    position = 0
    for start, tag, content in _tokens(source):
        builder.line += source.count("\n", position, start)
        position = start
        if tag:
            builder.take_tag(tag, content)
        else:
            builder.take_text(html.unescape(content))
    builder.flush()
    return HtmlPage(
        title=" ".join("".join(builder.title).split()),
        blocks=tuple(builder.blocks),
        published=builder.meta.get("published", ""),
        author=builder.meta.get("author", ""),
    )


def _tokens(source: str) -> Iterator[tuple[int, str, str]]:
    """Yield position, tag (`/div` for an end) and its attributes, or an empty tag and a text; in linear time."""
    at, size, repairs = 0, len(source), _MALFORMED
    while at < size:
        opening = source.find("<", at)
        if opening != at:
            yield at, "", source[at : opening if opening >= 0 else size]
        if opening < 0:
            return
        tag = _TAG.match(source, opening + 1)
        if tag is None:
            at = _after_markup(source, opening)
            if at == opening + 1:
                yield opening, "", "<"
            continue
        end = _tag_end(source, tag.end())
        if end < 0 and repairs:
            repairs -= 1
            end = source.find(">", tag.end())
        if end < 0:
            # As in a browser: the page ends within a tag.
            return
        name = tag[1].lower()
        yield opening, name, source[tag.end() : min(end, tag.end() + _HEAD)]
        at = end + 1
        if name in _RAW:
            closing = re.compile(rf"</{name}\b", re.IGNORECASE).search(source, at)
            at = closing.start() if closing else size


def _after_markup(source: str, opening: int) -> int:
    """Return the position after a comment, a doctype or an instruction; the next character for a bare `<`."""
    if source.startswith("<!--", opening):
        end, width = source.find("-->", opening + 4), 3
    elif source[opening + 1 : opening + 2] in ("!", "?", "/"):
        end, width = source.find(">", opening), 1
    else:
        return opening + 1
    return end + width if end >= 0 else len(source)


def _tag_end(source: str, at: int) -> int:
    """Return the position of the `>` that ends a tag, which is not one in a quoted value; -1 where there is none."""
    while (found := _ATTRIBUTE_END.match(source, at)) is not None:
        if found["end"]:
            return found.end() - 1
        at = found.end()
        if found["quote"]:
            at = source.find(found["quote"], at) + 1
            if not at:
                return -1
    return -1


class _Builder:
    """Takes the tags and texts of a page in order and collects its blocks."""

    def __init__(self) -> None:
        self.line = 1
        self.title: list[str] = []
        self.meta: dict[str, str] = {}
        self.blocks: list[Block] = []
        self._pieces: list[tuple[str, int]] = []
        self._level = self._groups = self._quotes = self._preformatted = 0
        self._in_title = False
        self._silent, self._depth = "", 0

    def take_text(self, text: str) -> None:
        """Take a text without entities."""
        if self._silent:
            return
        if self._in_title:
            self.title.append(text)
            return
        if self._preformatted:
            for at, line in enumerate(text.split("\n")):
                self._pieces.extend([("\n", self.line + at - 1)] if at else [])
                self._pieces.extend([(line, self.line + at)] if line else [])
            return
        start = self.line + text[: len(text) - len(text.lstrip())].count("\n")
        self._pieces.append((re.sub(r"\s+", " ", text), start))

    def take_tag(self, tag: str, attributes: str) -> None:
        """Take a tag, `/div` for an end."""
        name, is_end = tag.removeprefix("/"), tag.startswith("/")
        if self._silent or name in _SILENT or (name in _MAY_HIDE and _HIDDEN.search(attributes)):
            self._skip(name, is_end=is_end)
        elif name == "title":
            # A picture's title stands in the body, and a page may forget the end of its own.
            self._in_title = not is_end and not self.title
        elif name == "meta":
            self._note_meta(attributes)
        elif name == "br":
            self._pieces.append(("\n", self.line))
        elif name in _BLOCKS:
            self._in_title = False
            self._take_block(name, step=-1 if is_end else 1)

    def _skip(self, name: str, *, is_end: bool) -> None:
        if not self._silent:
            self._silent, self._depth = ("", 0) if is_end else (name, 1)
        elif name == self._silent:
            self._depth += -1 if is_end else 1
            if not self._depth:
                self._silent = ""

    def _note_meta(self, attributes: str) -> None:
        named = {found[1].lower(): found[2] or found[3] or found[4] or "" for found in _ATTRIBUTE.finditer(attributes)}
        key = (named.get("name") or named.get("property") or named.get("itemprop") or "").lower()
        kept = "published" if key in _PUBLISHED else key if key == "author" else ""
        if kept and named.get("content"):
            self.meta.setdefault(kept, html.unescape(named["content"]).strip())

    def _take_block(self, name: str, *, step: int) -> None:
        """Begin (`step` 1) or end (-1) an element that has lines of its own."""
        is_heading = name[0] == "h" and name[1:].isdecimal()
        if self._groups and not is_heading and not (name in _GROUPS and self._groups + step == 0):
            self._break_line(name, is_start=step > 0)
        else:
            self.flush()
        if name in _GROUPS:
            self._groups = max(self._groups + step, 0)
        elif name == "blockquote":
            self.flush()
            self._quotes = max(self._quotes + step, 0)
        elif name == "pre":
            self._preformatted = max(self._preformatted + step, 0)
        elif is_heading:
            self._level = int(name[1:]) if step > 0 else 0

    def _break_line(self, name: str, *, is_start: bool) -> None:
        pieces = self._pieces
        if name in _CELLS:
            is_begun = any(text.strip(" ") for text, _ in pieces[-2:])
            pieces.extend([(_CELL, self.line)] if is_start and is_begun and pieces[-1][0] != "\n" else [])
            return
        pieces.append(("\n", self.line))
        if name == "li" and is_start:
            pieces.append((_ITEM, self.line))

    def flush(self) -> None:
        """End the block that was begun."""
        kept = [(line.rstrip() if self._preformatted else line, at) for line, at in self._lines()]
        filled = [at for at, (line, _) in enumerate(kept) if line]
        if filled:
            kept = kept[filled[0] : filled[-1] + 1]
            text, numbers = "\n".join(line for line, _ in kept), tuple(at for _, at in kept)
            self.blocks.append(Block(text=text, lines=numbers, level=self._level, is_quoted=self._quotes > 0))
            # A heading whose end tag is missing does not make headings of what follows.
            self._level = 0
        self._pieces = []

    def _lines(self) -> Iterator[tuple[str, int]]:
        """Yield the lines of the block that was begun, each with its number in the page; tidy ones are not empty."""
        line: list[str] = []
        number = first = 0
        for text, at in [*self._pieces, ("\n", self.line)]:
            if text != "\n":
                line.append(text)
                first = first or at
                # Words say where a line begins; marks of a list or a table only where it has none.
                number = number or (at if text.strip() and text not in _MARKS else 0)
                continue
            whole = "".join(line)
            if self._preformatted:
                yield whole, number or first or at
            elif (tidy := " ".join(whole.split()).removeprefix("| ")).strip(" |") and tidy != "-":
                yield tidy, number or first
            line, number, first = [], 0, 0
