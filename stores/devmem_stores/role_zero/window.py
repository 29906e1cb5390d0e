"""A collection whose writes do not fail for long: what cannot be stored now waits in an outbox, and is stored once."""

from __future__ import annotations

import heapq
import json
import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import chain, islice
from pathlib import Path
from typing import Final

from devmem import Filter, Hit, MemoryItem, WriteOutcome
from devmem.encryption import key_of, unlock
from devmem.errors import CollectionBusyError, CollectionClosedError, CollectionError, EmbeddingMismatchError
from devmem.messages import Message, item_to_message
from devmem.storage import (
    STATE_FILE,
    Collection,
    CollectionInfo,
    DeliveryPolicy,
    Entry,
    EraseRequest,
    EraseResult,
    Order,
    Outbox,
    Residue,
    Unique,
    deliver,
    event_key,
    examine_pending,
)
from devmem.stores import (
    CollectionMemory,
    FileReport,
    MemoryQuery,
    PassageEmbeddings,
    SearchReport,
    StoreSetup,
    WriteStatus,
    dump_item,
    load_item,
)
from devmem.text import Backoff
from devmem.workflow import StoreFailure
from devmem_stores.role_zero.config import Importance, RoleZeroConfig


def open_outbox(file: Path, store: str) -> Outbox[MemoryItem]:
    """Return the outbox of a store in a file."""
    return Outbox(file, dump=_dump, load=lambda payload: load_item(json.loads(payload)), place=store)


def _dump(item: MemoryItem) -> str:
    # The embedding is made when the item is stored.
    return json.dumps(dump_item(replace(item, embedding=None)))


class WaitingItems:
    """The items in an outbox; there are none without an outbox."""

    def __init__(self, outbox: Outbox[MemoryItem] | None, clock: Callable[[], float]) -> None:
        """Look into an outbox; `clock` returns the time in seconds since the epoch, for what has expired."""
        self._outbox, self._clock = outbox, clock

    def newest_first(self, where: Filter | None = None) -> Iterator[MemoryItem]:
        """Yield the items that match, the one that came last first."""
        if self._outbox is None:
            return
        where, now = where or Filter(), self._clock()
        for entry in self._outbox.entries(newest_first=True):
            if where.admits(entry.value, now):
                yield entry.value

    def erasable(self, request: EraseRequest) -> list[MemoryItem]:
        """Return the items that are selected to be erased, expired and rejected ones included."""
        if self._outbox is None:
            return []
        return [entry.value for entry in self._outbox.entries(refused=True) if request.admits(entry.value)]

    def newest(self, limit: int, where: Filter | None = None) -> list[MemoryItem]:
        """Return at most `limit` matching items, newest first."""
        return list(islice(self.newest_first(where), max(limit, 0)))

    def get(self, ids: Sequence[str]) -> list[MemoryItem]:
        """Return the items that wait, in the order of `ids`."""
        return [entry.value for entry in self._outbox.get(ids)] if self._outbox is not None else []

    def delete(self, *, ids: Sequence[str] | None = None, where: Filter | None = None) -> int:
        """Forget the named items, or the matching ones; return their number."""
        if self._outbox is None:
            return 0
        if ids is None:
            ids = [item.id for item in self.newest_first(where)] if where is not None else []
        return self._outbox.remove(ids)


def _unlocked(file: Path, location: str) -> Path:
    """Use the key of the store, if it has one, for the outbox too."""
    if "://" not in location and (key := key_of(location)) is not None:
        unlock(file, key)
    return file


@dataclass(frozen=True, slots=True, kw_only=True)
class Recall:
    """Result of a recall: a role's newest messages, and older ones that are related."""

    recent: tuple[Message, ...]
    """The newest messages, in the order in which they came."""
    related: tuple[Message, ...] = ()
    """Older messages, none of which is in `recent`, the best first."""
    hits: tuple[Hit, ...] = ()
    """Hits of the search, in the order of `related`."""
    query: str = ""
    """Text that was searched for; empty when nothing was."""
    failures: tuple[StoreFailure, ...] = ()
    """Failures of the search; the newest messages are there all the same."""

    @property
    def messages(self) -> list[Message]:
        """The related messages by the time at which they were made, then the newest in the order of their arrival."""
        return [*sorted(self.related, key=lambda message: message.created_at), *self.recent]


