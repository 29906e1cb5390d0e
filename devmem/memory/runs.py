"""Runs of a memory as far as a handle reaches: a scoped handle neither sees nor ends a run of another scope."""

from __future__ import annotations

from types import TracebackType
from typing import Final, Generic, TypeVar
from uuid import uuid4

from devmem.errors import RunStateError, ScopeError
from devmem.memory.scope import ScopeGuard, checked_name, in_scope
from devmem.model.filters import Filter
from devmem.model.twins import in_thread
from devmem.model.versions import ItemDifference, RunInfo
from devmem.storage.versions import VersionedCollection
from devmem.stores.abilities import versions_of
from devmem.stores.memory import MemoryBase
from devmem.stores.runs import StoreRun

M = TypeVar("M")


class MemoryRun(Generic[M]):
    """A pending run of a memory; its `with` block commits it at the end, and discards it after an error."""

    def __init__(self, memory: M, run: StoreRun, runs: RunsWithin) -> None:
        self.memory = memory
        """The memory as the run sees and changes it."""
        self._run, self._runs = run, runs

    @property
    def id(self) -> str:
        """Id of the run."""
        return self._run.run

    def commit(self) -> None:
        """Show everybody what the run wrote.

        Raises:
            RunConflictError: others changed the same items since; nothing was committed, and the run stays pending.
            ScopeError: somebody else wrote to a run of this id beyond the scope of the handle.
        """
        self._runs.check_own(self.id)
        self._run.commit()

    def discard(self) -> None:
        """Drop what the run wrote; what it had replaced or forgotten is restored.

        Raises:
            ScopeError: somebody else wrote to a run of this id beyond the scope of the handle.
        """
        self._runs.check_own(self.id)
        self._run.discard()

    def close(self) -> None:
        """Release what the run holds; it stays pending."""
        self._run.close()

    def __enter__(self) -> M:
        return self.memory

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is None:
            self.commit()
        else:
            self.discard()

    async def __aenter__(self) -> M:
        return self.memory

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await in_thread(self.__exit__, kind, error, trace)


_WIDER: Final = 4
"""Factor by which more runs are read until enough of them are within reach."""


class RunsWithin:
    """The runs of a store that a handle reaches: all of them, or those whose every change is in its scope."""

    def __init__(self, store: MemoryBase, guard: ScopeGuard) -> None:
        """Take the store, and the guard of the handle."""
        self._store, self._guard = store, guard

    def begin(self, run: str | None, actor: str | None) -> StoreRun:
        """Return a new run, or one that is pending.

        Raises:
            NoVersionsError: the store keeps no versions.
            ScopeError: the id is taken by a run of another scope.
            RunStateError: the run has ended.
        """
        name = uuid4().hex if run is None else checked_name("id", run)
        found = versions_of(self._store).find_run(name)
        if found is not None and not self._is_within(found):
            raise ScopeError(f"the id {name!r} is taken by a run of another scope")
        return StoreRun(name, {self._store.name: self._store}, decisions=None, actor=actor)

    def listed(self, limit: int) -> list[RunInfo]:
        """Return the runs that began last, newest first."""
        collection, asked = versions_of(self._store), limit
        while True:
            runs = collection.runs(asked)
            within = [run for run in runs if self._is_within(run)][:limit]
            if len(within) == limit or len(runs) < asked:
                return within
            asked *= _WIDER

    def collection_of(self, run: str) -> VersionedCollection:
        """Return the collection, to end a run in it; raise `ScopeError` where the handle does not reach the run."""
        collection = versions_of(self._store)
        name = checked_name("run", run)
        if self._guard.is_bound:
            found = collection.find_run(name)
            if found is None or not self._is_within(found):
                raise ScopeError(f"no run {name!r} is visible here: this handle reaches {self._guard.describe()}")
        return collection

    def changes_of(self, run: str) -> list[ItemDifference]:
        """Return the changes of a run that are within reach.

        Raises:
            RunStateError: there is no such run, or none of its changes is within reach, or it was discarded.
        """
        collection = versions_of(self._store)
        found = self.within(collection.diff(checked_name("run", run)))
        if self._guard.is_bound and not found:
            place = collection.info().location
            raise RunStateError(place, run, "unknown", "no run of this id has changed anything here")
        return found

    def within(self, changes: list[ItemDifference]) -> list[ItemDifference]:
        """Return those of some changes whose items are within reach before and after."""
        reach = self._guard.filter()
        return [change for change in changes if _is_in(change, reach)]

    def check_own(self, run: str) -> None:
        """Make sure that nothing which a run wrote is out of reach; raise `ScopeError` otherwise.

        Two handles may have begun a run under one id before either of them wrote.
        """
        collection = versions_of(self._store)
        if not self._guard.is_bound or collection.find_run(run) is None:
            return
        reach = self._guard.filter()
        if not all(_is_in(change, reach) for change in self._changes(collection, run)):
            reached = self._guard.describe()
            raise ScopeError(f"the run {run!r} changed items of another scope: this handle reaches {reached}")

    def _is_within(self, run: RunInfo) -> bool:
        """Whether every change of a run is within reach; of one that was discarded nothing is known any more."""
        if not self._guard.is_bound:
            return True
        changes, reach = self._changes(versions_of(self._store), run.run), self._guard.filter()
        return bool(changes) and all(_is_in(change, reach) for change in changes)

    @staticmethod
    def _changes(collection: VersionedCollection, run: str) -> list[ItemDifference]:
        try:
            return collection.diff(run)
        except RunStateError:
            return []


def _is_in(change: ItemDifference, reach: Filter) -> bool:
    return all(item is None or in_scope(item, reach) for item in (change.before, change.after))
