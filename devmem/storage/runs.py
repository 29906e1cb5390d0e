"""The states of runs: beginning, ending and listing them, the same in every database that keeps versions."""

from __future__ import annotations

import sqlite3
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final, ParamSpec, TypeVar

from devmem.errors import RunStateError
from devmem.model.items import MemoryItem, SourceKind
from devmem.model.versions import Operation, RunInfo, RunState

MICROSECONDS: Final = 1_000_000
"""Units of a recorded time in a second."""
_DAY: Final = 86_400.0


@dataclass(frozen=True, slots=True, kw_only=True)
class HistoryLimit:
    """How long versions are kept after another one took their place."""

    days: float | None
    """None keeps them for good, 0 keeps none."""

    @property
    def keeps(self) -> bool:
        """Whether any are kept."""
        return self.days is None or self.days > 0

    def oldest(self, now: float) -> int | None:
        """Return the recorded time before which versions must have ended to be removed; None removes none.

        `now` is in seconds since the epoch.
        """
        return None if self.days is None else recorded(now - self.days * _DAY)

    def keeps_since(self, at: int, now: float) -> bool:
        """Whether every version that ended at a recorded time, or later, is still kept at `now`."""
        oldest = self.oldest(now)
        return self.keeps and (oldest is None or at >= oldest)


@dataclass(frozen=True, slots=True, kw_only=True)
class VersionEnd:
    """The change that ends versions, without when it happens."""

    operation: Operation
    run: str | None = None
    actor: str | None = None
    """Who makes it, as far as it is known."""


def author_of(item: MemoryItem) -> str | None:
    """Return who wrote an item, as far as it says so itself; the name of a file or an import is nobody's."""
    is_place = item.provenance.kind in (SourceKind.FILE, SourceKind.IMPORT)
    return (None if is_place else item.provenance.name) or item.scope.agent


def recorded(seconds: float) -> int:
    """Return a time in seconds since the epoch as a database records it."""
    return round(seconds * MICROSECONDS)


def seconds(time: int) -> float:
    """Return a recorded time in seconds since the epoch."""
    return time / MICROSECONDS


