"""Versions and runs of a collection: the methods of `VersionedCollection` that every database has in common."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, Generic, Protocol, TypeAlias, TypeVar

from devmem.errors import RunConflictError, RunStateError
from devmem.model.caller import current_actor
from devmem.model.items import MemoryItem, version_hash
from devmem.model.versions import ItemDifference, ItemVersion, Operation, RunInfo, RunState
from devmem.storage.runs import Runs, VersionEnd, recorded, seconds
from devmem.storage.writing import WritingCollection


class Committer(Protocol):
    """Changes the current items by versions, within a transaction in which a run is committed or reverted."""

    @property
    def at(self) -> int:
        """Recorded time of the transaction."""
        ...

    def hold(self, run: str) -> None:
        """Let no other transaction change the items that a run changed until this one ends."""
        ...

    def end(self, row: int, ending: VersionEnd) -> None:
        """Delete a current item, which stays as a version where these are kept; one that is gone stays gone."""
        ...

    def restore_version(self, version: int, operation: Operation, *, run: str, actor: str | None) -> None:
        """Insert the item of a version as a current one, stored last, with all that belongs to it.

        Args:
            version: row of the version.
            operation: begins the current version.
            run: writes it.
            actor: wrote it, as far as it is known.

        Raises:
            CollectionDamagedError: it cannot be read.
        """
        ...

    def remove_pending(self, run: str) -> None:
        """Remove the versions that a pending run wrote, whose items are the current ones now."""
        ...

    def keeps_since(self, at: int) -> bool:
        """Whether every version that ended at a recorded time, or later, is still kept."""
        ...


def commit(runs: Runs, committer: Committer, run: str) -> None:
    """Make what a pending run wrote the current items; one that is committed stays so.

    Raises:
        RunConflictError: others changed the same items since; nothing was committed.
        RunStateError: the run was discarded or reverted, or there is none.
        CollectionDamagedError: what it wrote cannot be read.
    """
    runs.lock(run)
    if not runs.is_to_end(run, RunState.COMMITTED):
        return
    committer.hold(run)
    if found := runs.conflicts(run):
        raise RunConflictError(runs.location, run, found)
    for version in runs.pending(run):
        is_deletion = version.operation is Operation.FORGET
        if version.base is not None:
            ended_by = Operation.FORGET if is_deletion else Operation.UPDATE
            committer.end(version.base, VersionEnd(operation=ended_by, run=run, actor=version.actor))
        if not is_deletion:
            committer.restore_version(version.row, version.operation, run=run, actor=version.actor)
    committer.remove_pending(run)
    runs.end(run, RunState.COMMITTED, committer.at)


def discard(runs: Runs, run: str, now: float) -> None:
    """Drop what a pending run wrote; one that is discarded stays so. `now` is in seconds since the epoch.

    Raises:
        RunStateError: the run was committed, or there is none.
    """
    runs.lock(run)
    if runs.is_to_end(run, RunState.DISCARDED):
        runs.remove_pending(run)
        runs.end(run, RunState.DISCARDED, recorded(now))


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
            committer.end(change.left, VersionEnd(operation=operation, run=inverse, actor=actor))
        if change.replaced is not None:
            committer.restore_version(change.replaced, Operation.RESTORE, run=inverse, actor=actor)
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


States: TypeAlias = tuple[str, str]
"""Queries of the items of two states, the earlier one first."""


class Differences(ABC):
    """Compares states of a collection within one transaction; a subclass has the queries of its database."""

    def __init__(self, runs: Runs) -> None:
        """Take the runs of the collection."""
        self._runs = runs

    @abstractmethod
    def _current(self) -> str:
        """Return the query of the current items."""

    @abstractmethod
    def _nothing(self) -> str:
        """Return a query of items that finds none."""

    @abstractmethod
    def _as_of(self, at: int) -> str:
        """Return the query of the items at a recorded time."""

    @abstractmethod
    def _of_run(self, run: str) -> str:
        """Return the query of the items as a pending run sees them."""

    @abstractmethod
    def _touched_by(self, run: str, items: str) -> str:
        """Return the query of those items of another query that a run changed."""

    @abstractmethod
    def _differing(self, states: States) -> list[tuple[int | None, int | None]]:
        """Return the rows of an item in both states where they differ; None where there is none."""

    @abstractmethod
    def _items(self, numbers: Sequence[int]) -> dict[int, MemoryItem]:
        """Return current items and versions by their row numbers, damaged ones left out."""

    def read(self, before: float | str, after: float | str | None) -> list[ItemDifference]:
        """Return the items that differ between two states, in the order of their ids.

        Args:
            before: a time in seconds since the epoch, or a run: the state that it left.
            after: likewise; None is the current state after a time, and what the run changed after a run.

        Raises:
            RunStateError: there is no such run, or it was discarded.
        """
        if isinstance(before, str) and after is None:
            states = self._around(before)
        else:
            states = self._state(before), self._current() if after is None else self._state(after)
        found = self._differing(states)
        items = self._items([row for pair in found for row in pair if row is not None])
        changed = (
            ItemDifference(before=items.get(one) if one else None, after=items.get(other) if other else None)
            for one, other in found
        )
        return sorted((each for each in changed if _differs(each)), key=lambda each: each.item_id)

    def _state(self, point: float | str) -> str:
        """Return the query of the items at a time, or after a run."""
        return self._left_by(point) if isinstance(point, str) else self._as_of(recorded(point))

    def _left_by(self, run: str) -> str:
        """Return the query of the items as a run left them."""
        if self._is_pending(run):
            return self._of_run(run)
        at = self._runs.committed_at(run)
        return self._nothing() if at is None else self._as_of(at)

    def _around(self, run: str) -> States:
        """Return the queries of the items that a run changed, before it and after it."""
        if self._is_pending(run):
            return self._current(), self._of_run(run)
        times = self._runs.span(run)
        if times is None:
            return self._nothing(), self._nothing()
        # Where the changes of the run were seen at once, others may have changed other items between them.
        return self._touched_by(run, self._as_of(times[0] - 1)), self._touched_by(run, self._as_of(times[1]))

    def _is_pending(self, run: str) -> bool:
        """Whether a run is pending; it is refused where it is neither that nor was ever committed."""
        info = self._runs.read(run)
        if info.state is RunState.PENDING:
            return True
        self._runs.require(info, RunState.COMMITTED, RunState.REVERTED)
        return False


def _differs(change: ItemDifference) -> bool:
    """Whether the two versions tell apart: one that was restored has another row."""
    before, after = change.before, change.after
    if before is None or after is None:
        return before is not after
    return version_hash(before) != version_hash(after)


C = TypeVar("C")
"""A connection."""
T = TypeVar("T")


class VersioningCollection(WritingCollection, Generic[C]):
    """History, runs and differences, on the transactions of a subclass."""

    _clock: Callable[[], float]

    @abstractmethod
    def _read(self, operation: Callable[[C], T]) -> T:
        """Run an operation that sees the database as of one commit."""

    @abstractmethod
    def _write(self, operation: Callable[[C], T]) -> T:
        """Run an operation in a write transaction."""

    @abstractmethod
    def _with_attachments(self, items: Sequence[MemoryItem]) -> list[MemoryItem]:
        """Return the items, in their order, with their attachments as they are read."""

    @abstractmethod
    def _read_history(self, connection: C, item_id: str) -> list[ItemVersion]:
        """Return the committed versions of an item, oldest first."""

    @abstractmethod
    def _runs(self, connection: C) -> Runs:
        """Return the runs, within a transaction."""

    @abstractmethod
    def _changes(self, connection: C) -> RunChanges[Any]:
        """Return the changes of runs, within a transaction."""

    @abstractmethod
    def _differences(self, connection: C) -> Differences:
        """Return what compares states, within a transaction."""

    @abstractmethod
    def _committer(self, connection: C, run: str) -> Committer:
        """Return what changes the current items within a write transaction, as a run."""

    def history(self, item_id: str) -> list[ItemVersion]:
        """Return the versions of an item, oldest first."""
        found = self._read(lambda connection: self._read_history(connection, item_id))
        items = self._with_attachments([version.item for version in found])
        return [replace(version, item=item) for version, item in zip(found, items, strict=True)]

    def runs(self, limit: int = 100) -> list[RunInfo]:
        """Return the runs that began last, newest first."""
        return self._read(lambda connection: self._runs(connection).newest(max(limit, 0)))

    def find_run(self, run: str) -> RunInfo | None:
        """Return what is known of a run; None when it has written nothing."""
        return self._read(lambda connection: self._runs(connection).find(run))

    def conflicts(self, run: str) -> list[str]:
        """Return the ids of the items that keep a run from being committed, or reverted."""

        def conflicts(connection: C) -> list[str]:
            runs = self._runs(connection)
            info = runs.find(run)
            if info is None or info.state is RunState.PENDING:
                return runs.conflicts(run)
            return self._changes(connection).conflicts(info)

        return self._read(conflicts)

    def commit(self, run: str, *, then: Callable[[], object] | None = None) -> RunInfo:
        """Make what a pending run wrote the current items."""

        def commit_run(connection: C) -> RunInfo:
            runs = self._runs(connection)
            commit(runs, self._committer(connection, run), run)
            return _ended(runs, run, then)

        return self._noted(self._write(commit_run))

    def discard(self, run: str) -> RunInfo:
        """Drop what a pending run wrote."""

        def discard_run(connection: C) -> RunInfo:
            runs = self._runs(connection)
            discard(runs, run, self._clock())
            return runs.read(run)

        return self._write(discard_run)

    def revert(self, run: str, *, then: Callable[[], object] | None = None) -> RunInfo:
        """Undo a committed run by changes that follow it."""
        inverse = undoing(run)

        def revert_run(connection: C) -> RunInfo:
            changes = self._changes(connection)
            revert(changes, self._committer(connection, inverse), run)
            return _ended(changes.runs, inverse, then)

        return self._noted(self._write(revert_run))

    def diff(self, before: float | str, after: float | str | None = None) -> list[ItemDifference]:
        """Return the items that differ between two states, or that a run changed."""
        found = self._read(lambda connection: self._differences(connection).read(before, after))
        return [ItemDifference(before=self._whole(each.before), after=self._whole(each.after)) for each in found]

    def _whole(self, item: MemoryItem | None) -> MemoryItem | None:
        return None if item is None else self._with_attachments([item])[0]

    def _noted(self, info: RunInfo) -> RunInfo:
        self._note(written=info.changes, deleted=info.changes)
        return info


def _ended(runs: Runs, run: str, then: Callable[[], object] | None) -> RunInfo:
    """Return what is known of a run that was ended within this transaction, after the last thing that may refuse."""
    info = runs.read(run)
    if then is not None:
        then()
    return info
