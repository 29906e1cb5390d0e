"""Versions and runs of a collection: the methods of `VersionedCollection` that every database has in common."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, Generic, TypeVar

from devmem.collections.committing import Committer, commit, discard
from devmem.collections.differences import Differences
from devmem.collections.reverting import RunChanges, revert, undoing
from devmem.collections.runs import Runs
from devmem.collections.writing import WritingCollection
from devmem.model.items import MemoryItem
from devmem.model.versions import ItemDifference, ItemVersion, RunInfo, RunState

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
