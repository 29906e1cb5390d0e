"""Reading a sharded store: within a tenant from its shard, over all tenants from every shard at once."""

from __future__ import annotations

import threading
from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import TypeVar

from devmem.errors import CollectionError
from devmem.model.conditions import Order, Scalar
from devmem.model.filters import NO_FILTER, Filter, counted, event_key, kind_of
from devmem.model.items import MemoryItem, Scope
from devmem.model.results import HitGroup, SearchReport
from devmem.models.embedder import PassageEmbeddings
from devmem.redaction import location_without_credentials
from devmem.search.federation import UnionSource
from devmem.search.query import SearchQuery
from devmem.search.source import SearchSource
from devmem.storage.protocol import Collection, CollectionInfo
from devmem.storage.searching import SearchingCollection
from devmem.storage.shard import Tenant
from devmem.storage.sharding.shard_map import ShardMap
from devmem.storage.sharding.shard_set import ShardSet, is_outage

T = TypeVar("T")


def tenant_of(item: MemoryItem, by: str) -> str | None:
    """Return the tenant of an item; None for one without."""
    found: str | None = getattr(item.scope, by)
    return found


def filter_of(tenant: Tenant) -> Filter:
    """Return the filter that a tenant's items match."""
    if tenant.value is None:
        return Filter(unbound=(tenant.by,))
    return Filter(scope=Scope(**{tenant.by: tenant.value}))


def tenants_of(where: Filter, known: ShardMap) -> tuple[str | None, ...] | None:
    """Return the tenants that a filter can admit items of; None where it may be any."""
    tenant = getattr(where.scope, known.by)
    if tenant is not None:
        return (tenant, None) if where.include_unscoped and known.unscoped else (tenant,)
    if known.by in where.unbound:
        return (None,)
    narrowed = (tenants_of(part, known) for part in where.all_of)
    return next((found for found in narrowed if found is not None), None)


def shards_for(where: Filter | None, known: ShardMap) -> list[str]:
    """Return the shards that may hold items which a filter admits."""
    tenants = None if where is None else tenants_of(where, known)
    return list(known.members) if tenants is None else sorted({known.shard_of(each) for each in tenants})


def narrowed(where: Filter | None, known: ShardMap, shard: str) -> Filter | None:
    """Return a filter without the items in a shard of a tenant that is read elsewhere."""
    hidden = known.hidden(shard)
    if hidden is None:
        return where
    base = where or NO_FILTER
    return replace(base, none_of=(*base.none_of, filter_of(hidden)))


