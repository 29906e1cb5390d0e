"""Settling whether a store's model made the embeddings of a file that does not name their model."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Sequence
from typing import Final

from devmem.collections import Collection
from devmem.collections.unlabelled import UnlabelledEmbeddings
from devmem.embedding import Embedder
from devmem.errors import EmbeddingError
from devmem.model.items import MemoryItem
from devmem.stores.model_probe import made_by
from devmem.text.backoff import Backoff

_LOG: Final = logging.getLogger(__name__)


class UnlabelledCheck:
    """Compares unlabelled embeddings with what the model makes, before they are searched by or written."""

    def __init__(self, store: str, embedder: Embedder | None, clock: Callable[[], float]) -> None:
        """Take the store's name, for messages, its model, and a monotonic clock in seconds."""
        self._store, self._embedder = store, embedder
        self._backoff = Backoff(clock=clock)
        self._lock = threading.Lock()
        self._warned = False

    def settle(self, collection: Collection) -> None:
        """Settle what the collection holds unlabelled; a model that does not answer is asked again later."""
        if self._embedder is None or not isinstance(collection, UnlabelledEmbeddings):
            return
        with self._lock:
            items = collection.unlabelled()
            if not items or self._backoff.left:
                return
            try:
                self._compare(self._embedder, collection, items)
            except EmbeddingError as error:
                self._backoff.failed()
                _LOG.warning(
                    "memory store %r: whether its model made the embeddings in %s cannot be found out now (%s); until "
                    "then their items are found by their words.",
                    self._store, collection.location, error,
                )  # fmt: skip
            else:
                self._backoff.worked()

    def keeps_vectors(self, collection: Collection) -> bool:
        """Whether the file holds embeddings that only a deliberate write may replace."""
        return isinstance(collection, UnlabelledEmbeddings) and collection.kept_vectors() > 0

    def _compare(self, embedder: Embedder, collection: UnlabelledEmbeddings, items: Sequence[MemoryItem]) -> None:
        if embedder.identity.dimension is None:
            # It is known with the first answer.
            embedder.embed(["probe"])
        fitting = [item for item in items if _length(item) == embedder.identity.dimension]
        own = fitting if made_by(embedder, fitting) else []
        taken = {item.id for item in own}
        others = [item for item in items if item.id not in taken]
        collection.settle_unlabelled(own, same_model=True)
        if others:
            collection.settle_unlabelled(others, same_model=False)
            self._warn(embedder, collection.location, others)

    def _warn(self, embedder: Embedder, location: str, others: Sequence[MemoryItem]) -> None:
        if self._warned:
            return
        self._warned = True
        lengths = ", ".join(map(str, sorted({_length(item) for item in others})))
        _LOG.warning(
            "memory store %r: %d embedding(s) in %s (dimension %s) name no model, and %s did not make them. Their "
            "items are found by their words, and the next write embeds them again: DevAll then finds them only with "
            "that model. To keep the embeddings, configure the model that made them, or use another file.",
            self._store, len(others), location, lengths, embedder.identity.name,
        )  # fmt: skip


def _length(item: MemoryItem) -> int:
    return 0 if item.embedding is None else len(item.embedding)
