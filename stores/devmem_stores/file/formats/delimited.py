"""CSV and TSV: a section for each record, its fields named by the first row."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator
from typing import Final

from devmem.text import UnreadableError
from devmem_stores.file.chunks import Section
from devmem_stores.file.formats.records import record_section

_SNIFFED: Final = 16 * 1024
_LONGEST_FIELD: Final = 16 * 1024 * 1024


def sections(text: str, delimiter: str | None = None) -> Iterator[Section]:
    """Return a section for each record; the delimiter is detected when it is None."""
    csv.field_size_limit(_LONGEST_FIELD)
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter or _delimiter(text))
    names: list[str] | None = None
    first = 1
    try:
        for row in reader:
            if names is None:
                names = row
            else:
                pairs = [(names[at] if at < len(names) else "", value) for at, value in enumerate(row)]
                if (section := record_section(pairs, first, reader.line_num)) is not None:
                    yield section
            first = reader.line_num + 1
    except csv.Error as error:
        raise UnreadableError(f"is no CSV: line {reader.line_num}: {error}") from error


def _delimiter(text: str) -> str:
    try:
        return csv.Sniffer().sniff(text[:_SNIFFED], delimiters=",;\t|").delimiter
    except csv.Error:
        return ","  # one column, or a table too small to tell
