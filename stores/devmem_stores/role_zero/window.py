"""A collection whose writes never fail for long: what cannot be stored now waits in an outbox, and is stored once."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from threading import Lock
from typing import Final
from urllib.parse import quote

from devmem import CollectionError, Filter, MemoryItem, WriteOutcome
from devmem.collections import CollectionInfo, Unique
from devmem.errors import CollectionClosedError, EmbeddingMismatchError
from devmem.stores import CollectionMemory, MemoryQuery, PassageEmbeddings, SearchReport, StoreSetup, WriteStatus
from devmem_stores.role_zero.config import RoleZeroConfig
from devmem_stores.role_zero.outbox import Outbox
from devmem_stores.role_zero.recall import related_hits

_LOG: Final = logging.getLogger(__name__)
_BATCH: Final = 256


class OutboxMemory(CollectionMemory):
    """Writes through an outbox, in order, and reads as if what waits there were stored."""

    def __init__(self, setup: StoreSetup) -> None:
        super().__init__(setup)
        self.config = setup.config_as(RoleZeroConfig)
        self._outbox = Outbox(self._outbox_place(), setup.clock)
        self._delivering = Lock()

    def _outbox_place(self) -> str | None:
        if self.setup.location(self.config.memory_path) is None:
            # What cannot fail needs none.
            return None
        if self.config.outbox != "auto":
            return self.setup.location(self.config.outbox)
        session = self.setup.session_dir
        return str(session / f"role_zero_outbox_{quote(self.name, safe='')}.db") if session else None

    def store_items(
        self,
        items: Sequence[MemoryItem],
        *,
        unique: Unique | None = None,
        embeddings: Mapping[str, PassageEmbeddings] | None = None,
    ) -> list[WriteOutcome]:
        """Store items, after those that wait in the outbox; where that fails, they wait there too."""
        failure = self._deliver()
        if failure is None:
            try:
                return super().store_items(items, unique=unique, embeddings=embeddings)
            except CollectionError as error:
                failure = self._kept_back(error)
        return self._queue_up(items, failure)

    def _kept_back(self, error: CollectionError) -> CollectionError:
        """Give the error if the items can wait for it to go away, and raise it otherwise."""
        if self._outbox.location is None or isinstance(error, CollectionClosedError | EmbeddingMismatchError):
            raise error
        self._outbox.failed()
        return error

    def _queue_up(self, items: Sequence[MemoryItem], failure: CollectionError) -> list[WriteOutcome]:
        there = self._known([item.id for item in items])
        try:
            self._outbox.put([item for item in items if item.id not in there])
        except CollectionError as error:
            raise error from failure
        _LOG.error(
            "memory store %r: %d message(s) wait in %s: %s", self.name, self.unsent, self._outbox.location, failure
        )
        reason = f"it waits in {self._outbox.location} and is delivered later: {failure}"
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
            _LOG.warning(
                "memory store %r: what is there already is found out when it can be read: %s", self.name, error
            )
            return set()

    def with_stored_embeddings(self, items: Sequence[MemoryItem]) -> list[MemoryItem]:
        """Return the items with their stored embeddings, as far as these can be read."""
        try:
            return super().with_stored_embeddings(items)
        except CollectionError as error:
            # A place that cannot be read either is no reason to lose them; storing them says what is wrong.
            _LOG.debug("memory store %r: embeddings may be made again: %s", self.name, error)
            return list(items)

    def _deliver(self) -> CollectionError | None:
        """Store what waits in the outbox, oldest first; gives what still keeps it from being stored."""
        with self._delivering:
            while waiting := self._outbox.oldest(_BATCH):
                if self._outbox.resting:
                    return CollectionError(self._outbox.location or "", "earlier messages wait here for another try.")
                try:
                    super().store_items(waiting, unique=Unique.ID)
                except CollectionError as error:
                    return self._kept_back(error)
                # Killed before this, the items are in both places; by their ids they are stored once.
                self._outbox.delete(ids=[item.id for item in waiting])
                self._outbox.delivered()
            return None

    @property
    def unsent(self) -> int:
        """How many messages wait in the outbox."""
        return self._outbox.count()

    def load(self) -> None:
        """Open the collection, and deliver what an earlier process left in the outbox."""
        super().load()
        self._catch_up()

    def save(self) -> None:
        """Deliver what waits in the outbox, and embed what waits for that, if it is possible now."""
        if self._catch_up():
            super().save()

    def _catch_up(self) -> bool:
        """Deliver what waits; says whether nothing waits now."""
        failure = self._deliver()
        if failure is not None:
            _LOG.warning("memory store %r: %d message(s) wait: %s", self.name, self.unsent, failure)
        return failure is None

    def related(self, query: MemoryQuery, admit: Callable[[MemoryItem], bool], spare: int = 0) -> SearchReport:
        """Give the best hits whose item is admitted, at most `query.top_k`, also those that say the same.

        Args:
            query: what is searched for.
            admit: says whether an item may be among them.
            spare: how many items are likely to be in the way.
        """
        # A hit that is not admitted must not have taken the place of another.
        ranking = replace(self.ranking, collapse=False)
        # Searching may take several turns, but the reranker reads once.
        found = related_hits(
            lambda limit: self.collection.search(self.search_query(query, limit=limit, ranking=ranking)),
            self.search_depth(query.top_k),
            admit,
            spare,
        )
        return self.rerank(query, SearchReport.of(found))

    def recent(self, limit: int, where: Filter | None = None) -> list[MemoryItem]:
        """Give the items stored last, newest first, those in the outbox included."""
        # The outbox first: what is delivered meanwhile is in both lists then, and not in none.
        waiting = self._outbox.newest(limit, where)
        there = {item.id for item in waiting}
        stored = [item for item in super().recent(limit, where) if item.id not in there]
        return [*waiting, *stored][: max(limit, 0)]

    def scan(self, where: Filter | None = None) -> Iterator[MemoryItem]:
        """Give every item that matches, in the order in which they came, those in the outbox last."""
        waiting = self._outbox.newest(self.unsent, where)[::-1]
        there = {item.id for item in waiting}
        yield from (item for item in super().scan(where) if item.id not in there)
        yield from waiting

    def count_memories(self, where: Filter | None = None) -> int:
        """Count the items that match, those in the outbox included."""
        waiting = [item.id for item in self._outbox.newest(self.unsent, where)]
        return super().count_memories(where) + len(waiting) - len(super().get(waiting))

    def get(self, ids: Sequence[str]) -> list[MemoryItem]:
        """Give the items that are there, in the order of `ids`."""
        found = {item.id: item for item in [*self._outbox.get(ids), *super().get(ids)]}
        return [found[wanted] for wanted in ids if wanted in found]

    def delete(self, *, ids: Sequence[str] | None = None, where: Filter | None = None) -> int:
        """Forget the named or the matching items."""
        # What is being delivered now would come back.
        with self._delivering:
            return self._outbox.delete(ids=ids, where=where) + super().delete(ids=ids, where=where)

    def clear(self) -> int:
        """Forget everything."""
        with self._delivering:
            return self._outbox.delete(where=Filter()) + super().clear()

    def trim(self, *, keep: int | None = None, stored_before: float | None = None) -> int:
        """Forget all but the newest items, and those that are too old."""
        self._deliver()
        return super().trim(keep=keep, stored_before=stored_before)

    def info(self) -> CollectionInfo:
        """Say where the items are and how many; those in the outbox count as items, and as waiting."""
        known = super().info()
        return replace(known, items=known.items + self.unsent, waiting=known.waiting + self.unsent)

    def close(self) -> None:
        """Release the files."""
        super().close()
        self._outbox.close()
