"""Writing items that are spread over several databases, each into its tenant's shard."""

from __future__ import annotations

from abc import abstractmethod
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import closing
from itertools import islice
from typing import TypeVar

from devmem.errors import CollectionBusyError, CollectionError
from devmem.model.filters import Filter
from devmem.model.items import MemoryItem
from devmem.model.results import WriteOutcome
from devmem.models.embedder import PassageEmbeddings
from devmem.storage.protocol import ArchivingCollection, Collection, SupportsArchiving
from devmem.storage.sharding.reading import ShardedReader, narrowed, shards_for, tenant_of, tenants_of
from devmem.storage.sharding.shard_map import ShardMap
from devmem.storage.sharding.shard_set import FrozenError
from devmem.storage.writing import ItemChanges, PreparedItem, Unique, WritingCollection, check_deletion, check_item

T = TypeVar("T")


class ShardedWriter(ShardedReader):
    """The writing methods of `Collection`, on several shards or on a run's views of them."""

    @abstractmethod
    def _writable(self, shard: str) -> Collection:
        """Return what a shard is written by; raises `ShardDownError` where it cannot be reached."""

    def _each_shard(self, where: Filter | None, write: Callable[[Collection, Filter | None], T]) -> list[T]:
        """Write in each shard that a filter leads to, one after the other; each write is a transaction.

        One that is down is noticed before anything is written. Where the map changes in between, every shard is written
        again, and all results are returned.
        """
        done: list[T] = []

        def run(known: ShardMap) -> None:
            check_free(known, None if where is None else tenants_of(where, known))
            shards = [(self._writable(name), narrowed(where, known, name)) for name in shards_for(where, known)]
            # One by one: what was written before one fails counts too.
            done.extend(write(shard, own) for shard, own in shards)

        self._set.write(run)
        return done

    def add(
        self,
        items: Sequence[MemoryItem | PreparedItem],
        *,
        unique: Unique = Unique.ID,
        expected: Mapping[str, str | None] | None = None,
        absent: Filter | None = None,
    ) -> list[WriteOutcome]:
        """Store the items, each in the shard of its tenant.

        Those of one shard are stored all or none. Where they are of several, the transactions are nested, so that
        whatever refuses one refuses all; only the death of the process between two commits leaves them in part.
        """
        if not items:
            return []
        prepared = [PreparedItem.of(item).analysed() for item in items]
        for each in prepared:
            check_item(each.item)
        self._note_unscoped(prepared)

        def write(known: ShardMap) -> list[WriteOutcome]:
            check_free(known, {tenant_of(each.item, known.by) for each in prepared})
            self._refuse_other_tenants(known, prepared, expected or {})
            places: dict[str, list[int]] = {}
            for at, each in enumerate(prepared):
                places.setdefault(known.shard_of(tenant_of(each.item, known.by)), []).append(at)
            outcomes: dict[int, WriteOutcome] = {}

            def nested(names: Sequence[str]) -> None:
                name, *others = names
                own = [prepared[at] for at in places[name]]
                wanted = _expected_of(own, expected or {}, prepared)
                shard = self._writable(name)
                if others:
                    done = _adding(shard, own, unique, wanted, absent, lambda: nested(others))
                else:
                    done = shard.add(own, unique=unique, expected=wanted, absent=absent)
                outcomes.update(zip(places[name], done, strict=True))

            nested(sorted(places))
            return [outcomes[at] for at in range(len(prepared))]

        return self._set.write(write)

    def _refuse_other_tenants(
        self, known: ShardMap, prepared: Sequence[PreparedItem], expected: Mapping[str, str | None]
    ) -> None:
        """Refuse to replace a version that another shard has: its item would be there twice."""
        named = {
            each.item.id: known.shard_of(tenant_of(each.item, known.by))
            for each in prepared
            if expected.get(each.item.id) is not None
        }
        if not named:
            return

        def elsewhere(name: str) -> tuple[str, list[MemoryItem]]:
            others = [item_id for item_id, own in named.items() if own != name]
            return name, self._collection(name).get(others) if others else []

        # One that is down may have it; then the item's own shard has not, and refuses the version.
        for name, items in self._set.reached(elsewhere):
            hidden = known.hidden(name)
            for item in items:
                if hidden is None or tenant_of(item, known.by) != hidden.value:
                    raise CollectionError(
                        self.location,
                        f"item {item.id!r} is of another {known.by}, whose shard is {name!r}, and cannot change it: "
                        "add a copy with another id, and delete this one.",
                    )

    def _note_unscoped(self, prepared: Sequence[PreparedItem]) -> None:
        """Record, once, that there are items without a tenant: until then no search looks for them."""
        while not (known := self._set.map).unscoped:
            if all(tenant_of(each.item, known.by) is not None for each in prepared):
                return
            self._set.change(known, known.changed(unscoped=True), everywhere=False)

    def pop(self, count: int = 1, where: Filter | None = None) -> list[MemoryItem]:
        """Delete the items stored last, and return them."""
        popped, order = list[MemoryItem](), dict[str, int]()

        def write(known: ShardMap) -> None:
            check_free(known, None if where is None else tenants_of(where, known))
            names = shards_for(where, known)
            if len(names) == 1:
                each = {names[0]: count - len(popped)}
            else:
                newest = self.recent(count - len(popped), where)
                order.update((item.id, len(popped) + at) for at, item in enumerate(newest))
                each = Counter(known.shard_of(tenant_of(item, known.by)) for item in newest)
            shards = [(self._writable(name), narrowed(where, known, name), number) for name, number in each.items()]
            for shard, own, number in shards:
                # What was popped before the map changed is not popped again.
                popped.extend(shard.pop(number, own))

        self._set.write(write)
        return sorted(popped, key=lambda item: order.get(item.id, len(order)))

    def delete(self, *, ids: Sequence[str] | None = None, where: Filter | None = None) -> int:
        """Delete the named or the matching items."""
        check_deletion(ids, where)
        if ids is not None:
            return sum(self._each_shard(where, lambda shard, own: shard.delete(ids=ids, where=own)))
        return sum(self._each_shard(where, lambda shard, own: shard.delete(where=own)))

    def archive(self, ids: Sequence[str]) -> int:
        """Move the named items into the archive of their shards."""

        def archive(shard: Collection, own: Filter | None) -> int:
            assert isinstance(shard, SupportsArchiving)  # noqa: S101 - every shard is one, and its view of a run
            if own is None:
                return shard.archive(ids)
            return shard.archive([item.id for item in shard.get(ids) if own.admits(item, self._now())])

        return sum(self._each_shard(None, archive))

    def clear(self) -> int:
        """Delete everything."""

        def clear(shard: Collection, own: Filter | None) -> int:
            return shard.clear() if own is None else shard.delete(where=own)

        return sum(self._each_shard(None, clear))

    def trim(self, *, keep: int | None = None, stored_before: float | None = None) -> int:
        """Delete all but the newest items, and those stored before a time."""
        trimmed = 0
        if stored_before is not None:
            trimmed += sum(self._each_shard(None, lambda shard, own: _trimmed(shard, own, stored_before=stored_before)))
        if keep is None:
            return trimmed
        done: list[int] = []

        def trim(known: ShardMap) -> None:
            check_free(known, None)
            # Counted again where the map changed between two shards.
            surplus = max(self.count() - keep, 0)
            oldest = Counter(known.shard_of(tenant_of(item, known.by)) for item in islice(self.scan(), surplus))
            kept = {name: self._kept(known, name, number) for name, number in oldest.items()}
            for name, number in kept.items():
                done.append(_trimmed(self._writable(name), narrowed(None, known, name), keep=number))

        self._set.write(trim)
        return trimmed + sum(done)

    def _kept(self, known: ShardMap, name: str, surplus: int) -> int:
        """Return how many items a shard keeps when its oldest ones are trimmed, those that no reader sees not counted.

        Such ones go too where they are older: a move copies them again, or erases them.
        """
        shard, hidden, gone = self._collection(name), known.hidden(name), 0
        if hidden is None:
            return shard.count() - surplus
        for item in shard.scan():
            gone += 1
            surplus -= tenant_of(item, known.by) != hidden.value
            if not surplus:
                break
        return shard.count() - gone

    def set_embeddings(self, embeddings: Mapping[str, PassageEmbeddings]) -> int:
        """Store the embeddings of waiting items; those in a shard that is down go on waiting."""

        def write(known: ShardMap) -> list[int]:
            check_free(known, None)
            return self._set.reached(lambda name: self._writable(name).set_embeddings(embeddings))

        return sum(self._set.write(write))

    def replace_model(self, model: str, dimension: int | None) -> int:
        """Delete every embedding and record the model of the new ones."""
        self._refuse_while_moving("another embedding model")
        return sum(self._each_shard(None, lambda shard, _: shard.replace_model(model, dimension)))

    def _refuse_while_moving(self, what: str) -> None:
        if self._set.map.move is not None:
            raise CollectionBusyError(
                self.location, f"a tenant is being moved; {what} waits for that: `devmem shards` shows the move."
            )


