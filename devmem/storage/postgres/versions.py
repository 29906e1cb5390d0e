"""Versions and runs of a PostgreSQL store: the methods of `VersionedCollection`."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Final, TypeVar
from uuid import UUID

from devmem.config.store import IndexConfig
from devmem.model.items import MemoryItem
from devmem.model.versions import ItemVersion, Operation
from devmem.models.embedder import PassageEmbeddings
from devmem.search.query import Filter
from devmem.storage.postgres import rows, writes
from devmem.storage.postgres.claim import check_embeddings, check_store
from devmem.storage.postgres.database import Access, Connection, composed, read_text, stored_text
from devmem.storage.postgres.erasing import PARENTS, PostgresEraser
from devmem.storage.postgres.inserting import new_rows
from devmem.storage.postgres.predicates import read_history
from devmem.storage.postgres.reader import PostgresView
from devmem.storage.postgres.rows import (
    ITEM_TABLES,
    RECORDED_FROM,
    VERSION_TABLES,
    as_of_query,
    current_items_query,
    items_view_statements,
    run_items_query,
    text_sql,
)
from devmem.storage.postgres.runs import OF_RUN, TOUCHED, PostgresRuns, RunVersionWriter
from devmem.storage.postgres.schema import PASSAGE_BITS
from devmem.storage.postgres.server.maintenance import IndexCleaner
from devmem.storage.postgres.version_writer import CurrentVersionWriter, check_run
from devmem.storage.postgres.writes import PostgresItemChanges
from devmem.storage.runs import HistoryLimit, VersionEnd, recorded
from devmem.storage.sql import Sql
from devmem.storage.versions import Differences, RunChanges, States, VersioningCollection
from devmem.storage.writing import ItemChanges, WritingCollection, check_deletion

_DIFFERING: Final = (
    "WITH earlier AS ({before}), later AS ({after}) SELECT earlier.row, later.row FROM earlier "
    "FULL JOIN later USING (id_key) WHERE earlier.row IS DISTINCT FROM later.row"
)


class PostgresDifferences(Differences):
    """Compares states of a store within one transaction."""

    def __init__(self, runs: PostgresRuns, schema: str) -> None:
        """Take the runs of the store, whose connection is used, and the schema of its tables."""
        super().__init__(runs)
        self._connection, self._fetch = runs.connection, runs.fetch
        self._store, self._schema = runs.store, schema

    def _current(self) -> str:
        return current_items_query(self._schema, self._store)

    def _nothing(self) -> str:
        return f"{self._current()} AND false"

    def _as_of(self, at: int) -> str:
        return as_of_query(self._schema, self._store, at)

    def _of_run(self, run: str) -> str:
        return run_items_query(self._schema, self._store, run)

    def _touched_by(self, run: str, items: str) -> str:
        touched = TOUCHED % {"store": self._store, "run": text_sql(run)}
        return f"SELECT * FROM ({items}) AS state WHERE id_key IN ({touched})"

    def _differing(self, states: States) -> list[tuple[int | None, int | None]]:
        # Without values: a schema's name may have a percent sign.
        query = composed(_DIFFERING.format(before=states[0], after=states[1]))
        return self._connection.execute(query).fetchall()

    def _items(self, numbers: Sequence[int]) -> dict[int, MemoryItem]:
        found: dict[int, MemoryItem] = {}
        for table in ("items", "versions"):
            query = f"SELECT row, body FROM {table} WHERE store = %(store)s AND row = ANY(%(rows)s)"
            found |= {row: rows.item_from(body) for row, body in self._fetch(query, rows=list(numbers))}
        return found


_PARTS: Final = (
    (ITEM_TABLES.passages, VERSION_TABLES.passages, "term_hashes, term_counts, term_length"),
    (ITEM_TABLES.vectors, VERSION_TABLES.vectors, "vector"),
    (ITEM_TABLES.tokens, VERSION_TABLES.tokens, "codes"),
)


class PostgresCommitter:
    """Ends current items and puts versions in their place."""

    def __init__(self, version_writer: CurrentVersionWriter, runs: PostgresRuns) -> None:
        """Take the version writer and the runs of a write transaction."""
        self._version_writer, self._runs = version_writer, runs

    @property
    def at(self) -> int:
        """Recorded time of the transaction."""
        return self._version_writer.at

    def hold(self, run: str) -> None:
        """Lock the items that a run changed; who adds one of the ids first is found by its unique index."""
        keys = self._runs.touched(run)
        locked = "SELECT row FROM items WHERE store = %s AND id_key = ANY(%s) ORDER BY row FOR UPDATE"
        self._version_writer.connection.execute(locked, (self._version_writer.store, keys))
        self._version_writer.tick(keys)

    def end(self, row: int, ending: VersionEnd) -> None:
        """Delete a current item, which stays as a version where these are kept."""
        self._version_writer.end("row = %s", [row], ending)

    def restore_version(self, version: int, operation: Operation, *, run: str, actor: str | None) -> None:
        """Insert the item of a version as a current one with all that belongs to it; the version stays."""
        connection = self._version_writer.connection
        (row,) = new_rows(connection, 1)
        values = {"store": self._version_writer.store, "row": row, "version": version}
        origin = {"operation": operation.value, "run": stored_text(run), "actor": stored_text(actor), "at": self.at}
        connection.execute(
            composed(
                f"INSERT INTO items(store, row, {rows.ITEM_COLUMNS}, operation, change_run, change_actor, "
                f"recorded_from) SELECT store, %(row)s, {rows.ITEM_COLUMNS}, %(operation)s, %(run)s, %(actor)s, %(at)s "
                "FROM versions WHERE store = %(store)s AND row = %(version)s"
            ),
            values | origin,
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

    def remove_pending(self, run: str) -> None:
        """Remove the versions of a run; what the current items use stays."""
        self._runs.remove_pending(run)

    def keeps_since(self, at: int) -> bool:
        """Whether every version that ended at a recorded time, or later, is still kept."""
        return self._version_writer.keeps_since(at)


_OF_KEY: Final = "store = %(store)s AND id_key = %(key)s"
_FIRST: Final = f"""
SELECT operation, recorded_from FROM (
    SELECT operation, {RECORDED_FROM} AS recorded_from FROM items WHERE {_OF_KEY} AND change_run = %(run)s
    UNION ALL SELECT operation, recorded_from FROM versions
    WHERE {_OF_KEY} AND change_run = %(run)s AND recorded_until IS NOT NULL
) AS changes ORDER BY recorded_from LIMIT 1
"""
_LAST_ENDED: Final = (
    f"SELECT end_operation, end_run FROM versions WHERE {_OF_KEY} "
    "AND recorded_until <= %(before)s ORDER BY recorded_until DESC LIMIT 1"
)
_WAS_REPLACED: Final = (
    f"SELECT 1 FROM versions WHERE {_OF_KEY} AND change_run = %(run)s "
    "AND recorded_until IS NOT NULL AND end_run IS DISTINCT FROM %(run)s"
)
_REPLACED: Final = (
    f"SELECT row FROM versions WHERE {_OF_KEY} AND end_run = %(run)s "
    "AND change_run IS DISTINCT FROM %(run)s ORDER BY recorded_until LIMIT 2"
)
_NAME: Final = f"SELECT id FROM items WHERE {_OF_KEY} UNION SELECT id FROM versions WHERE {_OF_KEY} LIMIT 1"
_WITH_PARENTS: Final = (
    "SELECT body FROM items WHERE store = %(store)s AND change_run IS DISTINCT FROM %(run)s "
    "AND strpos(body, %(parents)s) > 0"
)


class PostgresRunChanges(RunChanges[UUID]):
    """The changes that a run made; an item is known by its key."""

    def __init__(self, runs: PostgresRuns) -> None:
        """Take the runs of the store, whose connection is used."""
        super().__init__(runs)
        self._runs = runs

    def _touched(self, run: str) -> list[UUID]:
        return self._runs.touched(run)

    def _derived(self, run: str) -> set[str]:
        name = stored_text(run)
        written = self._runs.fetch("SELECT id FROM items WHERE store = %(store)s AND change_run = %(run)s", run=name)
        ids = {read_text(each) for (each,) in written}
        if not ids:
            return set()
        found = (rows.item_from(body) for (body,) in self._runs.fetch(_WITH_PARENTS, run=name, parents=PARENTS))
        return {item.id for item in found if not ids.isdisjoint(item.provenance.parents)}

    def _name_of(self, key: UUID) -> str:
        ((name,),) = self._runs.fetch(_NAME, key=key)
        return read_text(name) or ""

    def _current(self, key: UUID) -> tuple[int, str | None] | None:
        found = self._runs.fetch(f"SELECT row, change_run FROM items WHERE {_OF_KEY}", key=key)
        return (found[0][0], read_text(found[0][1])) if found else None

    def _last_ended(self, key: UUID, before: int) -> tuple[str, str | None] | None:
        found = self._runs.fetch(_LAST_ENDED, key=key, before=before)
        return (found[0][0], read_text(found[0][1])) if found else None

    def _first(self, key: UUID, run: str) -> tuple[str | None, int] | None:
        found = self._runs.fetch(_FIRST, key=key, run=stored_text(run))
        return (found[0][0], found[0][1]) if found else None

    def _replaced(self, key: UUID, run: str) -> list[int]:
        return [row for (row,) in self._runs.fetch(_REPLACED, key=key, run=stored_text(run))]

    def _was_replaced(self, key: UUID, run: str) -> bool:
        return bool(self._runs.fetch(_WAS_REPLACED, key=key, run=stored_text(run)))


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
        embed_others: Callable[[Mapping[str, PassageEmbeddings]], int],
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
            self._runs(connection).begin(self._run, self._actor, self._now())
            version_writer = RunVersionWriter(connection, self._store, self._run, self._access.location.schema)
            changes = PostgresItemChanges(
                version_writer, self.location, model=self._model_name(), known=known, clock=self._now
            )
            return operation(changes)

        return self._database.write(change)

    def _runs(self, connection: Connection) -> PostgresRuns:
        return PostgresRuns(connection, self._store, self.location)

    def set_embeddings(self, embeddings: Mapping[str, PassageEmbeddings]) -> int:
        """Store the embeddings of waiting items, which everybody sees where the items are not the run's own."""
        keys = {rows.key_of(item_id): item_id for item_id in embeddings}
        which: Sql = (f"{OF_RUN} AND operation <> 'forget'", [stored_text(self._run)])

        def store(connection: Connection) -> tuple[int, set[str]]:
            check_embeddings(connection, self.location, self._store, self._model_name(), embeddings.values())
            self._runs(connection).lock(self._run)
            query = f"SELECT id_key FROM versions WHERE store = %s AND {OF_RUN} AND id_key = ANY(%s)"
            found = connection.execute(query, (self._store, stored_text(self._run), list(keys))).fetchall()
            own = {keys[key] for (key,) in found}
            mine = {item_id: embeddings[item_id] for item_id in own}
            return writes.set_embeddings(connection, self._store, mine, VERSION_TABLES, which), own

        done, own = self._database.write(store)
        others = {item_id: each for item_id, each in embeddings.items() if item_id not in own}
        return done + (self._embed_others(others) if others else 0)


