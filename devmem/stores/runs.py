"""Runs over several stores: what is written in one is committed in all of them, or in none."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from devmem.collections import Filter, VersionedCollection
from devmem.errors import NoVersionsError, RunConflictError, RunStateError
from devmem.model.items import Scope
from devmem.model.versions import RunInfo, RunState
from devmem.stores.collection_memory import CollectionMemory
from devmem.stores.decisions import RunDecision, end_everywhere
from devmem.stores.memory import MemoryBase
from devmem.stores.versioned import versions_of, viewed


class StoreRun:
    """A pending run in several stores."""

    def __init__(
        self,
        run: str,
        stores: Mapping[str, MemoryBase],
        *,
        decisions: Path | None,
        actor: str | None = None,
        exists: bool = False,
    ) -> None:
        """Open a view of each store; nothing is written yet.

        Args:
            run: id of the run.
            stores: the stores, by name, each of which keeps versions.
            decisions: folder of decisions that are not carried out yet; None where a crash between the commits of two
                stores may leave the run committed in one of them.
            actor: who makes the changes, for the history.
            exists: whether the run must be pending already.

        Raises:
            NoVersionsError: a store keeps no versions.
            RunStateError: the run has ended in a store; or it is to exist, and has written to none.
        """
        self.run, self._decisions = run, decisions
        self._collections = {name: versions_of(store) for name, store in stores.items()}
        if exists and not self._pending():
            raise RunStateError(
                ", ".join(stores), run, "unknown", "no pending run of this id has written anything here"
            )
        self.stores: dict[str, MemoryBase] = {}
        """The stores as the run sees and changes them, by name."""
        try:
            for name, store in stores.items():
                self.stores[name] = viewed(store, self._collections[name].run(run, actor=actor))
        except BaseException:
            self.close()
            raise

    def check(self) -> None:
        """Make sure that the run can be committed in every store, as far as can be told before.

        Raises:
            RunConflictError: others changed the same items in one of the stores.
        """
        for name in self._pending():
            if found := self._collections[name].conflicts(self.run):
                raise RunConflictError(name, self.run, found)

    def commit(self) -> None:
        """Commit the run in every store that it wrote to.

        Raises:
            RunConflictError: others changed the same items in one of the stores; nothing was committed.
        """
        self.close()
        self.check()
        decision = RunDecision(run=self.run, stores=tuple(self._pending()))
        end_everywhere(decision, self._collections, self._decisions)

    def discard(self) -> None:
        """Drop what the run wrote, in every store."""
        self.close()
        for name in self._pending():
            self._collections[name].discard(self.run)

    def close(self) -> None:
        """Release the views; the run stays as it is."""
        for store in self.stores.values():
            store.close()

    def _pending(self) -> list[str]:
        found = {name: collection.find_run(self.run) for name, collection in self._collections.items()}
        return [name for name, info in found.items() if info is not None and info.state is RunState.PENDING]


def revert_everywhere(run: str, stores: Mapping[str, MemoryBase], *, decisions: Path | None) -> dict[str, RunInfo]:
    """Undo a run in every store that it wrote to, in all or in none; return the runs that undo it, by store.

    Args:
        run: id of the run, which was a transaction or not.
        stores: the stores of a workflow, by name.
        decisions: folder of decisions that are not carried out yet; None where a crash between the commits of two
            stores may leave the run reverted in one of them.

    Raises:
        NoVersionsError: it wrote to a store that keeps no versions; nothing was changed.
        RunConflictError: later versions in one of the stores build on what it wrote; nothing was changed.
        RunStateError: it wrote to none of the stores, or is not committed in one; nothing was changed.
    """
    versions = _versions_of_written(run, stores)
    if not versions:
        raise RunStateError(", ".join(stores), run, "unknown", "no run of this id has written anything here")
    for name, collection in versions.items():
        if found := collection.conflicts(run):
            raise RunConflictError(name, run, found)
    end_everywhere(RunDecision(run=run, stores=tuple(versions), operation="revert"), versions, decisions)
    undone = {name: collection.find_run(f"revert of {run}") for name, collection in versions.items()}
    return {name: info for name, info in undone.items() if info is not None}


def _versions_of_written(run: str, stores: Mapping[str, MemoryBase]) -> dict[str, VersionedCollection]:
    """Return the collections of the stores that a run wrote to.

    Raises:
        NoVersionsError: one of them keeps no versions, or does not tell what it holds of a run.
    """
    found: dict[str, VersionedCollection] = {}
    for name, store in stores.items():
        try:
            collection = versions_of(store)
        except NoVersionsError:
            if isinstance(store, CollectionMemory) and not store.collection.count(Filter(scope=Scope(run=run))):
                continue
            raise
        if collection.find_run(run) is not None:
            found[name] = collection
    return found
