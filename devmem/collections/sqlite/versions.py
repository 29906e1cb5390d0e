"""Versions and runs of a SQLite collection: the methods of `VersionedCollection`."""

from __future__ import annotations

import sqlite3
from abc import abstractmethod
from collections.abc import Callable
from dataclasses import replace
from typing import TypeVar

from devmem.collections.recorded import recorded
from devmem.collections.reverting import undoing
from devmem.collections.sqlite import differences, history, pending, reverting, runs, view
from devmem.collections.sqlite.erasing import SqliteEraser
from devmem.collections.sqlite.recorder import CurrentRecorder
from devmem.collections.sqlite.run_view import SqliteRunView
from devmem.collections.sqlite.view import ShownItems, SqliteView
from devmem.errors import RunStateError
from devmem.model.versions import ItemDifference, ItemVersion, RunInfo, RunState

T = TypeVar("T")


class SqliteVersions(SqliteEraser):
    """A collection with the versions of its items; a subclass opens the database."""

    @abstractmethod
    def _write(self, operation: Callable[[sqlite3.Connection], T]) -> T:
        """Run an operation in a write transaction."""

    @abstractmethod
    def _recorder(self, connection: sqlite3.Connection, run: str | None = None) -> CurrentRecorder:
        """Return the recorder of a write transaction, in which a run is committed or reverted."""

    @abstractmethod
    def _shown_items(self, items: str) -> ShownItems:
        """Return a reader of the database in which `items` means the rows of a query."""

    def history(self, item_id: str) -> list[ItemVersion]:
        """Return the versions of an item, oldest first."""
        found = self._read(lambda connection: history.read_history(connection, item_id, self._damaged))
        return [replace(version, item=self._resolved(version.item)) for version in found]

    def as_of(self, time: float) -> SqliteView:
        """Return the collection as it was at a time, read only."""
        shown = self._shown_items(view.items_as_of(recorded(time)))
        state = f"it is shown as of {time:.6f} (seconds since the epoch)"
        opened = replace(self._opened, clock=lambda: time)
        return SqliteView(opened, shown, model_name=self._model_name, state=state)

    def run(self, run: str, *, actor: str | None = None) -> SqliteRunView:
        """Return the collection as a pending run sees and changes it."""
        state = self._read(lambda connection: runs.state_of(connection, run))
        if state not in (None, RunState.PENDING):
            raise RunStateError(self.location, run, state.value, "nothing can be written in it; use another id")
        return SqliteRunView(
            self._opened,
            self._shown_items(pending.items_of_run(run)),
            model_name=self._model_name,
            write=self._write,
            run=run,
            actor=actor,
        )

    def runs(self, limit: int = 100) -> list[RunInfo]:
        """Return the runs that began last, newest first."""
        return self._read(lambda connection: runs.read_runs(connection, max(limit, 0)))

    def find_run(self, run: str) -> RunInfo | None:
        """Return what is known of a run; None when it has written nothing."""
        return self._read(lambda connection: runs.find_run(connection, run))

    def conflicts(self, run: str) -> list[str]:
        """Return the ids of the items that keep a run from being committed, or reverted."""

        def conflicts(connection: sqlite3.Connection) -> list[str]:
            info = runs.find_run(connection, run)
            if info is None or info.state is RunState.PENDING:
                return runs.conflicts(connection, run)
            return reverting.conflicts(connection, self.location, info)

        return self._read(conflicts)

    def commit(self, run: str, *, then: Callable[[], object] | None = None) -> RunInfo:
        """Make what a pending run wrote the current items."""

        def commit(connection: sqlite3.Connection) -> RunInfo:
            runs.commit(self._recorder(connection, run), self.location, run, self._damaged)
            info = runs.read_run(connection, self.location, run)
            if then is not None:
                then()
            return info

        return self._write(commit)

    def discard(self, run: str) -> RunInfo:
        """Drop what a pending run wrote."""

        def discard(connection: sqlite3.Connection) -> RunInfo:
            runs.discard(connection, self._attachments, self.location, run, self._clock())
            return runs.read_run(connection, self.location, run)

        return self._write(discard)

    def revert(self, run: str, *, then: Callable[[], object] | None = None) -> RunInfo:
        """Undo a committed run by changes that follow it."""

        def revert(connection: sqlite3.Connection) -> RunInfo:
            inverse = undoing(run)
            reverting.revert(self._recorder(connection, inverse), self.location, run, self._damaged)
            info = runs.read_run(connection, self.location, inverse)
            if then is not None:
                then()
            return info

        return self._write(revert)

    def diff(self, before: float | str, after: float | str | None = None) -> list[ItemDifference]:
        """Return the items that differ between two states, or that a run changed."""

        def read(connection: sqlite3.Connection) -> list[ItemDifference]:
            return differences.read_differences(connection, self.location, before, after, self._damaged)

        return [
            ItemDifference(
                before=None if each.before is None else self._resolved(each.before),
                after=None if each.after is None else self._resolved(each.after),
            )
            for each in self._read(read)
        ]
