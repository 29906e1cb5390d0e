"""Versions and runs of a SQLite collection: the methods of `VersionedCollection`."""

from __future__ import annotations

import sqlite3
from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Final, Protocol, TypeVar

from devmem.errors import CollectionDamagedError
from devmem.model.fields import embedded_hash, has_text
from devmem.model.items import MemoryItem
from devmem.model.versions import ItemVersion, Operation
from devmem.models.embedder import PassageEmbeddings
from devmem.storage.runs import HistoryLimit, VersionEnd, recorded
from devmem.storage.sqlite import predicates as history
from devmem.storage.sqlite import rows, view, writes
from devmem.storage.sqlite import runs as pending
from devmem.storage.sqlite.erasing import SqliteEraser
from devmem.storage.sqlite.reader import Opened
from devmem.storage.sqlite.rows import DamagedRows, read_text, sql_text
from devmem.storage.sqlite.runs import OF_RUN, TOUCHED, RunVersionWriter, SqliteRuns, run_items_query, within_run
from devmem.storage.sqlite.version_writer import CurrentVersionWriter
from devmem.storage.sqlite.view import COLUMNS, SnapshotView, SqliteView, as_of_query
from devmem.storage.sqlite.writes import SqliteItemChanges
from devmem.storage.versions import Differences, RunChanges, States, VersioningCollection
from devmem.storage.writing import ItemChanges, PreparedItem, WritingCollection

_NOW: Final = f"SELECT {COLUMNS}, recorded_from FROM main.items"
_DIFFERING: Final = (
    "WITH earlier AS ({before}), later AS ({after}) "
    "SELECT earlier.row, later.row FROM earlier LEFT JOIN later USING (id) WHERE later.row IS NOT earlier.row "
    "UNION ALL SELECT NULL, later.row FROM later LEFT JOIN earlier USING (id) WHERE earlier.row IS NULL"
)


class SqliteDifferences(Differences):
    """Compares states of a file within one transaction."""

    def __init__(self, runs: SqliteRuns, damaged: DamagedRows) -> None:
        """Take the runs of the file, whose connection is used, and where damaged rows are recorded."""
        super().__init__(runs)
        self._connection, self._damaged = runs.connection, damaged

    def _current(self) -> str:
        return _NOW

    def _nothing(self) -> str:
        return f"{_NOW} WHERE false"

    def _as_of(self, at: int) -> str:
        return as_of_query(at)

    def _of_run(self, run: str) -> str:
        return run_items_query(run)

    def _touched_by(self, run: str, items: str) -> str:
        return f"SELECT * FROM ({items}) WHERE id IN ({TOUCHED.format(run=rows.text_sql(run))})"

    def _differing(self, states: States) -> list[tuple[int | None, int | None]]:
        return self._connection.execute(_DIFFERING.format(before=states[0], after=states[1])).fetchall()

    def _items(self, numbers: Sequence[int]) -> dict[int, MemoryItem]:
        found = ((row, self._item(row)) for row in numbers)
        return {row: item for row, item in found if item is not None}

    def _item(self, row: int) -> MemoryItem | None:
        query = "SELECT row, CAST(body AS BLOB), body_checksum FROM {} WHERE row = ?"
        for table in ("main.items", "main.versions"):
            if (found := self._connection.execute(query.format(table), (row,)).fetchone()) is not None:
                return rows.item_from_row(self._damaged, *found)
        return None


class SqliteCommitter:
    """Ends current items and puts versions in their place."""

    def __init__(self, version_writer: CurrentVersionWriter, location: str, damaged: DamagedRows) -> None:
        """Take the version writer of a write transaction, the place of the file, and its rows that cannot be read."""
        self._version_writer, self._location, self._damaged = version_writer, location, damaged

    @property
    def at(self) -> int:
        """Recorded time of the transaction."""
        return self._version_writer.at

    def hold(self, run: str) -> None:
        """Do nothing: one transaction writes at a time."""

    def end(self, row: int, ending: VersionEnd) -> None:
        """Delete a current item, which stays as a version where these are kept."""
        self._version_writer.end("row = ?", [row], ending)

    def restore_version(self, version: int, operation: Operation, *, run: str, actor: str | None) -> None:  # noqa: ARG002 - the version writer's run
        """Insert the item of a version as a current one, with its embeddings."""
        connection = self._version_writer.connection
        query = "SELECT row, CAST(body AS BLOB), body_checksum FROM versions WHERE row = ?"
        item = rows.item_from_row(self._damaged, *connection.execute(query, (version,)).fetchone())
        if item is None:
            reason = f"version {version} is damaged; nothing was changed: restore a backup."
            raise CollectionDamagedError(self._location, reason)
        embeddings = rows.read_embeddings_of_row(connection, version, embedded_hash(item))
        prepared = PreparedItem.of(item)
        if embeddings is not None and len(embeddings.vectors) not in (1, len(prepared.passages)):
            # That of a passage is damaged: all are made again.
            embeddings = None
        waiting = embeddings is None and has_text(item)
        passages = self._version_writer.insert(prepared, item, waiting=waiting, operation=operation, actor=actor)
        if embeddings is not None:
            rows.insert_embeddings(connection, passages, embeddings)

    def remove_pending(self, run: str) -> None:
        """Remove the versions of a run; their attachments are those of the current items."""
        self._version_writer.connection.execute(f"DELETE FROM versions WHERE {OF_RUN}", (rows.sql_text(run),))

    def keeps_since(self, at: int) -> bool:
        """Whether every version that ended at a recorded time, or later, is still kept."""
        return self._version_writer.keeps_since(at)


