"""Reverting a run: its changes, its name, and when it is refused, the same in every database that keeps versions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from devmem.errors import RunConflictError, RunStateError
from devmem.model.versions import RunInfo


@dataclass(frozen=True, slots=True, kw_only=True)
class RunChange:
    """A run's change of one item."""

    left: int | None
    """Row of the current item, which the run wrote; None where it deleted the item."""
    replaced: int | None
    """Row of the version that was the current one before; None where there was none."""


def undoing(run: str) -> str:
    """Return the id of the run that undoes another one."""
    return f"revert of {run}"


def check_revertible(location: str, info: RunInfo, conflicts: Sequence[str], *, is_kept: bool) -> None:
    """Refuse to revert a run.

    Args:
        location: place of the collection.
        info: the run.
        conflicts: ids of the items that build on what it wrote.
        is_kept: whether every version of its time is.

    Raises:
        RunStateError: versions of its time are not kept any more.
        RunConflictError: there are conflicts.
    """
    if not is_kept:
        # What it deleted would stay deleted without a word.
        reason = (
            "versions of its time are not kept any more (`history` of the store), so it cannot be undone as a whole"
        )
        raise RunStateError(location, info.run, info.state.value, reason)
    if conflicts:
        raise RunConflictError(location, info.run, list(conflicts))
