"""Versions and runs of a PostgreSQL store: the methods of `VersionedCollection`."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TypeVar

from devmem.collections.deletion import check_deletion
from devmem.collections.postgres.claim import check_store
from devmem.collections.postgres.database import Access, Connection
from devmem.collections.postgres.differences import PostgresDifferences
from devmem.collections.postgres.erasing import PostgresEraser
from devmem.collections.postgres.history import read_history
from devmem.collections.postgres.item_changes import PostgresItemChanges
from devmem.collections.postgres.putting_back import PostgresCommitter
from devmem.collections.postgres.recorder import CurrentRecorder, check_run
from devmem.collections.postgres.reverting import PostgresRunChanges
from devmem.collections.postgres.run_view import PostgresRunView
from devmem.collections.postgres.runs import PostgresRuns
from devmem.collections.postgres.server.cleaning import IndexCleaner
from devmem.collections.postgres.shown import items_as_of, items_of_run, show_statements
from devmem.collections.postgres.view import PostgresView
from devmem.collections.recorded import HistoryLimit, recorded
from devmem.collections.versioning import VersioningCollection
from devmem.config import IndexConfig
from devmem.embedding import PassageEmbeddings
from devmem.model.versions import ItemVersion
from devmem.search.filters import Filter

T = TypeVar("T")


class PostgresVersions(PostgresEraser, VersioningCollection[Connection]):
    """A store with the versions of its items."""

    _history: HistoryLimit
    _index: IndexConfig
    _cleaner: IndexCleaner

    @abstractmethod
    def set_embeddings(self, embeddings: Mapping[str, PassageEmbeddings]) -> int:
        """Store the embeddings of waiting items."""

    def _recorder(self, connection: Connection, run: str | None = None) -> CurrentRecorder:
        """Return the recorder of a write transaction, in which a run is committed or reverted.

        Until the transaction ends nobody drops the store.
        """
        check_store(connection, self.location, self._store)
        return CurrentRecorder(connection, self._store, limit=self._history, now=self._clock(), run=run)

    def _showing(self, items: str) -> Access:
        """Return the access by which `items` means the rows of a query."""
        return replace(self._access, shown=show_statements(self._access.location.schema, items))

    def as_of(self, time: float) -> PostgresView:
        """Return the collection as it was at a time, read only."""
        return PostgresView(
            self._showing(items_as_of(self._access.location.schema, self._store, recorded(time))),
            self._store,
            index=self._index,
            clock=lambda: time,
            model_name=self._model_name,
            state=f"it is shown as of {time:.6f} (seconds since the epoch)",
        )

    def run(self, run: str, *, actor: str | None = None) -> PostgresRunView:
        """Return the collection as a pending run sees and changes it."""
        check_run(run)
        self._read(lambda connection: self._runs(connection).check_open(run))
        return PostgresRunView(
            self._showing(items_of_run(self._access.location.schema, self._store, run)),
            self._store,
            index=self._index,
            clock=self._clock,
            model_name=self._model_name,
            embed_others=self.set_embeddings,
            run=run,
            actor=actor,
        )

    def _write(self, operation: Callable[[Connection], T]) -> T:
        def write(connection: Connection) -> T:
            check_store(connection, self.location, self._store)
            return operation(connection)

        return self._database.write(write)

    def _note(self, *, written: int = 0, deleted: int = 0) -> None:
        self._searcher.note(written=written, deleted=deleted)

    def _read_history(self, connection: Connection, item_id: str) -> list[ItemVersion]:
        return read_history(connection, self._store, item_id)

    def _runs(self, connection: Connection) -> PostgresRuns:
        return PostgresRuns(connection, self._store, self.location)

    def _changes(self, connection: Connection) -> PostgresRunChanges:
        return PostgresRunChanges(self._runs(connection))

    def _differences(self, connection: Connection) -> PostgresDifferences:
        return PostgresDifferences(self._runs(connection), self._access.location.schema)

    def _committer(self, connection: Connection, run: str) -> PostgresCommitter:
        return PostgresCommitter(self._recorder(connection, run), self._runs(connection))

    def _item_changes(self, connection: Connection, limit: HistoryLimit | None = None) -> PostgresItemChanges:
        """Return what changes the current items, whose versions are kept as long as a limit says."""
        known = check_store(connection, self.location, self._store)
        recorder = CurrentRecorder(connection, self._store, limit=limit or self._history, now=self._clock())
        return PostgresItemChanges(recorder, self.location, model=self._model_name(), known=known, now=self._clock())

    def erase(self, *, ids: Sequence[str] | None = None, where: Filter | None = None) -> int:
        """Delete the named or the matching items for good, with every version that they ever had."""
        if ids is None and where is None:
            check_deletion(ids, where)
        everything = HistoryLimit(days=None)
        deleted = self._write(lambda connection: self._item_changes(connection, everything).erase(ids, where))
        self._note(deleted=deleted)
        self._cleaner.start()
        return deleted
