"""Embedding items for a collection: a provider that is down costs no write, its items wait until it answers again."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Sequence

from devmem.collections import Collection, PreparedItem
from devmem.embedding import Embedder
from devmem.errors import EmbeddingError
from devmem.model.indexed_fields import has_text
from devmem.model.items import MemoryItem
from devmem.stores.item_embeddings import embed_items
from devmem.stores.readability import Readability
from devmem.text.backoff import Backoff

_LOG = logging.getLogger(__name__)
_BATCH = 64


class EmbeddingQueue:
    """Embeds new items, and those that wait."""

    def __init__(
        self,
        embedder: Embedder,
        clock: Callable[[], float],
        *,
        tokens: bool = True,
        readability: Readability | None = None,
    ) -> None:
        """Prepare a queue.

        Args:
            embedder: the model.
            clock: monotonic, in seconds.
            tokens: whether to embed tokens too.
            readability: is told how much of each text the model knows.
        """
        self._embedder, self._tokens, self._readability = embedder, tokens, readability
        self._lock = threading.Lock()
        self._backoff = Backoff(clock=clock)
        self._may_wait = True

    def embed(self, items: Sequence[MemoryItem | PreparedItem]) -> list[PreparedItem]:
        """Return the items with their embeddings, in their order.

        Those that have a text but no embeddings get them, unless the provider does not answer: it is then not called
        for some seconds, longer after each failure.
        """
        prepared = [PreparedItem.of(item) for item in items]
        todo = [at for at, one in enumerate(prepared) if one.embeddings is None and has_text(one.item)]
        if not todo:
            return prepared
        if self._backoff.left:
            self._may_wait = True
            return prepared
        try:
            embedded = embed_items(
                self._embedder, [prepared[at] for at in todo], tokens=self._tokens, known=self._note_known
            )
        except EmbeddingError as error:
            self._failed(error, len(todo))
            return prepared
        self._backoff.worked()
        for at, one in zip(todo, embedded, strict=True):
            prepared[at] = one
        return prepared

    def catch_up(
        self, collection: Collection, progress: Callable[[int], None] | None = None, *, at_once: bool = False
    ) -> int:
        """Embed the items that wait, until the provider stops answering; return the number embedded.

        Args:
            collection: where they are.
            progress: called with the number of items embedded so far.
            at_once: look for such items though none is known, and ask a provider that did not answer a moment ago.
        """
        if not at_once and (not self._may_wait or self._backoff.left):
            return 0
        if at_once:
            self._backoff.worked()
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
            made = ((one.item.id, one.embeddings) for one in self.embed(waiting))
            embeddings = {item_id: found for item_id, found in made if found is not None}
            if not embeddings:
                return caught_up, False
            caught_up += collection.set_embeddings(embeddings)
            if progress:
                progress(caught_up)
        return caught_up, True

    def _note_known(self, share: float) -> None:
        if self._readability is not None:
            self._readability.note(self._embedder.identity.name, share)

    def _failed(self, error: EmbeddingError, count: int) -> None:
        _LOG.warning("%d item(s) wait for their embedding and are found by their text until then: %s", count, error)
        self._may_wait = True
        self._backoff.failed()
