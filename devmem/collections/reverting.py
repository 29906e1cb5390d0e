"""Reverting a committed run: its changes are undone by changes that follow them, the same in every database."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Generic, TypeVar

from devmem.collections.committing import Committer
from devmem.collections.recorded import Ending, seconds
from devmem.collections.runs import Runs
from devmem.errors import RunConflictError, RunStateError
from devmem.model.acting import current_actor
from devmem.model.versions import Operation, RunInfo, RunState

K = TypeVar("K")
"""By what a database finds an item."""

_FOREVER: Final = 1 << 62
"""Later than every recorded time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunChange:
    """A run's change of one item."""

    left: int | None
    """Row of the current item, which the run wrote; None where it deleted the item."""
    replaced: int | None
    """Row of the version that was the current one before; None where there was none."""


class RunChanges(ABC, Generic[K]):
    """The changes that a committed run made to items; a subclass asks its database within one transaction."""

    def __init__(self, runs: Runs) -> None:
        """Take the runs of the collection."""
        self.runs = runs

    @abstractmethod
    def _touched(self, run: str) -> Sequence[K]:
        """Return the items that the run changed."""

    @abstractmethod
    def _derived(self, run: str) -> set[str]:
        """Return the ids of the items that were derived, by others, from what the run wrote."""

    @abstractmethod
    def _name_of(self, key: K) -> str:
        """Return the id of an item."""

    @abstractmethod
    def _current(self, key: K) -> tuple[int, str | None] | None:
        """Return the row of the current item and the run that wrote it."""

    @abstractmethod
    def _last_ended(self, key: K, before: int) -> tuple[str, str | None] | None:
        """Return the operation and the run that ended the last version that had ended by a recorded time."""

    @abstractmethod
    def _first(self, key: K, run: str) -> tuple[str | None, int] | None:
        """Return operation and recorded time of the first change that the run made to an item."""

    @abstractmethod
    def _replaced(self, key: K, run: str) -> list[int]:
        """Return the rows of the versions of others that the run replaced, at most two.

        A second one shows that they wrote in between.
        """

    @abstractmethod
    def _was_replaced(self, key: K, run: str) -> bool:
        """Whether others ended a version that the run wrote."""

    def conflicts(self, info: RunInfo) -> list[str]:
        """Return the ids of the items that build on what a committed run wrote.

        Raises:
            RunStateError: the run is not committed, or what it replaced is not kept any more.
        """
        return self.read(info)[1]

    def read(self, info: RunInfo) -> tuple[list[RunChange], list[str]]:
        """Return what a committed run did, and the ids of the items that build on it; raises as `conflicts` does."""
        self.runs.require(info, RunState.COMMITTED)
        changes: list[RunChange] = []
        conflicts = self._derived(info.run)
        for key in self._touched(info.run):
            change = self._change(key, info.run)
            if change is None:
                conflicts.add(self._name_of(key))
            else:
                changes.append(change)
        return changes, sorted(conflicts)

    def _change(self, key: K, run: str) -> RunChange | None:
        """Return what a run did to an item; None where others changed it since."""
        current = self._current(key)
        newest = current or self._last_ended(key, _FOREVER)
        if newest is None or newest[1] != run:
            return None
        replaced = self._replaced(key, run)
        if len(replaced) > 1 or self._was_replaced(key, run):
            return None
        if not replaced and self._lost(key, run):
            reason = f"the version of {self._name_of(key)!r} that it replaced is not kept any more"
            raise RunStateError(self.runs.location, run, RunState.COMMITTED.value, reason)
        return RunChange(
            left=None if current is None else current[0],
            replaced=replaced[0] if replaced else None,
        )

    def _lost(self, key: K, run: str) -> bool:
        """Whether a run's first change of an item replaced a version, although none is kept."""
        first = self._first(key, run)
        if first is None or first[0] in (None, Operation.ADD.value):
            return False
        # What was restored had been deleted before, or replaced what is not kept.
        before = self._last_ended(key, first[1])
        return before is None or before[0] != Operation.FORGET.value


def undoing(run: str) -> str:
    """Return the id of the run that undoes another one."""
    return f"revert of {run}"


def revert(made: RunChanges[K], committer: Committer, run: str) -> None:
    """Undo a run within the committer's transaction.

    Raises:
        RunConflictError: later versions build on what the run wrote; nothing was changed.
        RunStateError: the run is not committed, or what it replaced is not kept any more.
        CollectionDamagedError: what it replaced cannot be read.
    """
    runs, inverse, actor = made.runs, undoing(run), current_actor().name
    runs.lock(run)
    committer.hold(run)
    info = runs.read(run)
    changes, conflicts = made.read(info)
    _check(runs, committer, info, conflicts)
    runs.record(info)
    runs.begin(inverse, actor, seconds(committer.at))
    for change in changes:
        if change.left is not None:
            operation = Operation.FORGET if change.replaced is None else Operation.RESTORE
            committer.end(change.left, Ending(operation=operation, run=inverse, actor=actor))
        if change.replaced is not None:
            committer.put_back(change.replaced, Operation.RESTORE, run=inverse, actor=actor)
    runs.end(run, RunState.REVERTED, committer.at)
    runs.end(inverse, RunState.COMMITTED, committer.at)


def _check(runs: Runs, committer: Committer, info: RunInfo, conflicts: Sequence[str]) -> None:
    """Refuse to revert a run that something builds on, or that cannot be undone as a whole."""
    times = runs.span(info.run)
    if times is not None and not committer.keeps_since(times[0]):
        # What it deleted would stay deleted without a word.
        reason = (
            "versions of its time are not kept any more (`history` of the store), so it cannot be undone as a whole"
        )
        raise RunStateError(runs.location, info.run, info.state.value, reason)
    if conflicts:
        raise RunConflictError(runs.location, info.run, list(conflicts))
