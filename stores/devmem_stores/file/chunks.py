"""Chunks of a file's sections, and the items that store them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, replace
from hashlib import sha256

from pydantic import JsonValue

from devmem import Hit, MemoryContentSnapshot, MemoryItem
from devmem.stores import Provenance, SourceKind
from devmem_stores.file.chunking import Chunking, chunk
from devmem_stores.file.sections import Section

VERSION = "1"
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
    section: Section
    first: int
    last: int


def chunks_of(name: str, sections: Iterable[Section], chunking: Chunking) -> list[Chunk]:
    """Split the sections of a file."""
    found = []
    seen: Counter[str] = Counter()
    for section in sections:
        for piece in chunk(section, chunking):
            summary = _summary(section, piece.text)
            digest = sha256(summary.encode("utf-8", "surrogatepass")).hexdigest()
            key = f"{name}\0{digest}\0{seen[digest]}"
            seen[digest] += 1
            item_id = sha256(key.encode("utf-8", "surrogatepass")).hexdigest()[:32]
            found.append(
                Chunk(id=item_id, summary=summary, hash=digest, section=section, first=piece.first, last=piece.last)
            )
    return found


def _summary(section: Section, text: str) -> str:
    """Put the headings before the text, without those that its first line contains."""
    first = text.split("\n", 1)[0]
    above = [part for part in section.heading if part and part not in first]
    # A definition's own line says its name, but not the class that it is in.
    if section.symbol and ("." in section.symbol or section.symbol not in first):
        above.append(section.symbol)
    return f"{' > '.join(above)}\n{text}" if above else text


def item_of(name: str, made: Chunk, now: float) -> MemoryItem:
    """Make the item; the name is found by its words, and is no part of what is embedded: a rename costs nothing.

    `now` is in seconds since the epoch.
    """
    section = made.section
    cited = citation(name, made)
    metadata: dict[str, JsonValue] = {
        "source_type": "file",
        "path": name,
        "citation": cited,
        "line_start": made.first,
        "line_end": made.last,
        "chunk_hash": made.hash,
    }
    if section.heading:
        metadata["heading"] = list(section.heading)
    if section.symbol:
        metadata["symbol"] = section.symbol
    if section.page is not None:
        metadata["page"] = section.page
    # Not of the content alone: a chunk that moved must take the place of the older item.
    said = "\0".join([cited, made.hash, *section.heading, section.symbol or ""])
    return MemoryItem(
        id=made.id,
        content_summary=made.summary,
        content_hash=sha256(said.encode("utf-8", "surrogatepass")).hexdigest(),
        metadata=metadata,
        created_at=now,
        input_snapshot=MemoryContentSnapshot(text=name),
        provenance=Provenance(kind=SourceKind.FILE, name=name),
    )


def citation(name: str, made: Chunk) -> str:
    """Return the place of a chunk: `docs/guide.md:40-62`, or `paper.pdf:page 3` where there are pages."""
    if made.section.page is not None:
        return f"{name}:page {made.section.page}"
    return f"{name}:{made.first}" if made.first == made.last else f"{name}:{made.first}-{made.last}"


def shown(hit: Hit) -> MemoryItem:
    """Return a hit's item with its citation before the text, as an agent sees it."""
    cited = hit.item.metadata.get("citation")
    return replace(hit.item, content_summary=f"[{cited}] {hit.item.content_summary}") if cited else hit.item
