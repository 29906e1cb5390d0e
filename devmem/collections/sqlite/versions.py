"""Versions and runs of a SQLite collection: the methods of `VersionedCollection`."""

from __future__ import annotations

import sqlite3
from abc import abstractmethod
from collections.abc import Callable
from dataclasses import replace
from typing import TypeVar

from devmem.collections.recorded import HistoryLimit, recorded
from devmem.collections.sqlite import history, pending, view
from devmem.collections.sqlite.differences import SqliteDifferences
from devmem.collections.sqlite.erasing import SqliteEraser
from devmem.collections.sqlite.putting_back import SqliteCommitter
from devmem.collections.sqlite.recorder import CurrentRecorder
from devmem.collections.sqlite.reverting import SqliteRunChanges
from devmem.collections.sqlite.run_view import SqliteRunView
from devmem.collections.sqlite.runs import SqliteRuns
from devmem.collections.sqlite.view import ShownItems, SqliteView
from devmem.collections.versioning import VersioningCollection
from devmem.model.versions import ItemVersion

T = TypeVar("T")


class SqliteVersions(SqliteEraser, VersioningCollection[sqlite3.Connection]):
    """A collection with the versions of its items; a subclass opens the database."""

    _history: HistoryLimit

    @abstractmethod
    def _write(self, operation: Callable[[sqlite3.Connection], T]) -> T:
        """Run an operation in a write transaction."""

    @abstractmethod
    def _shown_items(self, items: str) -> ShownItems:
        """Return a reader of the database in which `items` means the rows of a query."""

    def as_of(self, time: float) -> SqliteView:
        """Return the collection as it was at a time, read only."""
        shown = self._shown_items(view.items_as_of(recorded(time)))
        state = f"it is shown as of {time:.6f} (seconds since the epoch)"
        opened = replace(self._opened, clock=lambda: time)
        return SqliteView(opened, shown, model_name=self._model_name, state=state)

    def run(self, run: str, *, actor: str | None = None) -> SqliteRunView:
        """Return the collection as a pending run sees and changes it."""
        self._read(lambda connection: self._runs(connection).check_open(run))
        return SqliteRunView(
            self._opened,
            self._shown_items(pending.items_of_run(run)),
            model_name=self._model_name,
            write=self._write,
            run=run,
            actor=actor,
        )

    def _read_history(self, connection: sqlite3.Connection, item_id: str) -> list[ItemVersion]:
        return history.read_history(connection, item_id, self._damaged)

    def _runs(self, connection: sqlite3.Connection) -> SqliteRuns:
        return SqliteRuns(connection, self._attachments, self.location)

    def _changes(self, connection: sqlite3.Connection) -> SqliteRunChanges:
        return SqliteRunChanges(self._runs(connection))

    def _differences(self, connection: sqlite3.Connection) -> SqliteDifferences:
        return SqliteDifferences(self._runs(connection), self._damaged)

    def _committer(self, connection: sqlite3.Connection, run: str) -> SqliteCommitter:
        recorder = CurrentRecorder(connection, self._attachments, limit=self._history, now=self._clock(), run=run)
        return SqliteCommitter(recorder, self.location, self._damaged)
