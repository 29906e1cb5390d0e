"""The contract of a store type."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import ClassVar

from devmem.collections import CollectionInfo, Erasing, Erasure, Filter, Order, Unreached, check_deletion, descendants
from devmem.config import ConfigModel
from devmem.model.file_report import FileReport
from devmem.model.items import MemoryContentSnapshot, MemoryItem
from devmem.model.results import Hit, HitGroup, MemoryWritePayload, SearchReport, WriteOutcome, from_store
from devmem.stores.conversation_groups import best_conversations, deepened
from devmem.stores.query import MemoryQuery
from devmem.stores.setup import StoreSetup

Progress = Callable[[int], None]
"""Called with the number of items done so far."""


class MemoryBase(ABC):
    """A memory with a policy: what it writes, what it keeps and how it answers.

    A store type supplies the abstract methods. One instance serves all nodes and is called from several threads. Called
    directly, a store raises what goes wrong; the `MemoryManager` isolates and reports it.
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
    def find(self, query: MemoryQuery) -> SearchReport:
        """Answer a query: the hits, best first, at most `query.top_k`, which is at least 1.

        With `query.explain`, the report says how the store came to them, as far as it can tell.
        """

    @abstractmethod
    def update(self, payload: MemoryWritePayload) -> WriteOutcome:
        """Store what a finished node said; durable when it returns."""

    @abstractmethod
    def add(self, items: Sequence[MemoryItem], progress: Progress | None = None) -> list[WriteOutcome]:
        """Store finished items, as an import does; each keeps its id and is stored once."""

    @abstractmethod
    def get(self, ids: Sequence[str]) -> list[MemoryItem]:
        """Return the items that are there, in the order of `ids`."""

    @abstractmethod
    def recent(
        self, limit: int, where: Filter | None = None, *, order: Order = Order.STORED, offset: int = 0
    ) -> list[MemoryItem]:
        """Return the last items of an order, the last one first, after passing over `offset` of them."""

    def delete(self, *, ids: Sequence[str] | None = None, where: Filter | None = None) -> int:
        """Delete the named or the matching items; return how many there were.

        Raises:
            FilterError: neither ids nor a filter says what to delete; see `clear`.
        """
        check_deletion(ids, where)
        return self._delete(ids, where)

    @abstractmethod
    def _delete(self, ids: Sequence[str] | None, where: Filter | None) -> int:
        """Delete the items that have one of the ids, None for any, and match the filter, None for any."""

    def erase(self, *, ids: Sequence[str] | None = None, where: Filter | None = None) -> int:
        """Delete the named or the matching items for good, with every version that is kept of them.

        A filter that admits everything erases everything. Return how many items there were.

        Raises:
            FilterError: there are neither ids nor a filter.
        """
        is_whole = ids is None and where is not None and where.everything()
        return self.clear() if is_whole else self.delete(ids=ids, where=where)

    def select_erasable(self, erasing: Erasing) -> list[MemoryItem]:
        """Return the items that are selected to be erased, and one version of those that are no longer there."""
        return [item for item in self._all_items() if erasing.admits(item)]

    def derived_from(self, ids: Sequence[str]) -> list[MemoryItem]:
        """Return the items that were derived from some items, or from such items, as their provenance says."""
        return descendants(self._all_items(), ids)

    def _all_items(self) -> list[MemoryItem]:
        return self.recent(self.count_memories())

    def begin_purge(self, erasing: Erasing) -> int:  # noqa: ARG002 - of a subclass
        """Record durably, where other machines open the store too, what is about to be purged.

        Whoever opens the store finishes it if this process dies; a store that is used from one machine records nothing,
        as the decision is kept beside its workflow.

        Returns:
            Number of the items that were there and are recorded.
        """
        return 0

    def purge(
        self,
        erasing: Erasing,
        derived: Sequence[str] = (),
        *,
        words: Sequence[str] = (),  # noqa: ARG002 - of a subclass
        vacuum: bool = False,  # noqa: ARG002 - of a subclass
    ) -> Erasure:
        """Erase items as far as the store reaches: a store type with files of its own overrides this.

        Args:
            erasing: the items.
            derived: ids of more items.
            words: of the items, to be looked for in the store's files afterwards; without any none are searched.
            vacuum: rewrite a database even if nothing is found.
        """
        ids = [item.id for item in self.select_erasable(erasing)]
        items = self.clear() if erasing.is_everything else self.erase(ids=[*ids, *derived])
        place = self.info().location
        reason = "stores of this type do not report what is left in logs, caches and backups"
        return Erasure(items=items, unreached=(Unreached(place=place, reason=reason),))

    @abstractmethod
    def clear(self) -> int:
        """Delete everything; return how many items there were."""

    @abstractmethod
    def trim(self, *, keep: int | None = None, stored_before: float | None = None) -> int:
        """Delete all but the `keep` newest items, and those stored before a time (seconds since the epoch)."""

    @abstractmethod
    def count_memories(self, where: Filter | None = None) -> int:
        """Return the number of items that a search could find."""

    @abstractmethod
    def info(self) -> CollectionInfo:
        """Report where the items are and how many there are."""

    @abstractmethod
    def close(self) -> None:
        """Release what the memory holds; closing twice is allowed."""

    def examine(self) -> Iterable[FileReport]:
        """Report on every file that the store keeps, without opening the store or changing anything.

        `devmem doctor` calls it on a store that is not loaded.
        """
        return ()

    @classmethod
    def examine_file(cls, path: Path) -> FileReport | None:  # noqa: ARG003 - of a subclass
        """Report on a file of a kind that only this store type keeps; None for any other."""
        return None

    def files(self) -> Iterable[Path]:
        """Return the files and folders that the store keeps, whether they are there yet or not; nothing is opened."""
        return ()

    def compress(self) -> int:
        """Make the memory smaller without losing what it says; return by how many items, often 0."""
        return 0

    def find_conversations(self, query: MemoryQuery, hits_each: int) -> list[HitGroup]:
        """Rank conversations by their best hits; a store with better evidence overrides it."""
        return best_conversations(self.find(deepened(query)), limit=query.top_k, hits_each=hits_each)

    def search(self, query: MemoryQuery) -> list[Hit]:
        """Return the hits for a query, best first, with every signal that ranked them."""
        return list(self._report(query).hits)

    def explain(self, query: MemoryQuery) -> SearchReport:
        """Return the hits of `search`, and how the store came to them, as far as it can tell."""
        return self._report(replace(query, explain=True))

    def _report(self, query: MemoryQuery) -> SearchReport:
        if query.top_k < 1:
            return SearchReport()
        report = self.find(query)
        return replace(report, hits=tuple(from_store(hit, self.name) for hit in report.hits))

    def search_conversations(self, query: MemoryQuery, *, hits_each: int = 3) -> list[HitGroup]:
        """Return the conversations that a query is about, best first: at most `query.top_k`, each with its best hits.

        Items with the same conversation, session, agent and user are one conversation; an item of none is its own.
        """
        found = self.find_conversations(query, hits_each) if query.top_k > 0 and hits_each > 0 else []
        return [replace(group, hits=tuple(from_store(hit, self.name) for hit in group.hits)) for group in found]

    def retrieve(
        self, agent_role: str, query: MemoryContentSnapshot | str, top_k: int = 3, similarity_threshold: float = -1.0
    ) -> list[MemoryItem]:
        """Return the best items for a query; `search` returns them with their scores."""
        snapshot = MemoryContentSnapshot(text=query) if isinstance(query, str) else query
        wanted = MemoryQuery(
            text=snapshot.text,
            top_k=top_k,
            similarity_threshold=similarity_threshold,
            agent_role=agent_role,
            snapshot=snapshot,
        )
        return [hit.item for hit in self.search(wanted)]

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