@dataclass(frozen=True, slots=True, kw_only=True)
class RunRow:
    """A run as a database records it, with recorded times."""

    run: str
    state: RunState
    actor: str | None = None
    started: int
    ended: int | None = None
    committed: int | None = None

    @classmethod
    def read(cls, columns: Sequence[Any], read_text: Callable[[str | None], str | None]) -> RunRow:
        """Return the run of a row with the columns in this order; `read_text` reverses how texts are stored."""
        run, state, actor, started, ended, committed = columns
        return cls(
            run=read_text(run) or "",
            state=RunState(state),
            actor=read_text(actor),
            started=started,
            ended=ended,
            committed=committed,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class PendingVersion:
    """A version that a pending run wrote."""

    row: int
    operation: Operation
    base: int | None
    """Row of the current item that it replaces, or deletes; None where there was none."""
    actor: str | None


class Runs(ABC):
    """The runs of a collection within one transaction; a subclass asks its database."""

    def __init__(self, location: str) -> None:
        """Take the place of the collection, for errors."""
        self.location = location

    @abstractmethod
    def lock(self, run: str) -> None:
        """Let no other transaction write in a run, or end it, until this one ends."""

    @abstractmethod
    def end(self, run: str, state: RunState, at: int) -> None:
        """Record that a run is in a state since a recorded time."""

    @abstractmethod
    def conflicts(self, run: str) -> list[str]:
        """Return the ids of the items that others changed since a pending run did; what both deleted is in none."""

    @abstractmethod
    def pending(self, run: str) -> list[PendingVersion]:
        """Return the versions that a pending run wrote, oldest first."""

    @abstractmethod
    def remove_pending(self, run: str) -> None:
        """Remove the versions that a pending run wrote, and what only they use."""

    @abstractmethod
    def span(self, run: str) -> tuple[int, int] | None:
        """Return the recorded times of a run's first and last committed change; None when no change of it is kept."""

    @abstractmethod
    def _row(self, run: str) -> RunRow | None:
        """Return the recorded row of a run."""

    @abstractmethod
    def _insert(self, row: RunRow) -> None:
        """Record a run, unless it is recorded already."""

    @abstractmethod
    def _newest(self, limit: int) -> list[RunRow]:
        """Return the recorded runs that began last, newest first."""

    @abstractmethod
    def _never_pending(self, limit: int) -> list[tuple[str, int, int]]:
        """Return id, first and last recorded time of the newest runs that only their changes tell of."""

    @abstractmethod
    def _count_changes(self, run: str) -> int:
        """Return the number of items that a run changed, or is about to."""

    def state_of(self, run: str) -> RunState | None:
        """Return the state of a run; None when it has not written anything as a run."""
        found = self._row(run)
        return None if found is None else found.state

    def check_open(self, run: str) -> None:
        """Refuse a run that has ended.

        Raises:
            RunStateError: it has.
        """
        state = self.state_of(run)
        if state not in (None, RunState.PENDING):
            raise RunStateError(self.location, run, state.value, "nothing can be written in it; use another id")

    def begin(self, run: str, actor: str | None, now: float) -> None:
        """Record a run as pending, unless it is already, and lock it; `now` is in seconds since the epoch.

        Raises:
            RunStateError: it has ended.
        """
        self.lock(run)
        self.check_open(run)
        self._insert(RunRow(run=run, state=RunState.PENDING, actor=actor, started=recorded(now)))

    def record(self, info: RunInfo) -> None:
        """Record a committed run that was never pending, unless it is recorded already."""
        started, ended = (recorded(each or 0.0) for each in (info.started_at, info.ended_at))
        self._insert(RunRow(run=info.run, state=info.state, started=started, ended=ended, committed=ended))

    def is_to_end(self, run: str, wanted: RunState) -> bool:
        """Whether a run is pending, and not in the wanted state already.

        Raises:
            RunStateError: it ended otherwise, or there is none.
        """
        state = self.read(run).state
        if state not in (RunState.PENDING, wanted):
            raise RunStateError(self.location, run, state.value, f"it cannot be {wanted.value} any more")
        return state is RunState.PENDING

    def require(self, info: RunInfo, *states: RunState) -> None:
        """Refuse a run that is in none of some states.

        Raises:
            RunStateError: it is in another one.
        """
        if info.state not in states:
            raise RunStateError(self.location, info.run, info.state.value, f"this needs one that is {states[0].value}")

    def newest(self, limit: int) -> list[RunInfo]:
        """Return the runs that began last, newest first, at most `limit`."""
        found = [*self._newest(limit), *(_seen_at_once(*each) for each in self._never_pending(limit))]
        newest = sorted(found, key=lambda row: (-row.started, row.run))[:limit]
        return [self._info(row) for row in newest]

    def find(self, run: str) -> RunInfo | None:
        """Return what is known of a run; None when it has written nothing."""
        row = self._row(run)
        if row is None and (times := self.span(run)) is not None:
            row = _seen_at_once(run, *times)
        return None if row is None else self._info(row)

    def read(self, run: str) -> RunInfo:
        """Return what is known of a run.

        Raises:
            RunStateError: it has written nothing.
        """
        found = self.find(run)
        if found is None:
            raise RunStateError(self.location, run, "unknown", "no run of this id has written anything here")
        return found

    def committed_at(self, run: str) -> int | None:
        """Return the recorded time from which on everybody sees what a run wrote; None when none of it is kept."""
        row = self._row(run)
        if row is not None:
            return row.committed
        times = self.span(run)
        return None if times is None else times[1]

    def _info(self, row: RunRow) -> RunInfo:
        return RunInfo(
            run=row.run,
            state=row.state,
            actor=row.actor,
            started_at=seconds(row.started),
            ended_at=None if row.ended is None else seconds(row.ended),
            changes=self._count_changes(row.run),
        )


def _seen_at_once(run: str, first: int, last: int) -> RunRow:
    """Return the row of a run whose changes were seen by all at once."""
    return RunRow(run=run, state=RunState.COMMITTED, started=first, ended=last, committed=last)


T = TypeVar("T")
P = ParamSpec("P")


def write_transaction(
    connection: sqlite3.Connection, operation: Callable[P, T], *args: P.args, **kwargs: P.kwargs
) -> T:
    """Call an operation under the write lock; commit all that it wrote, or nothing when anything is raised.

    The lock is taken before the operation reads: what was read before another process's commit could not be written any
    more.
    """
    return _run(connection, ("BEGIN IMMEDIATE", "COMMIT"), operation, *args, **kwargs)


def read_transaction(connection: sqlite3.Connection, operation: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Call an operation that reads the database as of one commit."""
    return _run(connection, ("BEGIN", "COMMIT"), operation, *args, **kwargs)


def rolled_back(connection: sqlite3.Connection, operation: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Call an operation that reads, and roll back what it created to read by."""
    return _run(connection, ("BEGIN", "ROLLBACK"), operation, *args, **kwargs)


def _run(
    connection: sqlite3.Connection,
    bounds: tuple[str, str],
    operation: Callable[P, T],
    *args: P.args,
    **kwargs: P.kwargs,
) -> T:
    # Not a context manager: Ctrl-C between its `__enter__` and the block, or at the start of its `__exit__`, would
    # leave the transaction open, and with it every other process locked out.
    begin, end = bounds
    try:
        abandon(connection)
        connection.execute(begin)
        result = operation(*args, **kwargs)
        connection.execute(end)
        return result
    finally:
        abandon(connection)


def abandon(connection: sqlite3.Connection) -> None:
    """Roll back what is not committed; at the start, what an exception in a rollback left open."""
    if connection.in_transaction:
        connection.execute("ROLLBACK")
