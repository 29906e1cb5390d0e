"""DevAll's (ChatDev 2) index, a JSON file of `file_metadata`, `contents` and `config`, read for its embeddings.

Chunks are made from the files again, as DevAll's have no line numbers. Embeddings of equal texts are kept if the
configured model makes the same for some of them: the JSON does not name its model.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from typing import Any, Final

import numpy as np
from pydantic import ValidationError

from devmem import MemoryItem
from devmem.errors import DataFileError
from devmem.stores import Embedder, Vector, load_item
from devmem.stores.model_probe import made_by

_KEYS: Final = ("file_metadata", "contents", "config")


@dataclass(frozen=True, slots=True, kw_only=True)
class OldIndex:
    """Content of a DevAll index."""

    items: tuple[MemoryItem, ...]
    files: tuple[str, ...]
    """Paths as DevAll wrote them."""
    chunking: dict[str, Any] = field(default_factory=dict)
    """Its `config`: chunk_size and chunk_overlap."""


def read_old_index(path: Path) -> OldIndex:
    """Read the file.

    Raises:
        DataFileError: it is no such index.
        OSError: it cannot be read.
    """
    try:
        raw = json.loads(path.read_text("utf-8-sig"))
    except ValueError as error:
        raise DataFileError(path, f"is no JSON: {error}") from error
    if not isinstance(raw, dict) or not all(key in raw for key in _KEYS[:2]):
        raise DataFileError(path, "is no index of DevAll: expected a mapping with `file_metadata` and `contents`.")
    try:
        items = tuple(load_item(each) for each in raw["contents"])
    except (ValidationError, TypeError) as error:
        raise DataFileError(path, f"one of its `contents` is no item: {error}") from error
    return OldIndex(items=items, files=tuple(raw["file_metadata"]), chunking=dict(raw.get("config") or {}))


def usable_vectors(old: OldIndex, embedder: Embedder) -> dict[str, Vector]:
    """Return the embeddings by the hash of their text; none when another model made them.

    Raises:
        EmbeddingError: the model does not answer.
    """
    embedded = [item for item in old.items if item.embedding is not None and item.content_summary.strip()]
    if not made_by(embedder, embedded):
        return {}
    vectors = {}
    for item in embedded:
        unit = _unit(item.embedding)
        if unit is not None:
            vectors[sha256(item.content_summary.encode("utf-8", "surrogatepass")).hexdigest()] = unit
    return vectors


def _unit(vector: Vector | None) -> Vector | None:
    """Return the vector at unit length; None for the zeros that DevAll stored when its provider failed."""
    length = 0.0 if vector is None else float(np.linalg.norm(vector))
    return None if vector is None or length == 0.0 else (vector / length).astype(np.float32)