def related_hits(
    search: Callable[[int], Sequence[Hit]], wanted: int, admit: Callable[[MemoryItem], bool], spare: int = 0
) -> list[Hit]:
    """Return the best hits whose item is admitted.

    Args:
        search: returns at most that many hits, best first.
        wanted: maximum number of hits.
        admit: whether an item may be among them.
        spare: number of items that are likely to be refused, to save a second search.
    """
    limit = wanted + spare
    while True:
        hits = search(limit)
        found = [hit for hit in hits if admit(hit.item)]
        if len(found) >= wanted or len(hits) < limit:
            return found[:wanted]
        limit *= 4


class Fresh:
    """Predicate for recall: a message with a text, not a recent one, not a repetition, and important enough."""

    def __init__(self, recent: Sequence[MemoryItem], importance: Importance, least: float) -> None:
        self._importance, self._least = importance, least
        self._ids = {item.id for item in recent}
        self._texts = {_said(item) for item in recent}
        self._seen: dict[str, str] = {}

    def __call__(self, item: MemoryItem) -> bool:
        """Whether the item may be recalled; the answer about an item is always the same."""
        said = _said(item)
        if not said or item.id in self._ids or said in self._texts:
            return False
        # The same words twice are recalled once; asked again about the same item, the answer is the same.
        if self._seen.setdefault(said, item.id) != item.id:
            return False
        return self._least <= 0 or self._importance(item_to_message(item)) >= self._least


def _said(item: MemoryItem) -> str:
    return " ".join(item.content_summary.casefold().split())


_LOG: Final = logging.getLogger(__name__)
_POLICY: Final = DeliveryPolicy(batch=256, failures=(CollectionError,))
_BUSY_SECONDS: Final = 1.0
_PATIENCE: Final = 30.0
"""Seconds to wait for another thread or process that is delivering."""


