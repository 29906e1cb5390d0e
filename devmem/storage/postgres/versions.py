"""Versions and runs of a PostgreSQL store: the methods of `VersionedCollection`."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final, TypeVar

from devmem.config.store import IndexConfig
from devmem.model.filters import Filter
from devmem.model.items import MemoryItem
from devmem.model.versions import Operation
from devmem.models.embedder import EmbeddingRefusal, PassageEmbeddings
from devmem.storage.postgres import rows, writes
from devmem.storage.postgres.claim import check_embeddings, check_store
from devmem.storage.postgres.database import Access, Connection, composed, stored_text
from devmem.storage.postgres.erasing import PostgresTombstones, StoredTombstones
from devmem.storage.postgres.inserting import new_rows
from devmem.storage.postgres.reader import PostgresView
from devmem.storage.postgres.rows import ITEM_TABLES, VERSION_TABLES, items_view_statements
from devmem.storage.postgres.runs import OF_RUN, PostgresTables, RunVersionWriter, dialect_of
from devmem.storage.postgres.schema import PASSAGE_BITS
from devmem.storage.postgres.server.maintenance import IndexCleaner
from devmem.storage.postgres.version_writer import CurrentVersionWriter, check_run
from devmem.storage.postgres.writes import PostgresItemChanges
from devmem.storage.runs import Runs
from devmem.storage.sql import GONE_SQL, Sql, VersionDialect
from devmem.storage.versions import Committer, VersioningCollection
from devmem.storage.writing import HistoryLimit, ItemChanges, WritingCollection, check_deletion, recorded

_PARTS: Final = (
    (ITEM_TABLES.passages, VERSION_TABLES.passages, "term_hashes, term_counts, term_length"),
    (ITEM_TABLES.vectors, VERSION_TABLES.vectors, "vector"),
    (ITEM_TABLES.tokens, VERSION_TABLES.tokens, "codes"),
)

_LONG: Final = 5_000
"""Microseconds for which the end of a run takes the time at which it began for that of its commit."""
_STAMP: Final = (
    "UPDATE items SET recorded_from = %s WHERE store = %s AND change_run = %s AND recorded_from = %s",
    "UPDATE versions SET recorded_until = %s WHERE store = %s AND end_run = %s AND recorded_until = %s",
)


class PostgresCommitter(Committer[CurrentVersionWriter]):
    """Ends current items and puts versions in their place."""

    def hold_items(self, keys: Sequence[Any]) -> None:
        """Lock the items; who adds one of the ids first is found by its unique index."""
        keys = list(keys)
        locked = "SELECT row FROM items WHERE store = %s AND id_key = ANY(%s) ORDER BY row FOR UPDATE"
        self.writer.connection.execute(locked, (self.writer.store, keys))
        self.writer.tick(keys)

    def stamp(self, run: str, now: float) -> None:
        """Record what a run changed as of `now`, where that took long."""
        before = self.writer.at
        if recorded(now) - before < _LONG:
            return
        self.writer.stamp(now)
        values = (self.writer.at, self.writer.store, stored_text(run), before)
        for statement in _STAMP:
            self.writer.connection.execute(statement, values)

    def restore_version(self, version: int, operation: Operation, *, run: str | None, actor: str | None) -> None:
        """Insert the item of a version as a current one with all that belongs to it; the version stays."""
        connection, store = self.writer.connection, self.writer.store
        (row,) = new_rows(connection, 1)
        values = {"store": store, "row": row, "version": version}
        names = {"operation": operation.value, "run": stored_text(run), "actor": stored_text(actor)}
        connection.execute(
            composed(
                "WITH old AS (UPDATE versions SET archived = NULL WHERE store = %(store)s AND archived AND id_key = "
                "(SELECT id_key FROM versions WHERE store = %(store)s AND row = %(version)s)) "
                f"INSERT INTO items(store, row, {rows.ITEM_COLUMNS}, operation, change_run, change_actor, "
                f"recorded_from) SELECT store, %(row)s, {rows.ITEM_COLUMNS}, %(operation)s, %(run)s, %(actor)s, %(at)s "
                "FROM versions WHERE store = %(store)s AND row = %(version)s"
            ),
            values | names | {"at": self.writer.at},
        )
        for current, kept, columns in _PARTS:
            connection.execute(
                composed(
                    f"INSERT INTO {current}(store, passage, {columns}) "
                    f"SELECT store, passage + ((%(row)s::bigint - %(version)s::bigint) << {PASSAGE_BITS}), {columns} "
                    f"FROM {kept} WHERE store = %(store)s AND passage >= %(version)s::bigint << {PASSAGE_BITS} "
                    f"AND passage < (%(version)s::bigint + 1) << {PASSAGE_BITS}"
                ),
                values,
            )
        connection.execute(
            "INSERT INTO attachment_uses(store, sha256, row) SELECT store, sha256, %(row)s FROM attachment_uses "
            "WHERE store = %(store)s AND row = %(version)s",
            values,
        )


T = TypeVar("T")


class PostgresRunView(WritingCollection, PostgresView):
    """The items that a pending run sees; what it writes is seen by others from its commit on.

    What others commit meanwhile is seen at once, except for items that the run has changed itself.
    """

    def __init__(
        self,
        access: Access,
        store: int,
        *,
        index: IndexConfig,
        clock: Callable[[], float],
        model_name: Callable[[], str | None],
        embed_others: Callable[[Mapping[str, PassageEmbeddings | EmbeddingRefusal]], int],
        run: str,
        actor: str | None,
    ) -> None:
        """Take what the view reads and how it writes; nothing is written yet.

        Args:
            access: shows what the run sees.
            store: number of the store.
            index: how vectors are searched.
            clock: current time in seconds since the epoch.
            model_name: returns the name of the model that queries are embedded with.
            embed_others: stores embeddings of items that are not the run's own.
            run: id of the run.
            actor: who makes its changes.
        """
        super().__init__(
            access, store, index=index, clock=clock, model_name=model_name, state=f"run {run!r} is pending"
        )
        self._embed_others, self._run, self._actor = embed_others, run, actor

    def _adding(self, operation: Callable[[ItemChanges], T]) -> T:
        """Run an operation in a write transaction, on connections on which `items` means those of the run.

        Raises:
            RunStateError: the run has ended.
        """

        def change(connection: Connection) -> T:
            known = check_store(connection, self.location, self._store)
            Runs(self._tables(connection)).begin(self._run, self._actor, self._now())
            version_writer = RunVersionWriter(connection, self._store, self._run, self._access.location.schema)
            changes = PostgresItemChanges(
                version_writer, self.location, model=self._model_name(), known=known, clock=self._now
            )
            return operation(changes)

        return self._database.write(change)

    def _tables(self, connection: Connection) -> PostgresTables:
        return PostgresTables(connection, self._store, self.location)

    def has_own_version(self, item_id: str) -> bool:
        """Whether the item is a version that the run wrote."""
        query = f"SELECT 1 FROM versions WHERE store = %s AND id_key = %s AND {OF_RUN}"
        return bool(self._fetch(query, (self._store, rows.key_of(item_id), stored_text(self._run))))

    def set_embeddings(self, embeddings: Mapping[str, PassageEmbeddings | EmbeddingRefusal]) -> int:
        """Store the embeddings of waiting items, which everybody sees where the items are not the run's own."""
        keys = {rows.key_of(item_id): item_id for item_id in embeddings}
        which: Sql = (f"{OF_RUN} AND operation NOT IN ({GONE_SQL})", [stored_text(self._run)])

        def store(connection: Connection) -> tuple[int, set[str]]:
            check_embeddings(connection, self.location, self._store, self._model_name(), embeddings.values())
            self._tables(connection).lock_runs([self._run])
            query = f"SELECT id_key FROM versions WHERE store = %s AND {OF_RUN} AND id_key = ANY(%s)"
            found = connection.execute(query, (self._store, stored_text(self._run), list(keys))).fetchall()
            own = {keys[key] for (key,) in found}
            mine = {item_id: embeddings[item_id] for item_id in own}
            return writes.set_embeddings(connection, self._store, mine, VERSION_TABLES, which), own

        done, own = self._database.write(store)
        others = {item_id: each for item_id, each in embeddings.items() if item_id not in own}
        return done + (self._embed_others(others) if others else 0)


