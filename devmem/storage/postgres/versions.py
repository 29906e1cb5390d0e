"""Versions and runs of a PostgreSQL store: the methods of `VersionedCollection`."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, Final, TypeVar

from devmem.model.filters import Filter
from devmem.model.items import MemoryItem
from devmem.model.versions import Operation
from devmem.models.embedder import EmbeddingRefusal, PassageEmbeddings
from devmem.storage.postgres import rows, writes
from devmem.storage.postgres.claim import check_embeddings
from devmem.storage.postgres.database import Connection, composed, stored_text
from devmem.storage.postgres.erasing import PostgresTombstones, StoredTombstones
from devmem.storage.postgres.reader import PostgresView
from devmem.storage.postgres.rows import ITEM_TABLES, VERSION_TABLES
from devmem.storage.postgres.runs import OF_RUN, PostgresTables, RunVersionWriter, dialect_of
from devmem.storage.postgres.schema import PASSAGE_BITS
from devmem.storage.postgres.version_writer import CurrentVersionWriter, check_run
from devmem.storage.postgres.writes import PostgresItemChanges
from devmem.storage.runs import Runs
from devmem.storage.sql import GONE_SQL, Sql, VersionDialect
from devmem.storage.versions import Committer, VersioningCollection
from devmem.storage.writing import HistoryLimit, ItemChanges, WritingCollection, check_deletion, recorded

_PARTS: Final = (
    (ITEM_TABLES.passages, VERSION_TABLES.passages, "terms, counts, length"),
    (ITEM_TABLES.vectors, VERSION_TABLES.vectors, "vector"),
    (ITEM_TABLES.tokens, VERSION_TABLES.tokens, "codes"),
)

_LONG: Final = 5_000
"""Microseconds for which the end of a run takes the time at which it began for that of its commit."""
_STAMP: Final = (
    "UPDATE items SET recorded_from = %s WHERE store = %s AND change_run = %s AND recorded_from = %s",
    "UPDATE versions SET recorded_until = %s WHERE store = %s AND end_run = %s AND recorded_until = %s",
)

_COUNT_RESTORED: Final = (
    "WITH new AS (SELECT passage, terms, length FROM passages WHERE store = %(store)s "
    f"AND passage >= %(row)s::bigint << {PASSAGE_BITS} AND passage < (%(row)s::bigint + 1) << {PASSAGE_BITS}), "
    "counted AS (INSERT INTO terms(store, term, texts) SELECT %(store)s, term, count(*) "
    "FROM (SELECT DISTINCT passage, term FROM new, unnest(terms) AS term) AS each GROUP BY term "
    "ON CONFLICT (store, term) DO UPDATE SET texts = terms.texts + excluded.texts) "
    "UPDATE stores SET texts = texts + (SELECT count(*) FROM new), "
    "total_length = total_length + (SELECT COALESCE(sum(length), 0) FROM new) WHERE store = %(store)s"
)
"""Counts the terms of the passages of a row."""


class PostgresCommitter(Committer[CurrentVersionWriter]):
    """Ends current items and puts versions in their place."""

    def hold_items(self, keys: Sequence[Any]) -> None:
        """Record the changes after all earlier ones of the items; the row of the store is locked."""
        self.writer.tick(list(keys))

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
        (row,) = rows.new_rows(connection, store, 1)
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
        connection.execute(composed(_COUNT_RESTORED), values)
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
        whole: PostgresVersions,
        *,
        items: str,
        embed_others: Callable[[Mapping[str, PassageEmbeddings | EmbeddingRefusal]], int],
        run: str,
        actor: str | None,
    ) -> None:
        """Take what the view reads and how it writes; nothing is written yet.

        Args:
            whole: the collection.
            items: query of the items that the run sees.
            embed_others: stores embeddings of items that are not the run's own.
            run: id of the run.
            actor: who makes its changes.
        """
        super().__init__(whole, items=items, state=f"run {run!r} is pending")
        self._embed_others, self._run, self._actor = embed_others, run, actor

    def _adding(self, operation: Callable[[ItemChanges], T]) -> T:
        """Run an operation in a write transaction in which `items` means those of the run.

        Raises:
            RunStateError: the run has ended.
        """

        def change(connection: Connection) -> T:
            Runs(self._tables(connection)).begin(self._run, self._actor, self._now())
            version_writer = RunVersionWriter(connection, self._store, self._run, self._access.location.schema)
            changes = PostgresItemChanges(version_writer, self.location, model=self._model_name(), clock=self._now)
            return operation(changes)

        return self._database.write(change, shown=self._expressions)

    def _tables(self, connection: Connection) -> PostgresTables:
        return PostgresTables(connection, self._store, self.location)

    def set_embeddings(self, embeddings: Mapping[str, PassageEmbeddings | EmbeddingRefusal]) -> int:
        """Store the embeddings of waiting items, which everybody sees where the items are not the run's own."""
        keys = {rows.key_of(item_id): item_id for item_id in embeddings}
        which: Sql = (f"{OF_RUN} AND operation NOT IN ({GONE_SQL})", [stored_text(self._run)])

        def store(connection: Connection) -> tuple[int, set[str]]:
            check_embeddings(connection, self.location, self._store, self._model_name(), embeddings.values())
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

    @abstractmethod
    def set_embeddings(self, embeddings: Mapping[str, PassageEmbeddings | EmbeddingRefusal]) -> int:
        """Store the embeddings of waiting items."""

    def _version_writer(self, connection: Connection, run: str | None = None) -> CurrentVersionWriter:
        """Return the version writer of a write transaction, in which a run is committed or reverted."""
        return CurrentVersionWriter(connection, self._store, limit=self._history, now=self._clock(), run=run)

    def _dialect(self) -> VersionDialect:
        return dialect_of(self._access.location.schema, self._store)

    def as_of(self, time: float) -> PostgresView:
        """Return the collection as it was at a time, read only."""
        items, state = self._dialect().as_of(recorded(time)), f"it is shown as of {time:.6f} (seconds since the epoch)"
        return PostgresView(self, items=items, state=state, clock=lambda: time)

    def archived(self) -> PostgresView:
        """Return the archived items, read only."""
        return PostgresView(self, items=self._dialect().archived(), state="it shows what is archived")

    def run(self, run: str, *, actor: str | None = None) -> PostgresRunView:
        """Return the collection as a pending run sees and changes it."""
        check_run(run)
        self._read(lambda connection: self._runs(connection).check_open(run))
        items = self._dialect().of_run(run)
        return PostgresRunView(self, items=items, embed_others=self.set_embeddings, run=run, actor=actor)

    def _write(self, operation: Callable[[Connection], T]) -> T:
        return self._database.write(operation)

    def _note(self, *, written: int = 0, deleted: int = 0) -> None:
        """Do nothing: no index is kept beside the tables."""

    def _tables(self, connection: Connection) -> PostgresTables:
        return PostgresTables(connection, self._store, self.location)

    def _erased_among(self, connection: Connection, items: Sequence[MemoryItem]) -> Collection[str]:
        tombstones = StoredTombstones(connection, self._store)
        return tombstones.erased_among(tombstones.keys(tombstones.ask_for_keys()), items)

    def _committer(self, connection: Connection, run: str | None) -> PostgresCommitter:
        return PostgresCommitter(self._version_writer(connection, run), self._runs(connection))

    def _item_changes(self, connection: Connection, limit: HistoryLimit | None = None) -> PostgresItemChanges:
        """Return what changes the current items, whose versions are kept as long as a limit says."""
        version_writer = CurrentVersionWriter(connection, self._store, limit=limit or self._history, now=self._clock())
        return PostgresItemChanges(version_writer, self.location, model=self._model_name(), clock=self._clock)

    def erase(self, *, ids: Sequence[str] | None = None, where: Filter | None = None) -> int:
        """Delete the named or the matching items permanently, with every version that they ever had."""
        if ids is None and where is None:
            check_deletion(ids, where)
        everything = HistoryLimit(days=None)
        return self._write(lambda connection: self._item_changes(connection, everything).erase(ids, where))
