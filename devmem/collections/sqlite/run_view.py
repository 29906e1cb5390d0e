"""A collection as a pending run sees and changes it."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Mapping
from typing import Protocol, TypeVar

from devmem.collections.sqlite import model_check, writes
from devmem.collections.sqlite.item_changes import SqliteItemChanges
from devmem.collections.sqlite.pending import RunRecorder, within_run
from devmem.collections.sqlite.reader import Opened
from devmem.collections.sqlite.runs import SqliteRuns
from devmem.collections.sqlite.view import ShownItems, SqliteView
from devmem.collections.writing import ItemChanges, WritingCollection
from devmem.embedding import PassageEmbeddings

T = TypeVar("T")


class Write(Protocol):
    """Runs an operation in a write transaction of the database."""

    def __call__(self, operation: Callable[[sqlite3.Connection], T], /) -> T:
        """Run it."""
        ...


class SqliteRunView(WritingCollection, SqliteView):
    """The items that a pending run sees; what it writes is seen by others from its commit on.

    What others commit meanwhile is seen at once, except for items that the run has changed itself.
    """

    def __init__(
        self,
        opened: Opened,
        shown: ShownItems,
        *,
        model_name: Callable[[], str | None],
        write: Write,
        run: str,
        actor: str | None,
    ) -> None:
        """Take what the view reads and how it writes; nothing is written yet."""
        super().__init__(opened, shown, model_name=model_name, state=f"run {run!r} is pending")
        self._write, self._run, self._actor = write, run, actor

    def _adding(self, operation: Callable[[ItemChanges], T]) -> T:
        """Run an operation in a write transaction in which `items` means those of the run.

        Raises:
            RunStateError: the run has ended.
        """

        def change(connection: sqlite3.Connection) -> T:
            SqliteRuns(connection, self._attachments, self.location).begin(self._run, self._actor, self._now())
            recorder = RunRecorder(connection, self._attachments, self._run)
            model = self._model_name()
            changes = SqliteItemChanges(recorder, self._opened, model=model, has_model=model is not None)
            return within_run(connection, self._run, lambda: operation(changes))

        return self._write(change)

    def set_embeddings(self, embeddings: Mapping[str, PassageEmbeddings]) -> int:
        """Store the embeddings of waiting items, which everybody sees where the items are not the run's own."""

        def store(connection: sqlite3.Connection) -> int:
            model_check.check_embeddings(connection, self.location, self._model_name(), embeddings.values())
            return within_run(connection, self._run, lambda: writes.set_embeddings(connection, embeddings))

        return self._write(store)
