"""Runs over several stores: what is written in one is committed in all of them, or in none."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Final

from devmem.errors import DevmemError, NoVersionsError, RunConflictError, RunStateError
from devmem.model.filters import Filter
from devmem.model.items import Scope
from devmem.model.versions import RunInfo, RunState
from devmem.storage.versions import VersionedCollection
from devmem.stores.abilities import versions_of, viewed
from devmem.stores.collection_memory import CollectionMemory
from devmem.stores.commit_log import CommitRecord, open_commits
from devmem.stores.memory import MemoryBase

_LOG: Final = logging.getLogger(__name__)
_MEMORY: Final = ":memory:"


def end_everywhere(decision: CommitRecord, collections: Mapping[str, VersionedCollection], file: Path | None) -> None:
    """Commit or revert a run in several collections, in all or in none.

    Each collection makes its changes within the transactions of those before it, so that nothing else changes
    between the check and the commits; when all changes are made, the decision is written, and they commit one after
    another. What a crash then leaves undone is done by `recover_runs`.

    Args:
        decision: the run, and the names of the collections.
        collections: the collections, by name.
        file: keeps the decision; None keeps none, so that a crash between two commits leaves the run in a part.

    Raises:
        RunConflictError: others changed the same items in one of the collections; nothing was changed in any.
        RunStateError: the run cannot end so in one of them; nothing was changed in any.
    """
    chosen = _one_each(decision, collections)
    ends = [each.commit if decision.operation == "commit" else each.revert for each in chosen]
    steps = [partial(end, decision.run) for end in ends]
    if file is None or len(chosen) < 2:
        _nested(steps, lambda: None)
        return
    with closing(open_commits(file)) as commits:
        _nested(steps, lambda: commits.put({decision.run: decision}))
        commits.remove([decision.run])


def _nested(steps: Sequence[Callable[..., object]], last: Callable[[], object]) -> None:
    if steps:
        steps[0](then=lambda: _nested(steps[1:], last))
    else:
        last()


def _one_each(decision: CommitRecord, collections: Mapping[str, VersionedCollection]) -> list[VersionedCollection]:
    """Return the collections in the order in which everybody locks them, each place once.

    Two stores on one file share its runs.
    """
    places: dict[str, str] = {}
    for name in sorted(decision.stores):
        place = collections[name].info().location
        if place == _MEMORY:
            place = name
        elif "://" not in place:
            place = str(Path(place).resolve())
        places.setdefault(place, name)
    return [collections[name] for _, name in sorted(places.items())]


def recover_runs(file: Path, stores: Mapping[str, MemoryBase]) -> list[str]:
    """Carry out what an earlier process had decided when it died, as far as the stores are there; return the runs.

    Where others changed the same items since, the run is undone in the stores in which it ended already.
    """
    if not file.exists():
        return []
    finished: list[str] = []
    with closing(open_commits(file)) as commits:
        decisions = [entry.value for entry in commits.entries()]
    for decision in decisions:
        if missing := [name for name in decision.stores if name not in stores]:
            _LOG.warning(
                "%s: run %r was decided to end in stores that are not declared any more, or not open (%s); its %s "
                "waits until they are declared and opened again; see `devmem runs`.",
                file, decision.run, ", ".join(missing), decision.operation,
            )  # fmt: skip
        else:
            _finish(decision, {name: versions_of(stores[name]) for name in decision.stores})
            with closing(open_commits(file)) as commits:
                commits.remove([decision.run])
            finished.append(decision.run)
    return finished


def _finish(decision: CommitRecord, collections: Mapping[str, VersionedCollection]) -> None:
    rest = CommitRecord(run=decision.run, stores=_open(decision, collections), operation=decision.operation)
    try:
        end_everywhere(rest, collections, None)
    except (RunConflictError, RunStateError) as error:
        if still_open := _open(decision, collections):
            _LOG.warning("run %r cannot be ended in every store (%s); it is undone.", decision.run, error)
            _undo(decision, still_open, collections)
        # Else the process that decided it is alive, and has just ended it itself.


def _open(decision: CommitRecord, collections: Mapping[str, VersionedCollection]) -> tuple[str, ...]:
    """Return the names of the collections in which a run has not ended as decided."""
    before = RunState.PENDING if decision.operation == "commit" else RunState.COMMITTED
    infos = {name: collection.find_run(decision.run) for name, collection in collections.items()}
    return tuple(name for name, info in infos.items() if info is not None and info.state is before)


def _undo(decision: CommitRecord, open_ones: Sequence[str], collections: Mapping[str, VersionedCollection]) -> None:
    """Take a run back in the collections in which it ended, so that it is as if nothing had been decided."""
    ended = [name for name in decision.stores if name not in open_ones]
    done = decision.run if decision.operation == "commit" else f"revert of {decision.run}"
    try:
        end_everywhere(CommitRecord(run=done, stores=tuple(ended), operation="revert"), collections, None)
        if decision.operation == "commit":
            for name in open_ones:
                collections[name].discard(decision.run)
    except DevmemError as error:
        _LOG.error(
            "run %r has ended in %s and not in %s, and cannot be undone: %s; see `devmem runs`.",
            decision.run, ", ".join(ended), ", ".join(open_ones), error,
        )  # fmt: skip


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
            decisions: file of decisions that are not carried out yet; None where a crash between the commits of two
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
        decision = CommitRecord(run=self.run, stores=tuple(self._pending()))
        end_everywhere(decision, self._collections, self._decisions)

    def discard(self) -> None:
        """Drop what the run wrote, in every store."""
        self.close()
        for name in self._pending():
            self._collections[name].discard(self.run)

    def close(self) -> None:
        """Release the views; the run stays unchanged."""
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
        decisions: file of decisions that are not carried out yet; None where a crash between the commits of two
            stores may leave the run reverted in one of them.

    Raises:
        NoVersionsError: it wrote to a store that keeps no versions; nothing was changed.
        RunConflictError: later versions in one of the stores build on what it wrote; nothing was changed.
        RunStateError: it wrote to none of the stores, or is not committed in one; nothing was changed.
    """
    versions: dict[str, VersionedCollection] = {}
    for name, store in stores.items():
        try:
            collection = versions_of(store)
        except NoVersionsError:
            # Where nothing is of the run, nothing has to be undone.
            if isinstance(store, CollectionMemory) and not store.collection.count(Filter(scope=Scope(run=run))):
                continue
            raise
        if collection.find_run(run) is not None:
            versions[name] = collection
    if not versions:
        raise RunStateError(", ".join(stores), run, "unknown", "no run of this id has written anything here")
    for name, collection in versions.items():
        if found := collection.conflicts(run):
            raise RunConflictError(name, run, found)
    end_everywhere(CommitRecord(run=run, stores=tuple(versions), operation="revert"), versions, decisions)
    undone = {name: collection.find_run(f"revert of {run}") for name, collection in versions.items()}
    return {name: info for name, info in undone.items() if info is not None}
