"""Writing to a store's collection: items are embedded, stored in one transaction, and the oldest are trimmed."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final

from devmem.collections import Collection, PreparedItem, Unique
from devmem.embedding import PassageEmbeddings
from devmem.errors import CollectionError
from devmem.model.indexed_fields import embedded_hash
from devmem.model.items import MemoryItem
from devmem.model.results import WriteOutcome
from devmem.search.filters import Filter
from devmem.stores.embedding_queue import EmbeddingQueue
from devmem.stores.memory import Progress

_LOG: Final = logging.getLogger(__name__)


class CollectionWriter:
    """Writes items with their embeddings; a provider that is down costs no write."""

    def __init__(self, store: str, queue: EmbeddingQueue | None) -> None:
        """Prepare the writes of a store.

        Args:
            store: the store's name, for messages.
            queue: embeds the items; None stores them without embeddings.
        """
        self._store, self._queue = store, queue

    def write(
        self,
        collection: Collection,
        items: Sequence[MemoryItem],
        *,
        unique: Unique,
        embeddings: Mapping[str, PassageEmbeddings] | None = None,
        expected: Mapping[str, str | None] | None = None,
        absent: Filter | None = None,
    ) -> list[WriteOutcome]:
        """Store items; those that `embeddings` does not have, by id, are embedded, and what waited before them."""
        prepared = [_prepared(item, (embeddings or {}).get(item.id)) for item in items]
        if self._queue is not None:
            self._queue.catch_up(collection)
            prepared = self._queue.embed(prepared)
        return collection.add(prepared, unique=unique, expected=expected, absent=absent)

    def trim(self, collection: Collection, *, keep: int | None, stored_before: float | None) -> None:
        """Delete what is too much or too old; a failure is logged, as the items before it are stored.

        Args:
            collection: the store's.
            keep: maximum number of items; None for any.
            stored_before: the time, in seconds since the epoch, before which items are deleted; None deletes none.
        """
        try:
            collection.trim(keep=keep, stored_before=stored_before)
        except CollectionError as error:
            # The next write trims again.
            _LOG.warning("memory store %r keeps more items than it should for now: %s", self._store, error)

    def embed_waiting(self, collection: Collection, progress: Progress | None = None, *, at_once: bool = False) -> int:
        """Embed the items that wait for it, until the provider stops answering; see `EmbeddingQueue.catch_up`."""
        return self._queue.catch_up(collection, progress, at_once=at_once) if self._queue is not None else 0

    def stored_embeddings(self, collection: Collection, items: Sequence[MemoryItem]) -> dict[str, PassageEmbeddings]:
        """Return the embeddings, by id, of those items that are stored with the same content already."""
        if self._queue is None:
            return {}
        contents = {item.id: embedded_hash(item) for item in items}
        stored = collection.embeddings(list(contents))
        return {item_id: found for item_id, found in stored.items() if found.content_hash == contents[item_id]}


def _prepared(item: MemoryItem, known: PassageEmbeddings | None) -> PreparedItem:
    """Return the item with its known embeddings, unless these are of another content."""
    prepared = PreparedItem.of(item)
    return replace(prepared, embeddings=known) if known and known.is_of(embedded_hash(item)) else prepared
