"""Small files that become large when they are read: packed DOCX and PDF files, and texts that stand for longer ones."""

from __future__ import annotations

import io
import zipfile
import zlib
from itertools import pairwise
from pathlib import Path
from random import Random
from typing import Final

from docx import Document

_NAMESPACE: Final = 'xmlns:w="http://schemas.openxmlformats.org/wordprocessingml/2006/main"'
_PART: Final = "word/document.xml"
_MEGABYTE: Final = 1 << 20


def _docx(document: bytes, *, more: int = 0) -> bytes:
    """Return a DOCX file with another document in the place of its own, and with more parts."""
    original, changed = io.BytesIO(), io.BytesIO()
    Document().save(original)
    with zipfile.ZipFile(original) as parts, zipfile.ZipFile(changed, "w", zipfile.ZIP_DEFLATED) as archive:
        for name in parts.namelist():
            archive.writestr(name, document if name == _PART else parts.read(name))
        for number in range(more):
            archive.writestr(f"word/more{number}.xml", b"<a/>")
    return changed.getvalue()


def _with_body(body: str, *, before: str = "") -> bytes:
    return f'<?xml version="1.0"?>{before}<w:document {_NAMESPACE}><w:body>{body}</w:body></w:document>'.encode()


def _paragraph(text: str) -> str:
    return f"<w:p><w:r><w:t>{text}</w:t></w:r></w:p>"


def docx_of_spaces(docs: Path, _: Random) -> None:
    """200 MB of a paragraph in 200 KB."""
    (docs / "spaces.docx").write_bytes(_docx(_with_body(_paragraph(" " * (200 * _MEGABYTE)))))


def docx_of_entities(docs: Path, _: Random) -> None:
    """A text that stands for 20 others, which stand for 20 others each, nine times."""
    names = "abcdefghij"
    entities = "".join(f'<!ENTITY {name} "{f"&{older};" * 20}">' for older, name in pairwise(names))
    before = f'<!DOCTYPE d [<!ENTITY a "ha ha ha ha">{entities}]>'
    (docs / "entities.docx").write_bytes(_docx(_with_body(_paragraph("&j;"), before=before)))


def docx_of_another_file(docs: Path, _: Random) -> None:
    """A text that stands for a file outside of the source."""
    outside = (docs.parent / "outside.md").absolute().as_uri()
    before = f'<!DOCTYPE d [<!ENTITY a SYSTEM "{outside}">]>'
    (docs / "another.docx").write_bytes(_docx(_with_body(_paragraph("&a;"), before=before)))


def docx_of_nested_tables(docs: Path, _: Random) -> None:
    """A table in a table, 3,000 times."""
    start, end = "<w:tbl><w:tr><w:tc>" * 3000, f"{_paragraph('c')}</w:tc></w:tr></w:tbl>" * 3000
    (docs / "nested.docx").write_bytes(_docx(_with_body(start + end)))


def docx_of_one_row(docs: Path, _: Random) -> None:
    """A table of one row with 300,000 cells."""
    cells = f"<w:tc>{_paragraph('c')}</w:tc>" * 300_000
    (docs / "row.docx").write_bytes(_docx(_with_body(f"<w:tbl><w:tr>{cells}</w:tr></w:tbl>")))


def docx_of_many_parts(docs: Path, _: Random) -> None:
    """60,000 parts beside the document."""
    (docs / "parts.docx").write_bytes(_docx(_with_body(_paragraph("hi")), more=60_000))


def docx_of_false_size(docs: Path, _: Random) -> None:
    """100 MB that say that they are ten bytes."""
    packed = bytearray(_docx(_with_body(_paragraph("A" * (100 * _MEGABYTE)))))
    entry = packed.rfind(_PART.encode())
    at = packed.rfind(b"PK\x01\x02", 0, entry) + 24
    packed[at : at + 4] = (10).to_bytes(4, "little")
    (docs / "size.docx").write_bytes(bytes(packed))


def _pdf(stream: bytes, filters: bytes = b"/FlateDecode", *, pages: int = 1) -> bytes:
    """Return a PDF file whose pages all have the same content."""
    font = b"<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>"
    page = b"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 9 9] /Contents 4 0 R /Resources << /Font << /F 5 0 R >> >> >>"
    objects = (
        b"<< /Type /Catalog /Pages 2 0 R >>",
        b"<< /Type /Pages /Kids [%s] /Count %d >>" % (b"3 0 R " * pages, pages),
        page,
        b"<< /Length %d /Filter [%s] >>\nstream\n%s\nendstream" % (len(stream), filters, stream),
        font,
    )
    out, places = b"%PDF-1.4\n", list[int]()
    for number, content in enumerate(objects, 1):
        places.append(len(out))
        out += b"%d 0 obj\n%s\nendobj\n" % (number, content)
    table = b"".join(b"%010d 00000 n \n" % place for place in places)
    head, end = b"xref\n0 6\n0000000000 65535 f \n", b"trailer << /Size 6 /Root 1 0 R >>\nstartxref\n%d\n%%%%EOF"
    return out + head + table + end % len(out)


def pdf_of_one_page(docs: Path, _: Random) -> None:
    """40 MB of a page in 100 KB."""
    text = b"BT /F 9 Tf (spam spam) Tj ET\n"
    (docs / "page.pdf").write_bytes(_pdf(zlib.compress(text * (40 * _MEGABYTE // len(text)), 9)))


def pdf_packed_twice(docs: Path, _: Random) -> None:
    """500 MB in one KB."""
    packed = zlib.compress(zlib.compress(bytes(500 * _MEGABYTE), 9), 9)
    (docs / "twice.pdf").write_bytes(_pdf(packed, b"/FlateDecode /FlateDecode"))


def pdf_of_many_pages(docs: Path, _: Random) -> None:
    """200,000 pages with the same 1,000 lines."""
    lines = zlib.compress(b"BT /F 9 Tf (spam) Tj ET\n" * 1000)
    (docs / "pages.pdf").write_bytes(_pdf(lines, pages=200_000))


def pdf_of_itself(docs: Path, _: Random) -> None:
    """Pages whose only page is they themselves."""
    endless = _pdf(zlib.compress(b"x")).replace(b"/Kids [3 0 R ]", b"/Kids [2 0 R ]")
    (docs / "itself.pdf").write_bytes(endless)


BOMBS: Final = (
    docx_of_spaces, docx_of_entities, docx_of_another_file, docx_of_nested_tables, docx_of_one_row, docx_of_many_parts,
    docx_of_false_size, pdf_of_one_page, pdf_packed_twice, pdf_of_many_pages, pdf_of_itself,
)  # fmt: skip