class OutboxMemory(CollectionMemory):
    """Writes through an outbox, in order, and reads as if what waits there were stored."""

    def __init__(self, setup: StoreSetup) -> None:
        super().__init__(setup)
        self.config = setup.config_as(RoleZeroConfig)
        file = self._outbox_file()
        self._outbox = open_outbox(file, setup.name) if file is not None else None
        self._waiting = WaitingItems(self._outbox, setup.clock)
        self._backoff = Backoff(clock=setup.monotonic)
        if self._outbox is not None:
            # A write need not wait for long where it can be queued.
            self.busy_timeout = _BUSY_SECONDS

    def show(self, view: Collection) -> None:
        """Take a view in the place of the collection; what waits in the outbox waits for the collection itself."""
        super().show(view)
        if self._outbox is not None:
            self._outbox.close()
        self._outbox, self._waiting = None, WaitingItems(None, self.setup.clock)

    def examine(self) -> Iterator[FileReport]:
        """Report on the collection's file, and on the outbox where it has a file of its own."""
        yield from super().examine()
        if (file := self._own_outbox) is not None and file.exists():
            yield examine_pending(file, self.name)

    @property
    def _own_outbox(self) -> Path | None:
        """File of the outbox where the configuration names one; by default it is in the session's state."""
        return None if self._outbox is None or self.config.outbox == "auto" else self._outbox.file

    def _outbox_file(self) -> Path | None:
        location = self.setup.location(self.config.memory_path)
        if location is None:
            # What cannot fail needs none.
            return None
        if self.config.outbox != "auto":
            place = self.setup.location(self.config.outbox)
            return _unlocked(Path(place), location) if place else None
        session = self.setup.session_dir
        return session / STATE_FILE if session else None

    def store_items(
        self,
        items: Sequence[MemoryItem],
        *,
        unique: Unique | None = None,
        embeddings: Mapping[str, PassageEmbeddings] | None = None,
        expected: Mapping[str, str | None] | None = None,
        absent: Filter | None = None,
    ) -> list[WriteOutcome]:
        """Store items, after those that wait in the outbox; where that fails, they wait there too.

        Items with conditions never wait: somebody else might change what they replace.
        """
        failure = self._deliver()
        if failure is None:
            try:
                return super().store_items(
                    items, unique=unique, embeddings=embeddings, expected=expected, absent=absent
                )
            except CollectionError as error:
                if not self._may_wait(error):
                    raise
                self._backoff.failed()
                failure = error
        if expected or absent is not None:
            raise failure
        return self._queue_up(items, failure)

    def _may_wait(self, error: Exception) -> bool:
        """Whether items can wait in the outbox until the error is gone."""
        lasting = isinstance(error, CollectionClosedError | EmbeddingMismatchError)
        return self._outbox is not None and not lasting

    def _queue_up(self, items: Sequence[MemoryItem], failure: Exception) -> list[WriteOutcome]:
        if self._outbox is None:
            raise failure
        there = self._known([item.id for item in items])
        try:
            self._outbox.put({item.id: item for item in items if item.id not in there})
        except CollectionError as error:
            raise error from failure
        place = self._outbox.location
        _LOG.error("memory store %r: %d message(s) wait in %s: %s", self.name, self.unsent, place, failure)
        reason = f"it waits in {place} and is delivered later: {failure}"
        return [
            WriteOutcome(status=WriteStatus.DUPLICATE, item_id=item.id, reason="this item is stored already")
            if item.id in there
            else WriteOutcome(status=WriteStatus.QUEUED, item_id=item.id, reason=reason, failure=failure)
            for item in items
        ]

    def _known(self, ids: Sequence[str]) -> set[str]:
        try:
            return {item.id for item in self.get(ids)}
        except CollectionError as error:
            _LOG.warning("memory store %r: duplicates are recognized on delivery: %s", self.name, error)
            return set()

    def stored_embeddings(self, items: Sequence[MemoryItem]) -> Mapping[str, PassageEmbeddings]:
        """Return the embeddings of items that are stored already, as far as these can be read."""
        try:
            return super().stored_embeddings(items)
        except CollectionError as error:
            # A place that cannot be read either is no reason to lose them; storing them reports what is wrong.
            _LOG.debug("memory store %r: embeddings may be made again: %s", self.name, error)
            return {}

    def _deliver(self) -> Exception | None:
        """Store what waits in the outbox, oldest first; return what still keeps it from being stored."""
        if self._outbox is None or not self._outbox.waiting():
            return None
        if self._backoff.left:
            return CollectionError(self._outbox.location, "earlier messages wait here for another try.")

        def send(entries: Sequence[Entry[MemoryItem]]) -> list[WriteOutcome]:
            return super(OutboxMemory, self).store_items([entry.value for entry in entries], unique=Unique.ID)

        delivery = deliver(self._outbox, send, _POLICY, patience=_PATIENCE)
        if delivery.stopped_by is None:
            self._backoff.worked()
        elif not self._may_wait(delivery.stopped_by):
            raise delivery.stopped_by
        else:
            self._backoff.failed()
        return delivery.stopped_by

    @contextmanager
    def _nothing_delivered(self) -> Iterator[None]:
        """Hold deliveries back: an item that is being delivered would come back after its deletion."""
        if self._outbox is None or not self._outbox.waiting():
            yield
            return
        with self._outbox.turn(_PATIENCE) as mine:
            if not mine:
                raise CollectionBusyError(self._outbox.location, "another process is delivering; nothing was deleted.")
            yield

    @property
    def unsent(self) -> int:
        """Number of messages that wait in the outbox."""
        return self._outbox.waiting() if self._outbox is not None else 0

    def load(self) -> None:
        """Open the collection, and deliver what an earlier process left in the outbox."""
        super().load()
        self._catch_up()

    def look(self) -> None:
        """Open the items as they are; nothing is delivered."""
        self.open_as_it_is()

    def save(self) -> None:
        """Deliver what waits in the outbox, and embed what waits for its embedding, if that is possible now."""
        if self._catch_up():
            super().save()

    def _catch_up(self) -> bool:
        """Deliver what waits; return whether nothing waits now."""
        failure = self._deliver()
        if failure is not None:
            _LOG.warning("memory store %r: %d message(s) wait: %s", self.name, self.unsent, failure)
        return failure is None

    def related(self, query: MemoryQuery, admit: Callable[[MemoryItem], bool], spare: int = 0) -> SearchReport:
        """Return the best hits whose item is admitted, at most `query.limit`, also those that say the same.

        Args:
            query: the query.
            admit: whether an item may be among them.
            spare: number of items that are likely to be refused.
        """
        # A hit that is not admitted must not have taken the place of another.
        ranking = replace(self.ranking, collapse=False)
        # Searching may take several turns, but the reranker reads once.
        found = related_hits(
            lambda limit: self.collection.search(self.search_query(query, limit=limit, ranking=ranking)).hits,
            self.search_depth(query.limit),
            admit,
            spare,
        )
        return self.rerank(query, SearchReport.of(found))

    def recent(
        self, limit: int, where: Filter | None = None, *, order: Order = Order.STORED, offset: int = 0
    ) -> list[MemoryItem]:
        """Return the last items of an order, the last one first; those in the outbox came last."""
        wanted = max(limit, 0) + max(offset, 0)
        # The outbox first: what is delivered meanwhile is in both lists then, and not in none.
        waiting = list(self._waiting.newest_first(where))
        there = {item.id for item in waiting}
        found = [*waiting, *(item for item in super().recent(wanted, where, order=order) if item.id not in there)]
        if order is Order.EVENT:
            # Stable: of equal ones, the one that came later stays before.
            found.sort(key=event_key, reverse=True)
        return found[max(offset, 0) : wanted]

    def scan(
        self, where: Filter | None = None, *, order: Order = Order.STORED, offset: int = 0
    ) -> Iterator[MemoryItem]:
        """Yield every item that matches, in an order; those in the outbox came last."""
        waiting = list(self._waiting.newest_first(where))[::-1]
        there = {item.id for item in waiting}
        stored = (item for item in super().scan(where, order=order) if item.id not in there)
        found = heapq.merge(stored, sorted(waiting, key=event_key), key=event_key)
        yield from islice(found if order is Order.EVENT else chain(stored, waiting), max(offset, 0), None)

    def count(self, where: Filter | None = None) -> int:
        """Count the items that match, those in the outbox included."""
        waiting = [item.id for item in self._waiting.newest_first(where)]
        return super().count(where) + len(waiting) - len(super().get(waiting))

    def get(self, ids: Sequence[str]) -> list[MemoryItem]:
        """Return the items that are there, in the order of `ids`."""
        found = {item.id: item for item in [*self._waiting.get(ids), *super().get(ids)]}
        return [found[wanted] for wanted in ids if wanted in found]

    def pop(self, count: int = 1, where: Filter | None = None) -> list[MemoryItem]:
        """Forget the items that came last and return them, newest first; what waits is delivered first."""
        self._deliver()
        return super().pop(count, where)

    def _delete(self, ids: Sequence[str] | None, where: Filter | None) -> int:
        with self._nothing_delivered():
            return self._waiting.delete(ids=ids, where=where) + super()._delete(ids, where)

    def select_erasable(self, request: EraseRequest) -> list[MemoryItem]:
        """Return the items that are selected to be erased, those in the outbox included."""
        stored = super().select_erasable(request)
        there = {item.id for item in stored}
        return [*stored, *(item for item in self._waiting.erasable(request) if item.id not in there)]

    def erase_selected(
        self, request: EraseRequest, derived: Sequence[str] = (), *, words: Sequence[str] = (), vacuum: bool = False
    ) -> EraseResult:
        """Erase items down to the bytes, in the outbox too."""
        waiting = [item.id for item in self._waiting.erasable(request)]
        return super().erase_selected(request, [*derived, *waiting], words=words, vacuum=vacuum)

    def rewrite_files(self) -> list[Residue]:
        """Remove the bytes of what was erased from the outbox."""
        return self._outbox.rewrite() if self._outbox is not None else []

    def files(self) -> list[Path]:
        """Return the collection's files and the outbox."""
        return [*super().files(), *([self._own_outbox] if self._own_outbox else [])]

    def clear(self) -> int:
        """Forget everything."""
        with self._nothing_delivered():
            return self._waiting.delete(where=Filter()) + super().clear()

    def trim(self, *, keep: int | None = None, stored_before: float | None = None) -> int:
        """Forget all but the newest items, and those that are too old."""
        self._deliver()
        return super().trim(keep=keep, stored_before=stored_before)

    def info(self) -> CollectionInfo:
        """Describe the collection; the items in the outbox count as items, and as waiting."""
        known = super().info()
        return replace(known, items=known.items + self.unsent, waiting=known.waiting + self.unsent)

    def close(self) -> None:
        """Release the files."""
        super().close()
        if self._outbox is not None:
            self._outbox.close()
