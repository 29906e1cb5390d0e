"""What a store type implements."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import ClassVar, Final

from devmem.collections import CollectionInfo, Filter
from devmem.config import ConfigModel
from devmem.model.items import MemoryContentSnapshot, MemoryItem
from devmem.model.results import Hit, HitGroup, MemoryWritePayload, SearchReport, WriteOutcome, from_store
from devmem.recall import by_conversation
from devmem.stores.query import MemoryQuery
from devmem.stores.setup import StoreSetup

_GROUPED_EACH: Final = 10
_LEAST_GROUPED: Final = 50
"""To rank conversations by their best items, so many items are looked at for each, and so many at least."""

Progress = Callable[[int], None]
"""Called with the number of items done so far."""


class MemoryBase(ABC):
    """A memory with a policy: what it writes, what it keeps and how it answers.

    A store type supplies the verbs that start with an underscore. One instance serves all nodes and is called from
    several threads. Called directly, a store raises what goes wrong; the `MemoryManager` isolates and reports it.
    """

    config_model: ClassVar[type[ConfigModel]]
    """The model of the store's `config:` block."""
    summary: ClassVar[str] = ""
    """One line for people who choose a store type."""

    def __init__(self, setup: StoreSetup) -> None:
        self.setup = setup
        self.name = setup.name

    @abstractmethod
    def load(self) -> None:
        """Make the memory ready; loading twice is allowed.

        Raises:
            DevmemError: it cannot be used; the error says why and what to do.
        """

    def save(self) -> None:  # noqa: B027 - most stores are durable without it
        """Finish what could not be finished before; cheap when there is nothing to do."""

    @abstractmethod
    def _search(self, query: MemoryQuery) -> list[Hit]:
        """Give the hits, best first, at most `query.top_k`."""

    @abstractmethod
    def _update(self, payload: MemoryWritePayload) -> WriteOutcome:
        """Store what the payload says, durably."""

    @abstractmethod
    def add(self, items: Sequence[MemoryItem], progress: Progress | None = None) -> list[WriteOutcome]:
        """Store finished items, as an import does; each keeps its id and is stored once."""

    @abstractmethod
    def get(self, ids: Sequence[str]) -> list[MemoryItem]:
        """Give the items that are there, in the order of `ids`."""

    @abstractmethod
    def recent(self, limit: int, where: Filter | None = None) -> list[MemoryItem]:
        """Give the items stored last, newest first."""

    @abstractmethod
    def delete(self, *, ids: Sequence[str] | None = None, where: Filter | None = None) -> int:
        """Forget the named or the matching items; with neither, nothing. Gives how many there were."""

    @abstractmethod
    def clear(self) -> int:
        """Forget everything; gives how many items there were."""

    @abstractmethod
    def trim(self, *, keep: int | None = None, stored_before: float | None = None) -> int:
        """Forget all but the `keep` newest items, and those stored before a time (seconds since the epoch)."""

    @abstractmethod
    def count_memories(self, where: Filter | None = None) -> int:
        """Count the items that a search could find."""

    @abstractmethod
    def info(self) -> CollectionInfo:
        """Say where the items are and how much there is."""

    @abstractmethod
    def close(self) -> None:
        """Release what the memory holds; closing twice is allowed."""

    def compress(self) -> int:
        """Make the memory smaller without losing what it says; gives by how many items, often 0."""
        return 0

    def search(self, query: MemoryQuery) -> list[Hit]:
        """Give the hits for a query, best first, with every signal that ranked them."""
        return [from_store(hit, self.name) for hit in self._search(query)] if query.top_k > 0 else []

    def explain(self, query: MemoryQuery) -> SearchReport:
        """Give what `search` gives, and how the store came to it, as far as it can tell."""
        if query.top_k < 1:
            return SearchReport()
        report = self._explain(query)
        return replace(report, hits=tuple(from_store(hit, self.name) for hit in report.hits))

    def _explain(self, query: MemoryQuery) -> SearchReport:
        hits = tuple(self._search(query))
        return SearchReport(hits=hits, candidates=len(hits))

    def search_conversations(self, query: MemoryQuery, *, hits_each: int = 3) -> list[HitGroup]:
        """Give the conversations that a query is about, best first: at most `query.top_k`, each with its best items.

        What has the same conversation, session, agent and user is one conversation; an item of none stands for itself.
        """
        found = self._conversations(query, hits_each) if query.top_k > 0 and hits_each > 0 else []
        return [replace(group, hits=tuple(from_store(hit, self.name) for hit in group.hits)) for group in found]

    def _conversations(self, query: MemoryQuery, hits_each: int) -> list[HitGroup]:
        """Rank conversations by their best item."""
        deep = self._search(replace(query, top_k=max(_LEAST_GROUPED, _GROUPED_EACH * query.top_k)))
        # A store may order its hits otherwise, as by time.
        groups = by_conversation(sorted(deep, key=lambda hit: -hit.score))[: query.top_k]
        return [replace(group, hits=group.hits[:hits_each]) for group in groups]

    def retrieve(
        self, agent_role: str, query: MemoryContentSnapshot | str, top_k: int = 3, similarity_threshold: float = -1.0
    ) -> list[MemoryItem]:
        """Give the best items for a query; `search` gives them with their scores."""
        snapshot = MemoryContentSnapshot(text=query) if isinstance(query, str) else query
        asked = MemoryQuery(
            text=snapshot.text,
            top_k=top_k,
            similarity_threshold=similarity_threshold,
            agent_role=agent_role,
            snapshot=snapshot,
        )
        return [hit.item for hit in self.search(asked)]

    def update(self, payload: MemoryWritePayload) -> WriteOutcome:
        """Store what a finished node said; durable when it returns."""
        return self._update(payload)

    async def asearch(self, query: MemoryQuery) -> list[Hit]:
        """Do `search` without blocking the event loop."""
        return await asyncio.to_thread(self.search, query)

    async def aretrieve(
        self, agent_role: str, query: MemoryContentSnapshot | str, top_k: int = 3, similarity_threshold: float = -1.0
    ) -> list[MemoryItem]:
        """Do `retrieve` without blocking the event loop."""
        return await asyncio.to_thread(self.retrieve, agent_role, query, top_k, similarity_threshold)

    async def aupdate(self, payload: MemoryWritePayload) -> WriteOutcome:
        """Do `update` without blocking the event loop."""
        return await asyncio.to_thread(self.update, payload)
