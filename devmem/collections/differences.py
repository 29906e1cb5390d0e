"""The difference between two states of a collection, the same in every database that keeps versions."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import TypeAlias

from devmem.collections.recorded import recorded
from devmem.collections.runs import Runs
from devmem.model.items import MemoryItem
from devmem.model.version_hash import version_hash
from devmem.model.versions import ItemDifference, RunState

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
