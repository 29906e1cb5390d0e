"""JSON lines: a section for each record."""

from __future__ import annotations

import json
from collections.abc import Iterator

from devmem_stores.file.chunks import Section, lines_of
from devmem_stores.file.formats.records import flat, record_section


def sections(text: str) -> Iterator[Section]:
    """Return a section for each line; a line that is no JSON is kept as it is."""
    for number, line in enumerate(lines_of(text), start=1):
        try:
            fields = flat(json.loads(line))
        except (ValueError, RecursionError):
            fields = [("", line)]
        if (section := record_section(fields, number, number)) is not None:
            yield section
