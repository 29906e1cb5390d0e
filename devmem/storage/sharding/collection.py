"""A store whose items are spread over several databases: versions, runs and erasures of each tenant in its shard."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from collections.abc import Collection as Several
from contextlib import closing
from dataclasses import replace
from functools import partial
from typing import Final, TypeVar, cast

from devmem.errors import CollectionError, RunConflictError, RunStateError
from devmem.model.filters import Filter
from devmem.model.items import MemoryItem
from devmem.model.results import NOT_ARCHIVED, WriteOutcome
from devmem.model.versions import ItemDifference, ItemVersion, RunInfo, RunState
from devmem.storage.erasure import ErasePlan, EraseRequest, EraseResult
from devmem.storage.protocol import (
    Collection,
    ExportLog,
    ExportRecord,
    PendingRunView,
    SupportsFieldIndex,
    SupportsWordsOnly,
)
from devmem.storage.searching import SearchingCollection
from devmem.storage.sharding.reading import ShardedReader, narrowed, tenant_of
from devmem.storage.sharding.shard_map import ShardMap
from devmem.storage.sharding.shard_set import Shard, ShardSet
from devmem.storage.sharding.writing import ShardedWriter, check_free
from devmem.storage.sql import ReadOnly
from devmem.storage.tombstones import Tombstone
from devmem.storage.writing import Fields, check_deletion

T = TypeVar("T")

_UNDOES: Final = "revert of "


class ShardedView(ReadOnly, ShardedReader):
    """A state of a sharded store that is read only."""

    def __init__(
        self, shards: ShardSet, clock: Callable[[], float], opened: Callable[[Shard], Collection], state: str
    ) -> None:
        """Take the shards, and what opens the state of one of them; `state` names it in messages."""
        super().__init__(shards, clock)
        self._opened, self._state, self._views = opened, state, dict[str, Collection]()

    def _view(self, shard: str) -> SearchingCollection:
        if shard not in self._views:
            self._views[shard] = self._opened(self._set[shard])
        return cast("SearchingCollection", self._views[shard])

    def close(self) -> None:
        """Release the views; the store stays open."""
        for view in self._views.values():
            view.close()


class ShardedRunView(ShardedWriter):
    """The items that a pending run sees; see `PendingRunView`."""

    def __init__(self, shards: ShardSet, clock: Callable[[], float], opened: Callable[[Shard], Collection]) -> None:
        """Take the shards, and what opens the run in one of them."""
        super().__init__(shards, clock)
        self._opened, self._views = opened, dict[str, Collection]()

    def _writable(self, shard: str) -> Collection:
        if shard not in self._views:
            self._views[shard] = self._opened(self._set[shard])
        return self._views[shard]

    def _view(self, shard: str) -> SearchingCollection:
        return cast("SearchingCollection", self._writable(shard))

    def has_own_version(self, item_id: str) -> bool:
        """Whether the item is a version that the run wrote."""
        views = [self._writable(name) for name in self._set.map.members]
        return any(isinstance(view, PendingRunView) and view.has_own_version(item_id) for view in views)

    def close(self) -> None:
        """Release the views; the run stays pending."""
        for view in self._views.values():
            view.close()


class ShardedCollection(ShardedWriter):
    """Items in several databases; `Collection` and the protocols beside it document the methods."""

    def __init__(self, shards: ShardSet, clock: Callable[[], float]) -> None:
        """Take the shards, which are closed with the collection."""
        super().__init__(shards, clock)
        self.shards = shards
        """The databases and their map."""
        self._plans: dict[str, list[tuple[Shard, ErasePlan]]] = {}

    def _view(self, shard: str) -> SearchingCollection:
        return cast("SearchingCollection", self._set[shard])

    def _writable(self, shard: str) -> Collection:
        return self._set[shard]

    def close(self) -> None:
        """Close every shard."""
        self._set.close()

    def _every(self, ask: Callable[[Shard], T]) -> list[T]:
        """Ask every shard; all have to answer."""
        return self._set.each(self._set.map.members, lambda name: ask(self._set[name]))

    def _change_all(self, change: Callable[[Shard], T]) -> list[T]:
        return self._each_shard(None, lambda shard, _: change(cast("Shard", shard)))

    # What is recorded of the store: the same in every shard.

    def indexed_fields(self) -> Fields:
        """Return the fields that are recorded."""
        return self._set.reached(lambda name: cast("SupportsFieldIndex", self._set[name]).indexed_fields())[0]

    def index_fields(self, fields: Sequence[str]) -> int:
        """Search the items by other fields of theirs."""
        self._refuse_while_moving("searching by other fields")
        return sum(self._change_all(lambda shard: cast("SupportsFieldIndex", shard).index_fields(fields)))

    def record_fields(self, fields: Sequence[str]) -> None:
        """Record that items are written with other fields, too."""
        self._change_all(lambda shard: cast("SupportsFieldIndex", shard).record_fields(fields))

    def record_words_only(self) -> None:
        """Record that the store has no model on purpose."""
        self._change_all(lambda shard: cast("SupportsWordsOnly", shard).record_words_only())

    # Versions and runs.

    def history(self, item_id: str) -> list[ItemVersion]:
        """Return the versions of an item, oldest first."""

        def read(known: ShardMap, used: set[str]) -> list[ItemVersion]:
            used.update(known.members)
            found: list[ItemVersion] = []
            for name in known.members:
                hidden = known.hidden(name)
                found += [
                    version
                    for version in self._set[name].history(item_id)
                    if hidden is None or tenant_of(version.item, known.by) != hidden.value
                ]
            return sorted(found, key=lambda version: version.began.at or 0.0)

        return self._set.read(read)

    def as_of(self, time: float) -> Collection:
        """Return the store as it was at a time, read only."""
        state = f"it is shown as of {time:.6f} (seconds since the epoch)"
        return ShardedView(self._set, lambda: time, lambda shard: shard.as_of(time), state)

    def archived(self) -> Collection:
        """Return the archived items, read only."""
        return ShardedView(self._set, self._clock, lambda shard: shard.archived(), "it shows what is archived")

    def restore(self, ids: Sequence[str], *, then: Callable[[], object] | None = None) -> list[WriteOutcome]:
        """Make archived items current ones again, in every shard or in none, each in its tenant's shard."""
        wanted = list(dict.fromkeys(ids))
        outcomes: dict[str, WriteOutcome] = {}

        def write(known: ShardMap) -> None:
            outcomes.clear()
            with closing(self.archived()) as old:
                archived = old.get(wanted)
            check_free(known, {tenant_of(item, known.by) for item in archived})
            # One with a current item elsewhere would be there twice.
            taken = {item.id for item in self.get([item.id for item in archived])}
            places: dict[str, list[str]] = {}
            for item in archived:
                if item.id not in taken:
                    places.setdefault(known.shard_of(tenant_of(item, known.by)), []).append(item.id)

            def nested(names: Sequence[str]) -> None:
                name, *others = names
                after = (lambda: nested(others)) if others else then
                outcomes.update(zip(places[name], self._set[name].restore(places[name], then=after), strict=True))

            if places:
                nested(sorted(places))
            elif then is not None:
                then()

        self._set.write(write)
        return [outcomes.get(one, NOT_ARCHIVED) for one in wanted]

    def run(self, run: str, *, actor: str | None = None) -> Collection:
        """Return the store as a pending run sees and changes it."""
        info = self.find_run(run)
        if info is not None and info.state is not RunState.PENDING:
            # Raises the error of a run that has ended.
            self._set[self._shards_of(run)[0]].run(run).close()
        return ShardedRunView(self._set, self._clock, lambda shard: shard.run(run, actor=actor))

    def _shards_of(self, run: str) -> list[str]:
        """Return the shards in which a run wrote; the anchor where it wrote nothing."""
        names = self._set.map.members
        infos = self._every(lambda shard: shard.find_run(run))
        return [name for name, info in zip(names, infos, strict=True) if info is not None] or [self._set.map.anchor]

    def runs(self, limit: int = 100) -> list[RunInfo]:
        """Return the runs that began last, newest first."""
        found: dict[str, list[RunInfo]] = {}
        for infos in self._every(lambda shard: shard.runs(limit)):
            for info in infos:
                found.setdefault(info.run, []).append(info)
        return sorted(map(_joined, found.values()), key=lambda info: -info.started_at)[: max(limit, 0)]

    def find_run(self, run: str) -> RunInfo | None:
        """Return what is known of a run."""
        found = [info for info in self._every(lambda shard: shard.find_run(run)) if info is not None]
        return _joined(found) if found else None

    def conflicts(self, run: str) -> list[str]:
        """Return the ids of the items that keep a run from being committed, or reverted."""
        return sorted({each for name in self._shards_of(run) for each in self._set[name].conflicts(run)})

    def commit(self, run: str, *, then: Callable[[], object] | None = None) -> RunInfo:
        """Make what a pending run wrote the current items, in every shard or in none.

        Only the death of the process between two commits leaves it pending in some; committing it again ends it there.
        """
        return self._end(run, lambda shard, after: shard.commit(run, then=after), then)

    def revert(self, run: str, *, then: Callable[[], object] | None = None) -> RunInfo:
        """Undo a committed run by changes that follow it."""
        self._end(run, lambda shard, after: shard.revert(run, then=after), then)
        found = self.find_run(f"{_UNDOES}{run}")
        if found is None:
            raise RunStateError(self.location, run, RunState.COMMITTED.value, "nothing of it is left to undo")
        return found

    def _end(
        self,
        run: str,
        end: Callable[[Shard, Callable[[], object] | None], RunInfo],
        then: Callable[[], object] | None,
    ) -> RunInfo:
        """End a run in its shards, each within the transaction of the one before."""

        def write(known: ShardMap) -> RunInfo:
            check_free(known, None)
            done: list[RunInfo] = []

            def nested(names: Sequence[str]) -> None:
                name, *others = names
                done.append(end(self._set[name], (lambda: nested(others)) if others else then))

            nested(sorted(self._shards_of(run)))
            return _joined(done)

        try:
            return self._set.write(write)
        except RunConflictError as error:
            raise RunConflictError(self.location, run, self.conflicts(run) or error.ids) from error

    def discard(self, run: str) -> RunInfo:
        """Drop what a pending run wrote."""
        return self._set.write(lambda _: _joined([self._set[name].discard(run) for name in self._shards_of(run)]))

    def diff(self, before: float | str, after: float | str | None = None) -> list[ItemDifference]:
        """Return the items that differ between two states, or that a run changed."""
        named = [each for each in (before, after) if isinstance(each, str)]
        names: Sequence[str] = self._set.map.members
        for run in named:
            names = [name for name in self._shards_of(run) if name in names] or self._shards_of(run)[:1]
        found = [each for name in names for each in self._set[name].diff(before, after)]
        return sorted(found, key=lambda each: each.item_id)

    # Erasing: in every shard, as a tenant that moves is in two.

    def erase(self, *, ids: Sequence[str] | None = None, where: Filter | None = None) -> int:
        """Delete the named or the matching items permanently, with every version that they ever had."""
        if ids is None and where is None:
            check_deletion(ids, where)

        def write(known: ShardMap) -> int:
            check_free(known, None)
            total = 0
            for name in known.members:
                own = narrowed(where, known, name)
                total += self._set[name].erase(ids=ids, where=own)
                if own != where and known.move is not None:
                    self._set[name].erase(ids=ids, where=where)
            return total

        return self._set.write(write)

    def select_erasable(self, request: EraseRequest) -> list[MemoryItem]:
        """Return the selected items."""
        found: dict[str, MemoryItem] = {}
        for items in self._every(lambda shard: shard.select_erasable(request)):
            found |= {item.id: item for item in items if item.id not in found}
        return list(found.values())

    def derived_from(self, ids: Sequence[str]) -> list[MemoryItem]:
        """Return the items that were derived from some items, or from such items, in whatever shard."""
        found: dict[str, MemoryItem] = {}
        wanted: Sequence[str] = ids
        while wanted:
            lists = self._every(partial(_derived, wanted))
            new = {item.id: item for each in lists for item in each if item.id not in found and item.id not in ids}
            found |= new
            wanted = list(new)
        return list(found.values())

    def begin_erasure(self, request: EraseRequest, derived: Sequence[str] = ()) -> ErasePlan:
        """Record durably what is erased from now on, in each shard that has some of it."""
        plans: list[tuple[Shard, ErasePlan]] = []

        def write(known: ShardMap) -> None:
            check_free(known, None)
            # Where the map changed meanwhile, a shard has two plans: what moved into it is in the second.
            shards = [self._set[name] for name in known.members]
            plans.extend((shard, shard.begin_erasure(request, derived)) for shard in shards)

        self._set.write(write)
        return self._joined_plan(plans)

    def _joined_plan(self, plans: list[tuple[Shard, ErasePlan]]) -> ErasePlan:
        joined = ErasePlan(
            id=" ".join(plan.id for _, plan in plans),
            ids=tuple(dict.fromkeys(each for _, plan in plans for each in plan.ids)),
            items=sum(plan.items for _, plan in plans),
            is_executed=any(plan.is_executed for _, plan in plans),
        )
        self._plans[joined.id] = plans
        return joined

    def planned_erasures(self) -> list[ErasePlan]:
        """Return the erasures that have begun and not ended, each of one shard; none of one that is down."""
        lists = self._set.reached(lambda name: [(self._set[name], plan) for plan in self._set[name].planned_erasures()])
        return [self._joined_plan([one]) for plans in lists for one in plans]

    def finish_erasure(self, plan: ErasePlan, words: Sequence[str] = (), *, vacuum: bool = False) -> EraseResult:
        """Remove the planned items from every shard; the result names the files of each."""
        plans = self._plans.pop(plan.id, [])
        return _joined_result(
            self._set.write(lambda _: [shard.finish_erasure(own, words, vacuum=vacuum) for shard, own in plans])
        )

    def withdraw_erasure(self, plan: ErasePlan) -> None:
        """Forget a plan of which nothing was done."""
        for shard, own in self._plans.pop(plan.id, []):
            shard.withdraw_erasure(own)

    # Tombstones, which are beside the items that they keep out.

    def keep_tombstones(self, items: Sequence[MemoryItem], *, wholes: Several[str] = ()) -> str:
        """Record durably that some items are erased."""

        def write(known: ShardMap) -> list[str]:
            check_free(known, {tenant_of(item, known.by) for item in items})
            groups: dict[str, list[MemoryItem]] = {}
            for item in items:
                groups.setdefault(known.shard_of(tenant_of(item, known.by)), []).append(item)
            return [self._set[name].keep_tombstones(own, wholes=wholes) for name, own in groups.items()]

        return " ".join(self._set.write(write))

    def tombstones(self, user: str | None = None, *, everybody: bool = True) -> list[Tombstone]:
        """Return the tombstones, oldest first."""
        lists = self._every(lambda shard: shard.tombstones(user, everybody=everybody))
        # A move copies those of the shard that it leaves.
        found = {each.id: each for each in (one for some in lists for one in some)}
        return sorted(found.values(), key=lambda each: each.erased_at)

    def remove_tombstones(
        self, erasures: Sequence[str] | None = None, user: str | None = None, *, everybody: bool = True
    ) -> int:
        """Remove the tombstones of some erasures, or all; return the number of texts that may be stored again."""
        wanted = None if erasures is None else [each for one in erasures for each in one.split(" ")]
        listed = self.tombstones(user, everybody=everybody)
        texts = sum(each.texts for each in listed if wanted is None or each.id in wanted)
        self._change_all(lambda shard: shard.remove_tombstones(wanted, user, everybody=everybody))
        return texts

    def without_erased(self, text: str, user: str | None) -> str:
        """Return a text without the sentences that a tombstone of the user stands for."""
        for name in self._set.map.members:
            text = self._set[name].without_erased(text, user)
        return text

    def apply_tombstones(self) -> EraseResult:
        """Erase what came back beside a shard, as with a backup that was put in its place; not in one that is down."""
        return _joined_result(
            self._set.write(lambda _: self._set.reached(lambda name: self._set[name].apply_tombstones()))
        )

    # Exports.

    def record_export(self, export: ExportRecord) -> None:
        """Remember an export in every shard that is a file, durably; raises `CollectionError` where none is."""

        def record(shard: Shard) -> bool:
            if isinstance(shard, ExportLog):
                shard.record_export(export)
            return isinstance(shard, ExportLog)

        if not any(self._change_all(record)):
            raise CollectionError(self.location, "its place is not recorded by stores of this kind")

    def exports(self) -> list[ExportRecord]:
        """Return the exports that were made, the oldest first."""
        found: list[ExportRecord] = []
        for each in self._every(lambda shard: shard.exports() if isinstance(shard, ExportLog) else []):
            found += [one for one in each if one not in found]
        return sorted(found, key=lambda one: one.made_at)


def _derived(ids: Sequence[str], shard: Shard) -> list[MemoryItem]:
    return shard.derived_from(ids)


def _joined_result(results: Sequence[EraseResult]) -> EraseResult:
    return EraseResult(
        items=sum(one.items for one in results),
        reached=tuple(dict.fromkeys(place for one in results for place in one.reached)),
        residues=tuple(residue for one in results for residue in one.residues),
    )


def _joined(infos: Sequence[RunInfo]) -> RunInfo:
    """Return what several shards know of one run: it is pending until it has ended in all of them."""
    pending = next((info for info in infos if info.state is RunState.PENDING), None)
    first = pending or max(infos, key=lambda info: info.ended_at or 0.0)
    return replace(
        first,
        started_at=min(info.started_at for info in infos),
        actor=next((info.actor for info in infos if info.actor), None),
        changes=sum(info.changes for info in infos),
    )