_FIRST: Final = (
    "SELECT operation, recorded_from FROM (SELECT id, operation, recorded_from, change_run FROM items UNION ALL "
    "SELECT id, operation, recorded_from, change_run FROM versions WHERE recorded_until IS NOT NULL) "
    "WHERE id = ?1 AND change_run = ?2 ORDER BY recorded_from LIMIT 1"
)
_LAST_ENDED: Final = (
    "SELECT end_operation, end_run FROM versions WHERE id = ? AND recorded_until IS NOT NULL AND recorded_until <= ? "
    "ORDER BY recorded_until DESC LIMIT 1"
)
_WAS_REPLACED: Final = (
    "SELECT 1 FROM versions WHERE id = ?1 AND change_run = ?2 AND recorded_until IS NOT NULL AND end_run IS NOT ?2"
)
_REPLACED: Final = (
    "SELECT row FROM versions WHERE id = ?1 AND end_run = ?2 AND change_run IS NOT ?2 ORDER BY recorded_until LIMIT 2"
)
_DERIVED: Final = (
    "SELECT DISTINCT items.id FROM items, json_each(CASE WHEN json_valid(body) THEN body ELSE '{}' END, "
    "'$.provenance.parents') AS parent WHERE items.change_run IS NOT ?1 AND parent.atom IN ("
    "SELECT id FROM items WHERE change_run = ?1)"
)


class SqliteRunChanges(RunChanges[str]):
    """The changes that a run made; an item is known by its id as the tables have it."""

    def __init__(self, runs: SqliteRuns) -> None:
        """Take the runs of the file, whose connection is used."""
        super().__init__(runs)
        self._connection = runs.connection

    def _touched(self, run: str) -> list[str]:
        found = self._connection.execute(TOUCHED.format(run="?1"), (sql_text(run),)).fetchall()
        return [key for (key,) in found]

    def _derived(self, run: str) -> set[str]:
        return {self._name_of(key) for (key,) in self._connection.execute(_DERIVED, (sql_text(run),))}

    def _name_of(self, key: str) -> str:
        return read_text(key) or ""

    def _current(self, key: str) -> tuple[int, str | None] | None:
        found = self._connection.execute("SELECT row, change_run FROM items WHERE id = ?", (key,)).fetchone()
        return None if found is None else (found[0], read_text(found[1]))

    def _last_ended(self, key: str, before: int) -> tuple[str, str | None] | None:
        found = self._connection.execute(_LAST_ENDED, (key, before)).fetchone()
        return None if found is None else (found[0], read_text(found[1]))

    def _first(self, key: str, run: str) -> tuple[str | None, int] | None:
        found: tuple[str | None, int] | None = self._connection.execute(_FIRST, (key, sql_text(run))).fetchone()
        return found

    def _replaced(self, key: str, run: str) -> list[int]:
        return [row for (row,) in self._connection.execute(_REPLACED, (key, sql_text(run)))]

    def _was_replaced(self, key: str, run: str) -> bool:
        return self._connection.execute(_WAS_REPLACED, (key, sql_text(run))).fetchone() is not None


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
            SqliteRuns(connection, self._attachments, self.location).begin(self._run, self._actor, self._now())
            version_writer = RunVersionWriter(connection, self._attachments, self._run)
            model = self._model_name()
            changes = SqliteItemChanges(version_writer, self._opened, model=model, has_model=model is not None)
            return within_run(connection, self._run, lambda: operation(changes))

        return self._write(change)

    def set_embeddings(self, embeddings: Mapping[str, PassageEmbeddings]) -> int:
        """Store the embeddings of waiting items, which everybody sees where the items are not the run's own."""

        def store(connection: sqlite3.Connection) -> int:
            writes.check_embeddings(connection, self.location, self._model_name(), embeddings.values())
            return within_run(connection, self._run, lambda: writes.set_embeddings(connection, embeddings))

        return self._write(store)


class SqliteVersions(SqliteEraser, VersioningCollection[sqlite3.Connection]):
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
        shown = self._snapshot_view(view.as_of_query(recorded(time)))
        state = f"it is shown as of {time:.6f} (seconds since the epoch)"
        opened = replace(self._opened, clock=lambda: time)
        return SqliteView(opened, shown, model_name=self._model_name, state=state)

    def run(self, run: str, *, actor: str | None = None) -> SqliteRunView:
        """Return the collection as a pending run sees and changes it."""
        self._read(lambda connection: self._runs(connection).check_open(run))
        return SqliteRunView(
            self._opened,
            self._snapshot_view(pending.run_items_query(run)),
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
        version_writer = CurrentVersionWriter(
            connection, self._attachments, limit=self._history, now=self._clock(), run=run
        )
        return SqliteCommitter(version_writer, self.location, self._damaged)
