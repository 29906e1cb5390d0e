"""The fields of an item's metadata that are searched beside its text."""

from __future__ import annotations

import hashlib

from devmem.model.field_paths import FieldText, texts_at
from devmem.model.items import MemoryItem


def field_texts(item: MemoryItem) -> list[FieldText]:
    """Return the texts of an item's indexed fields, in their order; one that occurs again is left out."""
    found: dict[str, FieldText] = {}
    for path in item.indexed_fields or ():
        for each in texts_at(item.metadata, path):
            found.setdefault(each.text, each)
    return list(found.values())


def has_text(item: MemoryItem) -> bool:
    """Whether there is anything to embed: a summary, or a text in an indexed field."""
    return bool(item.content_summary.strip()) or bool(field_texts(item))


def embedded_hash(item: MemoryItem) -> str:
    """Return the SHA-256 of what is embedded, as 64 hex digits: the content's, unless texts of fields add to it."""
    texts = field_texts(item)
    if not texts:
        return item.content_hash
    digest = hashlib.sha256(item.content_hash.encode())
    for each in texts:
        digest.update(b"\x00field\x00" + each.text.encode("utf-8", "surrogatepass"))
    return digest.hexdigest()