class PostgresVersions(PostgresEraser, VersioningCollection[Connection]):
    """A store with the versions of its items."""

    _history: HistoryLimit
    _index: IndexConfig
    _cleaner: IndexCleaner

    @abstractmethod
    def set_embeddings(self, embeddings: Mapping[str, PassageEmbeddings]) -> int:
        """Store the embeddings of waiting items."""

    def _version_writer(self, connection: Connection, run: str | None = None) -> CurrentVersionWriter:
        """Return the version writer of a write transaction, in which a run is committed or reverted.

        Until the transaction ends nobody drops the store.
        """
        check_store(connection, self.location, self._store)
        return CurrentVersionWriter(connection, self._store, limit=self._history, now=self._clock(), run=run)

    def _showing(self, items: str) -> Access:
        """Return the access by which `items` means the rows of a query."""
        return replace(self._access, snapshot_view=items_view_statements(self._access.location.schema, items))

    def as_of(self, time: float) -> PostgresView:
        """Return the collection as it was at a time, read only."""
        return PostgresView(
            self._showing(as_of_query(self._access.location.schema, self._store, recorded(time))),
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
            self._showing(run_items_query(self._access.location.schema, self._store, run)),
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
        return PostgresCommitter(self._version_writer(connection, run), self._runs(connection))

    def _item_changes(self, connection: Connection, limit: HistoryLimit | None = None) -> PostgresItemChanges:
        """Return what changes the current items, whose versions are kept as long as a limit says."""
        known = check_store(connection, self.location, self._store)
        version_writer = CurrentVersionWriter(connection, self._store, limit=limit or self._history, now=self._clock())
        return PostgresItemChanges(
            version_writer, self.location, model=self._model_name(), known=known, clock=self._clock
        )

    def erase(self, *, ids: Sequence[str] | None = None, where: Filter | None = None) -> int:
        """Delete the named or the matching items for good, with every version that they ever had."""
        if ids is None and where is None:
            check_deletion(ids, where)
        everything = HistoryLimit(days=None)
        deleted = self._write(lambda connection: self._item_changes(connection, everything).erase(ids, where))
        self._note(deleted=deleted)
        self._cleaner.start()
        return deleted
