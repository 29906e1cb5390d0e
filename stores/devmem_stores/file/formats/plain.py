"""Plain text: one section, which the chunker splits at sentences and lines."""

from __future__ import annotations

from devmem_stores.file.chunks import Section, lines_of, section_of


def sections(text: str) -> list[Section]:
    """Return the whole text as one section."""
    lines = lines_of(text)
    return [section_of(lines, 0, len(lines))] if text.strip() else []
