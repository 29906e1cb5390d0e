"""Items that store a file's chunks, and their form with a citation."""

from __future__ import annotations

from dataclasses import replace
from hashlib import sha256

from pydantic import JsonValue

from devmem import Hit, MemoryContentSnapshot, MemoryItem
from devmem.stores import TRUST, Provenance, SourceKind
from devmem_stores.file.chunks import Chunk


def item_of(name: str, chunk: Chunk, now: float) -> MemoryItem:
    """Return the item of a chunk; `now` is in seconds since the epoch.

    The file's name is found by its words, and is no part of the embedded text: a rename needs no new embedding.
    """
    cited = citation(name, chunk)
    metadata: dict[str, JsonValue] = {
        "source_type": "file",
        "path": name,
        "citation": cited,
        "line_start": chunk.first,
        "line_end": chunk.last,
        "chunk_hash": chunk.hash,
    }
    if chunk.heading:
        metadata["heading"] = list(chunk.heading)
    if chunk.symbol:
        metadata["symbol"] = chunk.symbol
    if chunk.page is not None:
        metadata["page"] = chunk.page
    # Not of the content alone: a chunk that moved must replace the older item.
    said = "\0".join([cited, chunk.hash, *chunk.heading, chunk.symbol or ""])
    return MemoryItem(
        id=chunk.id,
        content_summary=chunk.summary,
        content_hash=sha256(said.encode("utf-8", "surrogatepass")).hexdigest(),
        metadata=metadata,
        created_at=now,
        input_snapshot=MemoryContentSnapshot(text=name),
        provenance=Provenance(kind=SourceKind.FILE, name=name),
        trust=TRUST[SourceKind.FILE],
    )


def citation(name: str, chunk: Chunk) -> str:
    """Return the place of a chunk: `docs/guide.md:40-62`, or `paper.pdf:page 3` where there are pages."""
    if chunk.page is not None:
        return f"{name}:page {chunk.page}"
    return f"{name}:{chunk.first}" if chunk.first == chunk.last else f"{name}:{chunk.first}-{chunk.last}"


def shown(hit: Hit) -> MemoryItem:
    """Return a hit's item with its citation before the text, as an agent sees it."""
    cited = hit.item.metadata.get("citation")
    return replace(hit.item, content_summary=f"[{cited}] {hit.item.content_summary}") if cited else hit.item
