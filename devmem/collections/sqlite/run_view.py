"""A collection as a pending run sees and changes it."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Mapping, Sequence
from typing import Protocol, TypeVar

from devmem.collections.deletion import check_deletion
from devmem.collections.prepared import PreparedItem
from devmem.collections.protocol import Unique
from devmem.collections.sqlite import model_check, predicates, runs, writes
from devmem.collections.sqlite.pending import RunRecorder, within_run
from devmem.collections.sqlite.reader import Opened
from devmem.collections.sqlite.view import ShownItems, SqliteView
from devmem.embedding import PassageEmbeddings
from devmem.model.items import MemoryItem
from devmem.model.results import WriteOutcome
from devmem.search.filters import Filter

T = TypeVar("T")


class Write(Protocol):
    """Runs an operation in a write transaction of the database."""

    def __call__(self, operation: Callable[[sqlite3.Connection], T], /) -> T:
        """Run it."""
        ...


class SqliteRunView(SqliteView):
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

    def _change(self, operation: Callable[[RunRecorder], T]) -> T:
        """Run an operation in a write transaction in which `items` means those of the run.

        Raises:
            RunStateError: the run has ended.
        """

        def change(connection: sqlite3.Connection) -> T:
            runs.begin(connection, self.location, self._run, self._actor, self._now())
            recorder = RunRecorder(connection, self._attachments, self._run)
            return within_run(connection, self._run, lambda: operation(recorder))

        return self._write(change)

    def add(
        self,
        items: Sequence[MemoryItem | PreparedItem],
        *,
        unique: Unique = Unique.ID,
        expected: Mapping[str, str | None] | None = None,
    ) -> list[WriteOutcome]:
        """Store the items in the run, all or none of them."""
        if not items:
            return []
        prepared = [PreparedItem.of(item) for item in items]

        def add(recorder: RunRecorder) -> list[WriteOutcome]:
            made = (item.embeddings for item in prepared)
            model_check.check_embeddings(recorder.connection, self.location, self._model_name(), made)
            writes.check_versions(recorder.connection, self._damaged, expected or {}, self._now())
            has_model = self._model_name() is not None
            writer = writes.ItemWriter(recorder, self._damaged, has_model=has_model, now=self._now())
            return [writer.add(item, unique) for item in prepared]

        return self._change(add)

    def pop(self, count: int = 1, where: Filter | None = None) -> list[MemoryItem]:
        """Delete the items stored last in the run, and return them."""

        def pop(recorder: RunRecorder) -> list[MemoryItem]:
            condition = predicates.where_sql(where or Filter(), self._now(), self._indexed)
            return [self._resolved(item) for item in writes.pop(recorder, self._damaged, count, condition)]

        return self._change(pop)

    def delete(self, *, ids: Sequence[str] | None = None, where: Filter | None = None) -> int:
        """Delete the named or the matching items in the run."""
        check_deletion(ids, where)
        now = self._now()
        condition = predicates.where_sql(where, now, self._indexed) if where is not None else ("1", [])
        return self._change(lambda recorder: writes.delete(recorder, ids, condition))

    def clear(self) -> int:
        """Delete everything in the run."""
        return self._change(lambda recorder: writes.delete(recorder, None, ("1", [])))

    def trim(self, *, keep: int | None = None, stored_before: float | None = None) -> int:
        """Delete all but the newest items, and those stored before a time, in the run."""
        return self._change(lambda recorder: writes.trim(recorder, keep, stored_before, self._now()))

    def set_embeddings(self, embeddings: Mapping[str, PassageEmbeddings]) -> int:
        """Store the embeddings of waiting items, which everybody sees where the items are not the run's own."""

        def store(connection: sqlite3.Connection) -> int:
            model_check.check_embeddings(connection, self.location, self._model_name(), embeddings.values())
            return within_run(connection, self._run, lambda: writes.set_embeddings(connection, embeddings))

        return self._write(store)
