"""Embedding items for a collection: a provider that is down costs no write, its items wait until it answers again."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Sequence

from devmem.collections import Collection
from devmem.embedding import Embedder, PassageEmbeddings
from devmem.errors import EmbeddingError
from devmem.model.items import MemoryItem
from devmem.stores.item_embeddings import embed_items
from devmem.text.backoff import Backoff

_LOG = logging.getLogger(__name__)
_BATCH = 64


class EmbeddingQueue:
    """Embeds new items, and those that wait."""

    def __init__(self, embedder: Embedder, clock: Callable[[], float], *, tokens: bool = True) -> None:
        """Take the embedder and a monotonic clock in seconds; `tokens` asks for token vectors too."""
        self._embedder, self._tokens = embedder, tokens
        self._lock = threading.Lock()
        self._backoff = Backoff(clock=clock)
        self._may_wait = True

    def encode(self, items: Sequence[MemoryItem]) -> dict[str, PassageEmbeddings]:
        """Return the embeddings of those items that have none yet, by id; none when the provider does not answer.

        After a failure it backs off: the provider is not asked for some seconds, longer each time.
        """
        todo = [item for item in items if item.embedding is None and item.content_summary.strip()]
        if not todo:
            return {}
        if self._backoff.left:
            self._may_wait = True
            return {}
        try:
            embeddings = embed_items(self._embedder, todo, tokens=self._tokens)
        except EmbeddingError as error:
            self._failed(error, len(todo))
            return {}
        self._backoff.worked()
        return embeddings

    def catch_up(self, collection: Collection, progress: Callable[[int], None] | None = None) -> int:
        """Embed the items that wait, until the provider stops answering; return the number embedded."""
        if not self._may_wait or self._backoff.left:
            return 0
        with self._lock:
            # Before looking: a write that fails meanwhile says so again.
            self._may_wait = False
            done = False
            try:
                caught_up, done = self._embed_waiting(collection, progress)
            finally:
                self._may_wait = self._may_wait or not done
        return caught_up

    def _embed_waiting(self, collection: Collection, progress: Callable[[int], None] | None) -> tuple[int, bool]:
        """Embed items in batches; return the number embedded, and whether nothing waits now."""
        caught_up = 0
        while waiting := collection.waiting(_BATCH):
            embeddings = self.encode(waiting)
            if not embeddings:
                return caught_up, False
            caught_up += collection.set_embeddings(embeddings)
            if progress:
                progress(caught_up)
        return caught_up, True

    def _failed(self, error: EmbeddingError, count: int) -> None:
        _LOG.warning("%d item(s) wait for their embedding and are found by their text until then: %s", count, error)
        self._may_wait = True
        self._backoff.failed()