class ShardedReader(SearchingCollection):
    """The reading methods of `Collection` on several shards, or on views of them."""

    def __init__(self, shards: ShardSet, clock: Callable[[], float]) -> None:
        """Take the shards; `clock` returns seconds since the epoch."""
        self._set, self._clock = shards, clock
        self.location = location_without_credentials(
            shards.config.relocated(lambda place: place if "://" not in place else place.rpartition("@")[2]).url()
        )
        self._answers = threading.local()

    @abstractmethod
    def _view(self, shard: str) -> SearchingCollection:
        """Return what is read of a shard; raises `ShardDownError` where it cannot be reached."""

    def _collection(self, shard: str) -> Collection:
        found = self._view(shard)
        assert isinstance(found, Collection)  # noqa: S101 - each was opened as one
        return found

    def _now(self) -> float:
        return self._clock()

    def _ask(self, where: Filter | None, ask: Callable[[Collection, Filter | None], T]) -> list[T]:
        """Ask the shards that a filter leads to, each with its filter; all have to answer."""

        def read(known: ShardMap, used: set[str]) -> list[T]:
            names = shards_for(where, known)
            used.update(names)
            return self._set.each(names, lambda name: ask(self._collection(name), narrowed(where, known, name)))

        return self._set.read(read)

    # Searching.

    def with_source(self, query: SearchQuery, run: Callable[[SearchSource, float], T]) -> T:
        """Call a function with the source of a search: that of one shard, or of several as one."""

        def search(known: ShardMap, used: set[str]) -> T:
            names = shards_for(query.where, known)
            missing: list[str] = []
            result = self._nested(query, known, names, run, missing)
            used.update(name for name in names if name not in missing)
            # For `find`, in this thread.
            self._answers.missing = tuple(missing)
            return result

        return self._set.read(search)

    def _nested(
        self,
        query: SearchQuery,
        known: ShardMap,
        names: Sequence[str],
        run: Callable[[SearchSource, float], T],
        missing: list[str],
    ) -> T:
        """Open the source of one shard after the other, and search them together once all are open.

        Where one fails, the search is repeated without it, unless it is the only one or the store is to fail.
        """
        failed: dict[str, CollectionError] = {}
        while True:
            left = [name for name in names if name not in failed]
            if not left:
                raise next(iter(failed.values()))
            missing[:] = failed
            try:
                return self._open_sources(query, known, left, run, [])
            except _SourceError as failure:
                if not is_outage(failure.error):
                    raise failure.error from failure
                down = self._set.note_outage(failure.shard, failure.error)
                if len(names) == 1 or self._set.config.on_down == "fail":
                    raise down from failure.error
                failed[failure.shard] = down

    def _open_sources(
        self,
        query: SearchQuery,
        known: ShardMap,
        names: Sequence[str],
        run: Callable[[SearchSource, float], T],
        opened: list[SearchSource],
    ) -> T:
        at = len(opened)
        if at == len(names):
            if at == 1:
                return run(opened[0], self._now())

            def narrow(number: int, where: Filter) -> Filter:
                return narrowed(where, known, names[number]) or where

            return run(UnionSource(opened, self._set.executor, narrow), self._now())
        name = names[at]
        asked = replace(query, where=narrowed(query.where, known, name) or query.where)

        def within(source: SearchSource, _now: float) -> T:
            return self._open_sources(query, known, names, run, [*opened, source])

        try:
            return self._view(name).with_source(asked, within)
        except _SourceError:
            raise
        except CollectionError as error:
            # What fails once all are open is raised here too.
            of = next((each for each in names if self._set.is_at(each, error.location)), name)
            raise _SourceError(of, error) from error

    def find(self, query: SearchQuery) -> SearchReport:
        """Return the best items, best first, and how they were found."""
        self._answers.missing = ()
        report = super().find(query)
        missing: tuple[str, ...] = self._answers.missing
        return replace(report, missing=missing) if missing else report

    def conversations(self, query: SearchQuery, *, hits_each: int = 3) -> list[HitGroup]:
        """Return the conversations that the query is about; every shard has to answer, as no report names one."""
        self._answers.missing = ()
        groups = super().conversations(query, hits_each=hits_each)
        for name in self._answers.missing:
            raise self._set.outage(name)
        return groups

    def _with_attachments(self, items: Sequence[MemoryItem]) -> list[MemoryItem]:
        known, found = self._set.map, list(items)
        for name in {known.shard_of(tenant_of(item, known.by)) for item in items if has_attachments(item)}:
            at = [place for place, item in enumerate(items) if known.shard_of(tenant_of(item, known.by)) == name]
            own = self._view(name)._with_attachments([items[place] for place in at])  # noqa: SLF001 - as of this one
            for place, item in zip(at, own, strict=True):
                found[place] = item
        return found

    # Listing.

    def get(self, ids: Sequence[str]) -> list[MemoryItem]:
        """Return the items that are there, in the order of `ids`.

        Raises:
            ShardDownError: the shard cannot be reached that may have those which no other has.
        """

        def read(known: ShardMap, used: set[str]) -> list[MemoryItem]:
            found: dict[str, MemoryItem] = {}
            for name, items in self._set.reached(lambda each: (each, self._collection(each).get(ids))):
                used.add(name)
                hidden = known.hidden(name)
                found |= {
                    item.id: item for item in items if hidden is None or tenant_of(item, known.by) != hidden.value
                }
            if len(used) < len(known.members) and not found.keys() >= set(ids):
                raise self._set.outage(next(name for name in known.members if name not in used))
            return [found[item_id] for item_id in ids if item_id in found]

        return self._set.read(read)

    def recent(
        self, limit: int, where: Filter | None = None, *, order: Order = Order.STORED, offset: int = 0
    ) -> list[MemoryItem]:
        """Return the last items of an order, the last one first; between shards, the time of creation decides."""
        most, skipped = max(limit, 0), max(offset, 0)
        lists = self._ask(where, lambda shard, own: shard.recent(most + skipped, own, order=order))
        key = _order_key(order)
        return list(_merged([iter(each) for each in lists], lambda item: tuple(-part for part in key(item))))[
            skipped : skipped + most
        ]

    def scan(
        self, where: Filter | None = None, *, order: Order = Order.STORED, offset: int = 0
    ) -> Iterator[MemoryItem]:
        """Return every item in an order, a few at a time; one whose tenant moves meanwhile is returned once."""
        seen: set[int] = set()
        while True:
            known, used = self._set.map, shards_for(where, self._set.map)
            streams = [self._collection(name).scan(narrowed(where, known, name), order=order) for name in used]
            for item in _merged(streams, _order_key(order)):
                if (number := hash(item.id)) not in seen:
                    seen.add(number)
                    if len(seen) > offset:
                        yield item
            if self._set.is_current(known, used):
                return
            self._set.reload()

    def values(
        self, key: str, where: Filter | None = None, *, prefix: str = "", limit: int | None = None, offset: int = 0
    ) -> list[Scalar]:
        """Return the distinct values that items have."""
        most = None if limit is None else limit + max(offset, 0)
        lists = self._ask(where, lambda shard, own: shard.values(key, own, prefix=prefix, limit=most))
        distinct = {(kind_of(value), value): value for each in lists for value in each}
        ordered = [distinct[each] for each in sorted(distinct, key=_value_key)]
        return ordered[max(offset, 0) :][:limit]

    def value_counts(self, key: str, where: Filter | None = None) -> list[tuple[Scalar | None, int]]:
        """Return how many items have each value."""
        lists = self._ask(where, lambda shard, own: shard.value_counts(key, own))
        return counted(pair for each in lists for pair in each)

    def _value_counts(self, key: str, where: Filter) -> list[tuple[Scalar | None, int]]:
        return self.value_counts(key, where)

    def count(self, where: Filter | None = None) -> int:
        """Return the number of items that a search could find."""
        return sum(self._ask(where, lambda shard, own: shard.count(own)))

    def waiting(self, limit: int) -> list[MemoryItem]:
        """Return at most `limit` items whose embedding is pending, oldest first; none of a shard that is down."""
        known = self._set.map
        lists = self._set.reached(lambda name: self._collection(name).waiting(limit))
        hidden = {known.move.tenant} if known.move else set()
        found = _merged([iter(each) for each in lists], _order_key(Order.STORED))
        return [item for item in found if tenant_of(item, known.by) not in hidden][:limit]

    def embeddings(self, ids: Sequence[str]) -> dict[str, PassageEmbeddings]:
        """Return the embeddings of those of the items that have them, by id; none of a shard that is down."""
        found = self._set.reached(lambda name: self._collection(name).embeddings(ids))
        return {item_id: each[item_id] for each in found for item_id in each}

    def info(self) -> CollectionInfo:
        """Report what the shards that can be reached hold together."""
        infos = []
        for name in self._set.map.members:
            try:
                infos.append(self._collection(name).info())
            except CollectionError as error:
                if not is_outage(error):
                    raise
                self._set.note_outage(name, error)
        first = next((one for one in infos if one.embedding), infos[0] if infos else None)
        return CollectionInfo(
            location=self.location,
            items=sum(one.items for one in infos),
            waiting=sum(one.waiting for one in infos),
            size_bytes=sum(one.size_bytes for one in infos),
            embedding=first.embedding if first else None,
            dimension=first.dimension if first else None,
            damaged=sum(one.damaged for one in infos),
            archived=sum(one.archived for one in infos),
            mode=next((one.mode for one in infos if one.mode), None),
        )


