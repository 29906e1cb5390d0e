"""JSON lines: a section for each record."""

from __future__ import annotations

import json

from devmem_stores.file.formats.records import flat, record_section
from devmem_stores.file.sections import Section, lines_of


def sections(text: str) -> list[Section]:
    """Return a section for each line; a line that is no JSON is kept as it is."""
    found = []
    for number, line in enumerate(lines_of(text), start=1):
        try:
            fields = flat(json.loads(line))
        except (ValueError, RecursionError):
            fields = [("", line)]
        found.append(record_section(fields, number, number))
    return [section for section in found if section is not None]