class PostgresVersions(PostgresTombstones, VersioningCollection[Connection]):
    """A store with the versions of its items."""

    _history: HistoryLimit
    _index: IndexConfig
    _cleaner: IndexCleaner

    @abstractmethod
    def set_embeddings(self, embeddings: Mapping[str, PassageEmbeddings | EmbeddingRefusal]) -> int:
        """Store the embeddings of waiting items."""

    def _version_writer(self, connection: Connection, run: str | None = None) -> CurrentVersionWriter:
        """Return the version writer of a write transaction, in which a run is committed or reverted.

        Until the transaction ends nobody drops the store.
        """
        check_store(connection, self.location, self._store)
        return CurrentVersionWriter(connection, self._store, limit=self._history, now=self._clock(), run=run)

    def _dialect(self) -> VersionDialect:
        return dialect_of(self._access.location.schema, self._store)

    def _showing(self, items: str) -> Access:
        """Return the access by which `items` means the rows of a query."""
        return replace(self._access, snapshot_view=items_view_statements(self._access.location.schema, items))

    def as_of(self, time: float) -> PostgresView:
        """Return the collection as it was at a time, read only."""
        return PostgresView(
            self._showing(self._dialect().as_of(recorded(time))),
            self._store,
            index=self._index,
            clock=lambda: time,
            model_name=self._model_name,
            state=f"it is shown as of {time:.6f} (seconds since the epoch)",
        )

    def archived(self) -> PostgresView:
        """Return the archived items, read only."""
        return PostgresView(
            self._showing(self._dialect().archived()),
            self._store,
            index=self._index,
            clock=self._clock,
            model_name=self._model_name,
            state="it shows what is archived",
        )

    def run(self, run: str, *, actor: str | None = None) -> PostgresRunView:
        """Return the collection as a pending run sees and changes it."""
        check_run(run)
        self._read(lambda connection: self._runs(connection).check_open(run))
        return PostgresRunView(
            self._showing(self._dialect().of_run(run)),
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

    def _tables(self, connection: Connection) -> PostgresTables:
        return PostgresTables(connection, self._store, self.location)

    def _erased_among(self, connection: Connection, items: Sequence[MemoryItem]) -> Collection[str]:
        tombstones = StoredTombstones(connection, self._store)
        return tombstones.erased_among(tombstones.keys(tombstones.ask_for_keys()), items)

    def _committer(self, connection: Connection, run: str | None) -> PostgresCommitter:
        return PostgresCommitter(self._version_writer(connection, run), self._runs(connection))

    def _item_changes(self, connection: Connection, limit: HistoryLimit | None = None) -> PostgresItemChanges:
        """Return what changes the current items, whose versions are kept as long as a limit says."""
        known = check_store(connection, self.location, self._store)
        version_writer = CurrentVersionWriter(connection, self._store, limit=limit or self._history, now=self._clock())
        return PostgresItemChanges(
            version_writer, self.location, model=self._model_name(), known=known, clock=self._clock
        )

    def erase(self, *, ids: Sequence[str] | None = None, where: Filter | None = None) -> int:
        """Delete the named or the matching items permanently, with every version that they ever had."""
        if ids is None and where is None:
            check_deletion(ids, where)
        everything = HistoryLimit(days=None)
        deleted = self._write(lambda connection: self._item_changes(connection, everything).erase(ids, where))
        self._note(deleted=deleted)
        self._cleaner.start()
        return deleted
