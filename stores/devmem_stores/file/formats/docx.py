"""DOCX: a section for each heading; its lines are the document's paragraphs, and each row of a table is one."""

from __future__ import annotations

import io
import re
import zipfile
from collections.abc import Iterator
from typing import Final

from devmem import MissingExtraError
from devmem.text import UnreadableError
from devmem_stores.file.chunks import Section

try:
    from docx import Document
    from docx.opc.exceptions import OpcError
    from docx.table import Table
    from docx.text.paragraph import Paragraph
except ImportError as error:
    raise MissingExtraError(feature="indexing DOCX", package="python-docx", extra="files") from error

_HEADING: Final = re.compile(r"heading (\d)", re.IGNORECASE)


def sections(data: bytes) -> list[Section]:
    """Split at the headings.

    Raises:
        UnreadableError: the file is damaged or no DOCX.
    """
    try:
        paragraphs = list(_paragraphs(data))
    except (OpcError, zipfile.BadZipFile, KeyError, ValueError, AttributeError, SyntaxError) as error:
        raise UnreadableError(f"is no readable DOCX: {type(error).__name__}: {error}") from error
    path: list[tuple[int, str]] = []
    found: list[Section] = []
    lines: list[tuple[int, str]] = []
    for number, (level, text) in enumerate(paragraphs, start=1):
        if level is not None:
            _flush(found, lines, path)
            path = [(above, name) for above, name in path if above < level] + [(level, text)]
        if text:
            lines.append((number, text))
    _flush(found, lines, path)
    return found


def _flush(found: list[Section], lines: list[tuple[int, str]], path: list[tuple[int, str]]) -> None:
    if lines:
        numbers = [number for number, _ in lines]
        heading = tuple(name for _, name in path)
        found.append(Section(text="\n".join(text for _, text in lines), numbers=numbers, heading=heading))
        lines.clear()


def _paragraphs(data: bytes) -> Iterator[tuple[int | None, str]]:
    """Return each paragraph's level as a heading, None when it is none, and its text."""
    for part in Document(io.BytesIO(data)).iter_inner_content():
        if isinstance(part, Paragraph):
            style = part.style.name or "" if part.style else ""
            heading = _HEADING.fullmatch(style)
            level = int(heading[1]) if heading else 0 if style == "Title" else None
            yield level if part.text.strip() else None, " ".join(part.text.split())
        elif isinstance(part, Table):
            for row in part.rows:
                cells = dict.fromkeys(cell.text.strip() for cell in row.cells)
                yield None, " | ".join(" ".join(cell.split()) for cell in cells if cell)