class _SourceError(Exception):
    """A shard failed while it was searched with others."""

    def __init__(self, shard: str, error: CollectionError) -> None:
        self.shard, self.error = shard, error
        super().__init__(str(error))


def has_attachments(item: MemoryItem) -> bool:
    """Whether an item has blocks, which attachments are in."""
    return any(snapshot and snapshot.blocks for snapshot in (item.input_snapshot, item.output_snapshot))


def _order_key(order: Order) -> Callable[[MemoryItem], tuple[float, ...]]:
    if order is Order.EVENT:
        return event_key
    return lambda item: (item.created_at,)


def _value_key(pair: tuple[int, Scalar]) -> tuple[int, object]:
    kind, value = pair
    return kind, value.encode("utf-8", "surrogatepass") if isinstance(value, str) else value


def _merged(
    streams: Iterable[Iterator[MemoryItem]], key: Callable[[MemoryItem], tuple[float, ...]]
) -> Iterator[MemoryItem]:
    """Merge streams that keep their order, whatever it is: of their next items, the one with the lowest key comes."""
    heads = [(stream, item) for stream in streams if (item := next(stream, None)) is not None]
    while heads:
        at = min(range(len(heads)), key=lambda place: key(heads[place][1]))
        stream, item = heads[at]
        yield item
        following = next(stream, None)
        heads[at : at + 1] = [] if following is None else [(stream, following)]
