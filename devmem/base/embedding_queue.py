"""Embedding items for a collection: a provider that is down costs no write, its items wait until it answers again."""

from __future__ import annotations

import itertools
import logging
import threading
from collections.abc import Callable, Sequence
from dataclasses import replace

from devmem.collections import Collection
from devmem.embedding import Embedder
from devmem.errors import EmbeddingError
from devmem.items import MemoryItem

_LOG = logging.getLogger(__name__)
_BATCH = 64
_FIRST_PAUSE, _LONGEST_PAUSE = 5.0, 120.0


class EmbeddingQueue:
    """Embeds new items, and those that wait."""

    def __init__(self, embedder: Embedder, clock: Callable[[], float]) -> None:
        self._embedder, self._clock = embedder, clock
        self._lock = threading.Lock()
        self._pause = _FIRST_PAUSE
        self._resume_at = 0.0
        self._may_wait = True

    def embed(self, items: Sequence[MemoryItem]) -> list[MemoryItem]:
        """Give the items with their embeddings; without, when the provider does not answer.

        A provider that failed is left in peace for some seconds, longer each time.
        """
        todo = [at for at, item in enumerate(items) if item.embedding is None and item.content_summary.strip()]
        if not todo:
            return list(items)
        if self._clock() < self._resume_at:
            self._may_wait = True
            return list(items)
        try:
            vectors = self._embedder.embed([items[at].content_summary for at in todo])
        except EmbeddingError as error:
            self._failed(error, len(todo))
            return list(items)
        self._pause, self._resume_at = _FIRST_PAUSE, 0.0
        done = list(items)
        for at, vector in zip(todo, vectors, strict=True):
            done[at] = replace(items[at], embedding=vector)
        return done

    def catch_up(
        self, collection: Collection, progress: Callable[[int], None] | None = None, *, batches: int | None = None
    ) -> int:
        """Embed the items that wait, at most some batches of them; gives how many.

        It stops where the provider stops answering.
        """
        if not self._may_wait or self._clock() < self._resume_at:
            return 0
        with self._lock:
            # Before looking: a write that fails meanwhile says so again.
            self._may_wait = False
            done = False
            try:
                caught_up, done = self._embed_waiting(collection, progress, batches)
            finally:
                self._may_wait = self._may_wait or not done
        return caught_up

    def _embed_waiting(
        self, collection: Collection, progress: Callable[[int], None] | None, batches: int | None
    ) -> tuple[int, bool]:
        """Embed what waits; gives how many, and whether nothing waits now."""
        caught_up = 0
        for _ in itertools.count() if batches is None else range(batches):
            if not (waiting := collection.waiting(_BATCH)):
                return caught_up, True
            vectors = {item.id: item.embedding for item in self.embed(waiting) if item.embedding is not None}
            if not vectors:
                return caught_up, False
            caught_up += collection.set_embeddings(vectors)
            if progress:
                progress(caught_up)
        return caught_up, False

    def _failed(self, error: EmbeddingError, count: int) -> None:
        _LOG.warning("%d item(s) wait for their embedding and are found by their text until then: %s", count, error)
        self._may_wait = True
        self._resume_at = self._clock() + self._pause
        self._pause = min(2 * self._pause, _LONGEST_PAUSE)
