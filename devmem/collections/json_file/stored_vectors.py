"""The embeddings of a JSON file: which of them the collection's model made, and which only stand in the file.

DevAll (ChatDev 2) records no model. What it stored is searched by once it is settled that the collection's model made
it; until then, and otherwise, it is written back as it was read.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from hashlib import sha256
from typing import Final

import numpy as np

from devmem.collections.json_file.file_format import JsonEntry
from devmem.collections.prepared import PreparedItem
from devmem.embedding import ModelIdentity, PassageEmbeddings
from devmem.model.indexed_fields import embedded_hash
from devmem.model.items import MemoryItem, Vector

_UNIT_ERROR: Final = 1e-5


class StoredVectors:
    """Embeddings as they stand in the file, by item; what was settled of one holds for as long as it stays the same."""

    def __init__(self) -> None:
        self._entries: Mapping[str, JsonEntry] = {}
        """Entries with an embedding, by the item's id."""
        self._foreign: Mapping[bytes, MemoryItem] = {}
        """Items whose embedding is not known to be the model's, by the embedding's hash."""
        self._settled: dict[bytes, bool] = {}
        """Whether the collection's model made an embedding, by the embedding's hash."""

    def usable(self, entries: Sequence[JsonEntry], model: ModelIdentity | None) -> list[PreparedItem]:
        """Return the items, only with such embeddings as the model made, at unit length.

        Without a model all of one length are taken: nothing is searched by them.
        """
        own = [entry if self._is_own(entry, model) else _without_embedding(entry) for entry in entries]
        lengths = Counter(len(each.item.embedding) for each in own if each.item.embedding is not None)
        wanted = model.dimension if model and model.dimension else next(iter(dict(lengths.most_common(1))), None)
        return [_prepared(each, wanted) for each in own]

    def remember(self, entries: Iterable[JsonEntry], model: ModelIdentity | None) -> None:
        """Take over the entries that the file holds now."""
        self._entries = {entry.item.id: entry for entry in entries if entry.item.embedding is not None}
        unlabelled = [entry.item for entry in self._entries.values() if model and entry.model is None]
        foreign = {_key(item): item for item in unlabelled if _norm(item.embedding)}
        self._foreign = {key: item for key, item in foreign.items() if not self._settled.get(key)}

    def entry(self, item: MemoryItem, model: ModelIdentity | None, passages: PassageEmbeddings | None) -> JsonEntry:
        """Return what is written of an item: its embeddings with the model's name, or what the file held of it."""
        kept = self._entries.get(item.id)
        if kept and embedded_hash(kept.item) != embedded_hash(item):
            kept = None
        if kept and (model is None or item.embedding is None):
            return JsonEntry(replace(item, embedding=kept.item.embedding), kept.model, kept.passages)
        return JsonEntry(item, model.name if model else None, passages)

    def unlabelled(self) -> list[MemoryItem]:
        """Return the items whose embedding names no model and is not settled."""
        return [item for key, item in self._foreign.items() if key not in self._settled]

    def settle(self, items: Iterable[MemoryItem], *, same_model: bool) -> None:
        """Record whether the collection's model made the embeddings of these items."""
        self._settled |= {_key(item): same_model for item in items}
        self._foreign = {key: item for key, item in self._foreign.items() if not self._settled.get(key)}

    def kept(self) -> int:
        """Return the number of embeddings that are not known to be the model's."""
        return len(self._foreign)

    def _is_own(self, entry: JsonEntry, model: ModelIdentity | None) -> bool:
        if model is None or entry.item.embedding is None or entry.model is not None:
            return True
        return self._settled.get(_key(entry.item), False)


def _without_embedding(entry: JsonEntry) -> JsonEntry:
    return replace(entry, item=replace(entry.item, embedding=None), passages=None)


def _prepared(entry: JsonEntry, dimension: int | None) -> PreparedItem:
    """Return the item of an entry with its embeddings; without them, so that it waits, where some are missing."""
    first = _unit(entry.item.embedding, dimension)
    prepared = PreparedItem.of(replace(entry.item, embedding=first))
    # DevAll embeds an item as a whole; what devmem embedded has a vector for each passage.
    if first is None or entry.model is None:
        return prepared
    found = entry.passages or prepared.embeddings
    is_whole = found and len(found.vectors) == len(prepared.passages) and found.is_of(embedded_hash(entry.item))
    return replace(prepared, embeddings=found if is_whole else None)


def _key(item: MemoryItem) -> bytes:
    vector = b"" if item.embedding is None else item.embedding.tobytes()
    return sha256(item.content_hash.encode() + vector).digest()


def _norm(vector: Vector | None) -> float:
    """Return the length of a vector; 0 for none, and for one that is not finite."""
    norm = 0.0 if vector is None else float(np.linalg.norm(vector))
    return norm if np.isfinite(norm) else 0.0


def _unit(vector: Vector | None, dimension: int | None) -> Vector | None:
    """Return the vector at unit length; None for zeros, which DevAll stores where its provider fails."""
    norm = _norm(vector)
    if vector is None or len(vector) != dimension or norm == 0:
        return None
    # What is of unit length already is left as it is, bit for bit.
    return vector if abs(norm - 1) < _UNIT_ERROR else vector / np.float32(norm)
