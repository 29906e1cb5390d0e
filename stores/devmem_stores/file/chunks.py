"""Chunks of a file's sections."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from hashlib import sha256
from typing import Final

from devmem_stores.file.chunking import Chunking, chunk
from devmem_stores.file.sections import Section

VERSION: Final = "1"
"""Recorded with every file; files chunked by another version are chunked again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Chunk:
    """A part of a file that is found, shown and embedded as one."""

    id: str
    """Made of the file's name and the content, so that a chunk which only moved keeps it."""
    summary: str
    """Its headings or its symbol, and its text."""
    hash: str
    """SHA-256 of the summary: equal ones have the same embedding."""
    first: int
    """1-based line of the file."""
    last: int
    heading: tuple[str, ...] = ()
    """Headings of its section, outermost first."""
    symbol: str | None = None
    """Name of the definition that it is part of, such as `Class.method`."""
    page: int | None = None
    """1-based, where the file has pages."""


def chunks_of(name: str, sections: Iterable[Section], chunking: Chunking) -> Iterator[Chunk]:
    """Split the sections of a file, in order."""
    seen: Counter[str] = Counter()
    for section in sections:
        for piece in chunk(section, chunking):
            summary = _summary(section, piece.text)
            digest = sha256(summary.encode("utf-8", "surrogatepass")).hexdigest()
            key = f"{name}\0{digest}\0{seen[digest]}"
            seen[digest] += 1
            yield Chunk(
                id=sha256(key.encode("utf-8", "surrogatepass")).hexdigest()[:32],
                summary=summary,
                hash=digest,
                first=piece.first,
                last=piece.last,
                heading=section.heading,
                symbol=section.symbol,
                page=section.page,
            )


def _summary(section: Section, text: str) -> str:
    """Put the headings before the text, without those that its first line contains."""
    first = text.split("\n", 1)[0]
    above = [part for part in section.heading if part and part not in first]
    # A definition's own line has its name, but not the class that it is in.
    if section.symbol and ("." in section.symbol or section.symbol not in first):
        above.append(section.symbol)
    return f"{' > '.join(above)}\n{text}" if above else text
