"""Versions and runs of a PostgreSQL store: the methods of `VersionedCollection`."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from devmem.collections.deletion import check_deletion
from devmem.collections.postgres import reverting, runs, writes
from devmem.collections.postgres.claim import check_store
from devmem.collections.postgres.database import Access, Connection
from devmem.collections.postgres.differences import Differences
from devmem.collections.postgres.erasing import PostgresEraser
from devmem.collections.postgres.history import read_history
from devmem.collections.postgres.recorder import CurrentRecorder, check_run
from devmem.collections.postgres.run_view import PostgresRunView
from devmem.collections.postgres.shown import items_as_of, items_of_run, show_statements
from devmem.collections.postgres.view import PostgresView
from devmem.collections.recorded import HistoryLimit, recorded
from devmem.collections.reverting import undoing
from devmem.config import IndexConfig
from devmem.embedding import PassageEmbeddings
from devmem.errors import RunStateError
from devmem.model.items import MemoryItem
from devmem.model.versions import ItemDifference, ItemVersion, RunInfo, RunState
from devmem.search.filters import Filter


class PostgresVersions(PostgresEraser):
    """A store with the versions of its items."""

    _history: HistoryLimit
    _index: IndexConfig

    @abstractmethod
    def set_embeddings(self, embeddings: Mapping[str, PassageEmbeddings]) -> int:
        """Store the embeddings of waiting items."""

    def _recorder(
        self, connection: Connection, run: str | None = None, *, limit: HistoryLimit | None = None
    ) -> CurrentRecorder:
        """Return the recorder of a write transaction, in which a run is committed or reverted.

        Until the transaction ends nobody drops the store.
        """
        check_store(connection, self.location, self._store)
        return CurrentRecorder(connection, self._store, limit=limit or self._history, now=self._clock(), run=run)

    def _showing(self, items: str) -> Access:
        """Return the access by which `items` means the rows of a query."""
        return replace(self._access, shown=show_statements(self._access.location.schema, items))

    def history(self, item_id: str) -> list[ItemVersion]:
        """Return the versions of an item, oldest first."""
        found = self._database.read(lambda connection: read_history(connection, self._store, item_id))
        items = self._with_attachments([version.item for version in found])
        return [replace(version, item=item) for version, item in zip(found, items, strict=True)]

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
        state = self._database.read(lambda connection: runs.state_of(connection, self._store, run))
        if state not in (None, RunState.PENDING):
            raise RunStateError(self.location, run, state.value, "nothing can be written in it; use another id")
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

    def runs(self, limit: int = 100) -> list[RunInfo]:
        """Return the runs that began last, newest first."""
        return self._database.read(lambda connection: runs.read_runs(connection, self._store, max(limit, 0)))

    def find_run(self, run: str) -> RunInfo | None:
        """Return what is known of a run; None when it has written nothing."""
        return self._database.read(lambda connection: runs.find_run(connection, self._store, run))

    def conflicts(self, run: str) -> list[str]:
        """Return the ids of the items that keep a run from being committed, or reverted."""

        def conflicts(connection: Connection) -> list[str]:
            info = runs.find_run(connection, self._store, run)
            if info is None or info.state is RunState.PENDING:
                return runs.conflicts(connection, self._store, run)
            return reverting.conflicts(connection, self._store, self.location, info)

        return self._database.read(conflicts)

    def commit(self, run: str, *, then: Callable[[], object] | None = None) -> RunInfo:
        """Make what a pending run wrote the current items."""

        def commit(connection: Connection) -> RunInfo:
            runs.commit(self._recorder(connection, run), self.location, run)
            info = runs.read_run(connection, self._store, self.location, run)
            if then is not None:
                then()
            return info

        info = self._database.write(commit)
        self._searcher.note(written=info.changes, deleted=info.changes)
        return info

    def discard(self, run: str) -> RunInfo:
        """Drop what a pending run wrote."""

        def discard(connection: Connection) -> RunInfo:
            check_store(connection, self.location, self._store)
            runs.discard(connection, self._store, self.location, run, self._clock())
            return runs.read_run(connection, self._store, self.location, run)

        return self._database.write(discard)

    def revert(self, run: str, *, then: Callable[[], object] | None = None) -> RunInfo:
        """Undo a committed run by changes that follow it."""

        def revert(connection: Connection) -> RunInfo:
            inverse = undoing(run)
            reverting.revert(self._recorder(connection, inverse), self.location, run)
            info = runs.read_run(connection, self._store, self.location, inverse)
            if then is not None:
                then()
            return info

        info = self._database.write(revert)
        self._searcher.note(written=info.changes, deleted=info.changes)
        return info

    def diff(self, before: float | str, after: float | str | None = None) -> list[ItemDifference]:
        """Return the items that differ between two states, or that a run changed."""

        def read(connection: Connection) -> list[ItemDifference]:
            schema = self._access.location.schema
            return Differences(connection, self._store, self.location, schema).read(before, after)

        found = self._database.read(read)
        return [ItemDifference(before=self._whole(each.before), after=self._whole(each.after)) for each in found]

    def _whole(self, item: MemoryItem | None) -> MemoryItem | None:
        return None if item is None else self._with_attachments([item])[0]

    def erase(self, *, ids: Sequence[str] | None = None, where: Filter | None = None) -> int:
        """Delete the named or the matching items for good, with every version that they ever had."""
        if ids is None and where is None:
            check_deletion(ids, where)

        def erase(connection: Connection) -> int:
            recorder = self._recorder(connection, limit=HistoryLimit(days=None))
            return writes.erase(recorder, ids, where, self._clock())

        deleted = self._database.write(erase)
        self._searcher.note(deleted=deleted)
        return deleted
