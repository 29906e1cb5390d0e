"""The `sharded` store: other stores of the workflow as one, which share the items by hash and are searched at once.

It is made of public names only, as an example of a store that composes others.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from itertools import chain
from typing import ClassVar, TypeVar
from zlib import crc32

from devmem import Filter, MemoryBase, MemoryItem, MemoryWritePayload, SearchReport, WriteOutcome
from devmem.storage import CollectionInfo, EraseRequest, EraseResult, Order
from devmem.stores import ConfigModel, MemoryQuery, Progress, StoreSetup
from devmem_stores.sharded.config import ShardedConfig

T = TypeVar("T")


class ShardedMemory(MemoryBase):
    """Routes each item to one store by the hash of its id, each exchange by that of its text."""

    config_model: ClassVar[type[ConfigModel]] = ShardedConfig
    summary: ClassVar[str] = "Several stores as one: items are spread by hash, and all stores are searched at once"

    def __init__(self, setup: StoreSetup) -> None:
        super().__init__(setup)
        self._shards = [setup.open_store(name) for name in setup.config_as(ShardedConfig).stores]

    def _shard(self, key: str) -> MemoryBase:
        return self._shards[crc32(key.encode()) % len(self._shards)]

    def _each(self, ask: Callable[[MemoryBase], T]) -> list[T]:
        """Ask all stores at once; raise what the first one that fails raises."""
        # The threads end with the call: a process that forks has none.
        with ThreadPoolExecutor(len(self._shards), thread_name_prefix=self.name) as executor:
            return list(executor.map(ask, self._shards))

    def load(self) -> None:
        """Open every store."""
        for shard in self._shards:
            shard.load()

    def save(self) -> None:
        """Finish what every store could not finish before."""
        for shard in self._shards:
            shard.save()

    def close(self) -> None:
        """Close every store."""
        for shard in self._shards:
            shard.close()

    def answer(self, query: MemoryQuery) -> SearchReport:
        """Search all stores and merge their hits by score."""
        reports = self._each(lambda shard: shard.answer(query))
        hits = heapq.nlargest(query.limit, chain(*(each.hits for each in reports)), key=lambda hit: hit.score)
        return replace(SearchReport.of(hits), candidates=sum(each.candidates for each in reports))

    def update(self, payload: MemoryWritePayload) -> WriteOutcome:
        """Store the exchange in one of the stores."""
        return self._shard(f"{payload.inputs_text}\0{payload.output_text()}").update(payload)

    def add(self, items: Sequence[MemoryItem], progress: Progress | None = None) -> list[WriteOutcome]:
        """Store each item in one of the stores: in that which has its id already, or else by the hash of its id."""
        holders = {item.id: shard for shard in self._shards for item in shard.get([item.id for item in items])}
        groups: dict[int, list[int]] = {}
        for place, item in enumerate(items):
            shard = holders.get(item.id) or self._shard(item.id)
            groups.setdefault(self._shards.index(shard), []).append(place)
        outcomes: dict[int, WriteOutcome] = {}
        for number, places in groups.items():
            outcomes.update(zip(places, self._shards[number].add([items[place] for place in places]), strict=True))
            if progress:
                progress(len(outcomes))
        return [outcomes[place] for place in range(len(items))]

    def get(self, ids: Sequence[str]) -> list[MemoryItem]:
        """Return the items that are there, in the order of `ids`."""
        known = {item.id: item for item in chain(*self._each(lambda shard: shard.get(ids)))}
        return [known[item_id] for item_id in ids if item_id in known]

    def recent(
        self, limit: int, where: Filter | None = None, *, order: Order = Order.STORED, offset: int = 0
    ) -> list[MemoryItem]:
        """Return the last items of an order, the last one first."""
        newest = self._each(lambda shard: shard.recent(limit + offset, where, order=order))
        by_event = order is Order.EVENT
        times = ((_time(item, by_event=by_event), item) for item in chain(*newest))
        return [item for _, item in sorted(times, key=lambda pair: -pair[0])][offset : offset + limit]

    def count(self, where: Filter | None = None) -> int:
        """Return the number of items that a search could find."""
        return sum(self._each(lambda shard: shard.count(where)))

    def _delete(self, ids: Sequence[str] | None, where: Filter | None) -> int:
        return sum(self._each(lambda shard: shard.delete(ids=ids, where=where)))

    def _remove(self, ids: Iterable[str]) -> int:
        gone = list(ids)
        return sum(self._each(lambda shard: shard.delete(ids=gone))) if gone else 0

    def clear(self) -> int:
        """Delete everything."""
        return sum(self._each(lambda shard: shard.clear()))

    def trim(self, *, keep: int | None = None, stored_before: float | None = None) -> int:
        """Delete all but the `keep` newest items, and those stored before a time; of equal times all stay."""
        newest = [] if keep is None else self.recent(keep)
        if keep is not None and len(newest) == keep:
            oldest_kept = newest[-1].created_at if newest else float("inf")
            stored_before = max(oldest_kept, stored_before or oldest_kept)
        return 0 if stored_before is None else sum(self._each(lambda shard: shard.trim(stored_before=stored_before)))

    def select_erasable(self, request: EraseRequest) -> list[MemoryItem]:
        """Return the items that are selected to be erased."""
        return list(chain(*self._each(lambda shard: shard.select_erasable(request))))

    def derived_from(self, ids: Sequence[str]) -> list[MemoryItem]:
        """Return the items that were derived from some items, which may be in other stores than these."""
        return list(chain(*self._each(lambda shard: shard.derived_from(ids))))

    def erase_selected(
        self, request: EraseRequest, derived: Sequence[str] = (), *, words: Sequence[str] = (), vacuum: bool = False
    ) -> EraseResult:
        """Erase the items from every store."""
        done = self._each(lambda shard: shard.erase_selected(request, derived, words=words, vacuum=vacuum))
        return EraseResult(
            items=sum(each.items for each in done), residues=tuple(chain(*(each.residues for each in done)))
        )

    def info(self) -> CollectionInfo:
        """Report where the items are and how many there are."""
        found = self._each(lambda shard: shard.info())
        return replace(
            found[0],
            location=", ".join(each.location for each in found),
            items=sum(each.items for each in found),
            waiting=sum(each.waiting for each in found),
            size_bytes=sum(each.size_bytes for each in found),
        )


def _time(item: MemoryItem, *, by_event: bool) -> float:
    return item.event_time if by_event and item.event_time is not None else item.created_at
