"""The formats of documents: HTML, and PDF and DOCX, which other packages read; each is split into sections."""

from __future__ import annotations

import io
import logging
import re
import zipfile
from collections.abc import Iterable, Iterator
from typing import Final

from devmem.errors import MissingExtraError, UnreadableError
from devmem.text.html import HtmlPage, read_page
from devmem_stores.file.chunks import Section


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


def html(text: str) -> list[Section]:
    """Split a page at its headings; scripts, styles and navigation are left out."""
    page = read_page(text)
    return _by_heading(_lines(page), [(0, page.title)] if page.title else [])


def _lines(page: HtmlPage) -> Iterator[tuple[int, int | None, str]]:
    """Yield the lines of the blocks: number in the file, level as a heading or None, text."""
    for block in page.blocks:
        if block.level:
            yield block.lines[0], block.level, " ".join(block.text.split())
        else:
            yield from ((at, None, line) for at, line in zip(block.lines, block.text.split("\n"), strict=True))


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
        raise UnreadableError(f"is not a readable PDF: {type(error).__name__}: {error}") from error
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
        raise UnreadableError(f"is not a readable DOCX: {type(error).__name__}: {error}") from error
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
