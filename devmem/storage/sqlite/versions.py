"""Versions and runs of a SQLite collection: the methods of `VersionedCollection`."""

from __future__ import annotations

import sqlite3
from abc import abstractmethod
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from typing import Protocol, TypeVar

from devmem.errors import CollectionDamagedError
from devmem.model.fields import embedded_hash
from devmem.model.items import MemoryItem
from devmem.model.versions import Operation
from devmem.models.embedder import EmbeddingRefusal, PassageEmbeddings
from devmem.search.indexes.passages import has_text
from devmem.storage.runs import Runs
from devmem.storage.sqlite import rows, writes
from devmem.storage.sqlite.reader import Opened
from devmem.storage.sqlite.runs import DIALECT, OF_RUN, RunVersionWriter, SqliteTables, within_run
from devmem.storage.sqlite.tombstones import SqliteTombstones
from devmem.storage.sqlite.view import SnapshotView, SqliteView
from devmem.storage.sqlite.writes import CurrentVersionWriter, SqliteItemChanges, erased_among
from devmem.storage.versions import Committer, VersioningCollection
from devmem.storage.writing import HistoryLimit, ItemChanges, PreparedItem, WritingCollection, recorded


class SqliteCommitter(Committer[CurrentVersionWriter]):
    """Ends current items and puts versions in their place; one transaction writes at a time."""

    def hold_items(self, keys: Sequence[object]) -> None:
        """Do nothing."""

    def restore_version(self, version: int, operation: Operation, *, run: str | None, actor: str | None) -> None:  # noqa: ARG002 - the writer's run
        """Insert the item of a version as a current one, with its embeddings."""
        connection, item = self.writer.connection, self.runs.tables.items([version]).get(version)
        if item is None:
            reason = f"version {version} is damaged; nothing was changed: restore a backup."
            raise CollectionDamagedError(self.runs.location, reason)
        embeddings = rows.read_embeddings_of_row(connection, version, embedded_hash(item))
        prepared = PreparedItem.of(item)
        if embeddings is not None and len(embeddings.vectors) not in (1, len(prepared.passages)):
            # That of a passage is damaged: all are made again.
            embeddings = None
        waiting = embeddings is None and has_text(item)
        values = rows.item_values(prepared, item, waiting=waiting)
        passages = self.writer.insert(prepared, values, operation, actor=actor)
        if embeddings is not None:
            rows.insert_embeddings(connection, passages, embeddings)


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
        shown: SnapshotView,
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
            Runs(SqliteTables(connection, self._attachments, self._damaged, self.location)).begin(
                self._run, self._actor, self._now()
            )
            version_writer = RunVersionWriter(connection, self._attachments, self._run)
            model = self._model_name()
            changes = SqliteItemChanges(version_writer, self._opened, model=model, has_model=model is not None)
            return within_run(connection, self._run, lambda: operation(changes))

        return self._write(change)

    def has_own_version(self, item_id: str) -> bool:
        """Whether the item is a version that the run wrote."""
        query = f"SELECT 1 FROM versions WHERE id = ? AND {OF_RUN}"
        return bool(self._fetch(query, (rows.sql_text(item_id), rows.sql_text(self._run))))

    def set_embeddings(self, embeddings: Mapping[str, PassageEmbeddings | EmbeddingRefusal]) -> int:
        """Store the embeddings of waiting items, which everybody sees where the items are not the run's own."""

        def store(connection: sqlite3.Connection) -> int:
            writes.check_embeddings(connection, self.location, self._model_name(), embeddings.values())
            return within_run(connection, self._run, lambda: writes.set_embeddings(connection, embeddings))

        return self._write(store)


class SqliteVersions(SqliteTombstones, VersioningCollection[sqlite3.Connection]):
    """A collection with the versions of its items; a subclass opens the database."""

    _history: HistoryLimit

    @abstractmethod
    def _write(self, operation: Callable[[sqlite3.Connection], T]) -> T:
        """Run an operation in a write transaction."""

    @abstractmethod
    def _snapshot_view(self, items: str) -> SnapshotView:
        """Return a reader of the database in which `items` means the rows of a query."""

    def as_of(self, time: float) -> SqliteView:
        """Return the collection as it was at a time, read only."""
        shown = self._snapshot_view(DIALECT.as_of(recorded(time)))
        state = f"it is shown as of {time:.6f} (seconds since the epoch)"
        opened = replace(self._opened, clock=lambda: time)
        return SqliteView(opened, shown, model_name=self._model_name, state=state)

    def archived(self) -> SqliteView:
        """Return the archived items, read only."""
        shown = self._snapshot_view(DIALECT.archived())
        return SqliteView(self._opened, shown, model_name=self._model_name, state="it shows what is archived")

    def run(self, run: str, *, actor: str | None = None) -> SqliteRunView:
        """Return the collection as a pending run sees and changes it."""
        self._read(lambda connection: self._runs(connection).check_open(run))
        return SqliteRunView(
            self._opened,
            self._snapshot_view(DIALECT.of_run(run)),
            model_name=self._model_name,
            write=self._write,
            run=run,
            actor=actor,
        )

    def _tables(self, connection: sqlite3.Connection) -> SqliteTables:
        return SqliteTables(connection, self._attachments, self._damaged, self.location)

    def _erased_among(self, connection: sqlite3.Connection, items: Sequence[MemoryItem]) -> Collection[str]:
        return erased_among(connection, items)

    def _committer(self, connection: sqlite3.Connection, run: str | None) -> SqliteCommitter:
        version_writer = CurrentVersionWriter(
            connection, self._attachments, limit=self._history, now=self._clock(), run=run
        )
        return SqliteCommitter(version_writer, self._runs(connection))
