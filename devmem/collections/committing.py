"""Committing and discarding pending runs, the same in every database that keeps versions."""

from __future__ import annotations

from typing import Protocol

from devmem.collections.recorded import Ending, recorded
from devmem.collections.runs import Runs
from devmem.errors import RunConflictError
from devmem.model.versions import Operation, RunState


class Committer(Protocol):
    """Changes the current items by versions, within a transaction in which a run is committed or reverted."""

    @property
    def at(self) -> int:
        """Recorded time of the transaction."""
        ...

    def hold(self, run: str) -> None:
        """Let no other transaction change the items that a run changed until this one ends."""
        ...

    def end(self, row: int, ending: Ending) -> None:
        """Delete a current item, which stays as a version where these are kept; one that is gone stays gone."""
        ...

    def put_back(self, version: int, operation: Operation, *, run: str, actor: str | None) -> None:
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
            committer.end(version.base, Ending(operation=ended_by, run=run, actor=version.actor))
        if not is_deletion:
            committer.put_back(version.row, version.operation, run=run, actor=version.actor)
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