def _trimmed(
    shard: Collection, own: Filter | None, *, keep: int | None = None, stored_before: float | None = None
) -> int:
    """Trim a shard; return the number of items that a filter admits which are gone, archived ones included."""
    if own is None:
        return shard.trim(keep=keep, stored_before=stored_before)
    before = _held(shard, own)
    shard.trim(keep=keep, stored_before=stored_before)
    return before - _held(shard, own)


def _held(shard: Collection, own: Filter) -> int:
    if not isinstance(shard, ArchivingCollection):
        return shard.count(own)
    with closing(shard.archived()) as old:
        return shard.count(own) + old.count(own)


def check_free(known: ShardMap, tenants: Iterable[str | None] | None) -> None:
    """Raise `FrozenError` where one of some tenants, or any where they are not known, is about to move."""
    if known.is_deciding and (tenants is None or any(known.is_frozen(each) for each in tenants)):
        raise FrozenError


def _expected_of(
    own: Sequence[PreparedItem], expected: Mapping[str, str | None], every: Sequence[PreparedItem]
) -> dict[str, str | None]:
    """Return what is expected of a shard's items, and of ids that no item has, which every shard is asked for."""
    mine, all_ids = {each.item.id for each in own}, {each.item.id for each in every}
    return {item_id: version for item_id, version in expected.items() if item_id in mine or item_id not in all_ids}


def _adding(
    shard: Collection,
    own: Sequence[PreparedItem],
    unique: Unique,
    expected: Mapping[str, str | None],
    absent: Filter | None,
    then: Callable[[], None],
) -> list[WriteOutcome]:
    """Add items to a shard, and do the rest within its transaction."""
    assert isinstance(shard, WritingCollection)  # noqa: S101 - every shard is one

    def change(changes: ItemChanges) -> list[WriteOutcome]:
        done = changes.add(own, unique, expected, absent)
        then()
        return done

    return shard._adding(change)  # noqa: SLF001 - a transaction around those of the other shards
