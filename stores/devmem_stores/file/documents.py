"""The formats of documents, which other projects' packages read: HTML, PDF, DOCX; each is split into sections."""

from __future__ import annotations

import io
import logging
import re
import zipfile
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Final

from devmem import MissingExtraError
from devmem.text import UnreadableError
from devmem_stores.file.chunks import Section

if TYPE_CHECKING:
    from bs4.element import NavigableString, Tag

_BLANKS: Final = re.compile(r"\s+")


def _by_heading(lines: Iterable[tuple[int, int | None, str]], path: list[tuple[int, str]]) -> list[Section]:
    """Return a section for each heading.

    Args:
        lines: each with its number, its level as a heading or None, and its text.
        path: headings above the first line, with their levels.
    """
    found: list[Section] = []
    held: list[tuple[int, str]] = []

    def flush() -> None:
        if held:
            text = "\n".join(line for _, line in held)
            heading = tuple(name for _, name in path)
            found.append(Section(text=text, numbers=[number for number, _ in held], heading=heading))
            held.clear()

    for number, level, line in lines:
        if level is not None:
            flush()
            path[:] = [*((above, name) for above, name in path if above < level), (level, line)]
        if line:
            held.append((number, line))
    flush()
    return found


_SILENT: Final = frozenset(["script", "style", "noscript", "template", "head", "nav", "svg", "iframe"])
_BLOCKS: Final = frozenset(
    """address article aside blockquote body dd details div dl dt fieldset figcaption figure footer form h1 h2 h3 h4 h5
    h6 header hr html li main ol p pre section summary table tbody td tfoot th thead tr ul br""".split()
)
_TAG_OF_HEADING: Final = re.compile(r"h([1-6])")


def html(text: str) -> list[Section]:
    """Split a page at its headings, each line a block's text; scripts, styles and navigation are left out."""
    try:
        from bs4 import BeautifulSoup
    except ImportError as error:
        raise MissingExtraError(feature="indexing HTML", package="beautifulsoup4", extra="files") from error
    soup = BeautifulSoup(text, "html.parser")
    title = soup.title.get_text(" ", strip=True) if soup.title else ""
    return _by_heading(_lines(soup), [(0, title)] if title else [])


def _lines(soup: Tag) -> Iterator[tuple[int, int | None, str]]:
    """Return the blocks: line in the file, level as a heading or None, text."""
    from bs4.element import NavigableString, Tag

    words: list[str] = []
    number, last = 1, 1
    level: int | None = None
    for is_block, piece in _walk(soup):
        if isinstance(piece, Tag):
            last = max(last, piece.sourceline or 1)
        if is_block:
            if line := _BLANKS.sub(" ", "".join(words)).strip():
                yield number, level, line
            words = []
            heading = _TAG_OF_HEADING.fullmatch(piece.name) if isinstance(piece, Tag) else None
            number, level = last, int(heading[1]) if heading else None
        elif isinstance(piece, NavigableString):
            words.append(str(piece))
    if line := _BLANKS.sub(" ", "".join(words)).strip():
        yield number, level, line


def _walk(root: Tag) -> Iterator[tuple[bool, Tag | NavigableString | None]]:
    """Return texts and block boundaries in order, without recursion: pages nest deeply."""
    from bs4.element import NavigableString, PreformattedString, Tag

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


def pdf(data: bytes) -> list[Section]:
    """Return a section for each page; the lines are those of its text.

    Raises:
        UnreadableError: the file is damaged, encrypted, or holds pictures of text only.
    """
    try:
        from pypdf import PdfReader
        from pypdf.errors import PyPdfError
    except ImportError as error:
        raise MissingExtraError(feature="indexing PDF", package="pypdf", extra="files") from error
    # Its messages about harmless irregularities are of no use to someone who runs a workflow.
    logging.getLogger("pypdf").setLevel(logging.ERROR)
    try:
        reader = PdfReader(io.BytesIO(data))
        if reader.is_encrypted and not reader.decrypt(""):
            raise UnreadableError("is encrypted")
        texts = [page.extract_text() for page in reader.pages]
    except (PyPdfError, OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        if isinstance(error, UnreadableError):
            raise
        raise UnreadableError(f"is no readable PDF: {type(error).__name__}: {error}") from error
    found = [
        Section(text=text, numbers=range(1, text.count("\n") + 2), page=number)
        for number, text in enumerate(texts, start=1)
        if text.strip()
    ]
    if texts and not found:
        raise UnreadableError("holds no text; a scanned document needs its text recognised first")
    return found


_STYLE_OF_HEADING: Final = re.compile(r"heading (\d)", re.IGNORECASE)


def docx(data: bytes) -> list[Section]:
    """Split a document at its headings; its lines are its paragraphs, and each row of a table is one.

    Raises:
        UnreadableError: the file is damaged or no DOCX.
    """
    try:
        from docx.opc.exceptions import OpcError
    except ImportError as error:
        raise MissingExtraError(feature="indexing DOCX", package="python-docx", extra="files") from error
    try:
        paragraphs = list(_paragraphs(data))
    except (OpcError, zipfile.BadZipFile, KeyError, ValueError, AttributeError, SyntaxError) as error:
        raise UnreadableError(f"is no readable DOCX: {type(error).__name__}: {error}") from error
    return _by_heading(((number, level, text) for number, (level, text) in enumerate(paragraphs, start=1)), [])


def _paragraphs(data: bytes) -> Iterator[tuple[int | None, str]]:
    """Return each paragraph's level as a heading, None when it is none, and its text."""
    from docx import Document
    from docx.table import Table
    from docx.text.paragraph import Paragraph

    for part in Document(io.BytesIO(data)).iter_inner_content():
        if isinstance(part, Paragraph):
            style = part.style.name or "" if part.style else ""
            heading = _STYLE_OF_HEADING.fullmatch(style)
            level = int(heading[1]) if heading else 0 if style == "Title" else None
            yield level if part.text.strip() else None, " ".join(part.text.split())
        elif isinstance(part, Table):
            for row in part.rows:
                cells = dict.fromkeys(cell.text.strip() for cell in row.cells)
                yield None, " | ".join(" ".join(cell.split()) for cell in cells if cell)
