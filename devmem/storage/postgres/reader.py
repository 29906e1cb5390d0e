"""Reading a store of a PostgreSQL database: the methods of a collection that change nothing."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from devmem.model.conditions import Scalar
from devmem.model.filters import NO_FILTER, Filter
from devmem.model.items import MemoryItem
from devmem.search.query import SearchQuery
from devmem.search.source import SearchSource
from devmem.storage.postgres.attachments import inlined, read_attachments
from devmem.storage.postgres.database import Access, Connection, composed
from devmem.storage.postgres.hnsw import HnswIndex
from devmem.storage.postgres.predicates import PostgresDialect, distinct_values, read_info, value_counts
from devmem.storage.postgres.rows import item_from
from devmem.storage.postgres.schema import dropped
from devmem.storage.postgres.search import SEARCH_SETTINGS, PostgresSource
from devmem.storage.postgres.tables import SELECT_WHOLE, PostgresTables
from devmem.storage.postgres.transactions import IS_THERE, Database
from devmem.storage.protocol import CollectionInfo
from devmem.storage.reading import SqlReader
from devmem.storage.sql import ReadOnly
from devmem.storage.tables import CURRENT, State, StoreTables, of_run
from devmem.storage.versions import RunView

T = TypeVar("T")


class PostgresReader(SqlReader):
    """A state of one store as the connections of a database show it; `Collection` documents the methods."""

    _select_whole = SELECT_WHOLE

    def __init__(
        self,
        access: Access,
        database: Database,
        store: int,
        hnsw: HnswIndex,
        clock: Callable[[], float],
        state: State = CURRENT,
    ) -> None:
        """Take what reads the store.

        Args:
            access: how the database is used.
            database: its transactions.
            store: number of the store.
            hnsw: the index of its vectors.
            clock: current time in seconds since the epoch, for expiry.
            state: the versions that are shown.
        """
        self.location = str(access.location)
        self._access, self._database, self._store, self._hnsw = access, database, store, hnsw
        self._dialect = PostgresDialect(store)
        self._clock, self._viewed, self._filters = clock, state, self._dialect
        self._of = f"items.{self._filters.of} AND {state.shown} AND "
        self._last_change = f"SELECT changes FROM stores WHERE {self._filters.of}"

    def _read(self, operation: Callable[[Connection], T]) -> T:
        """Run an operation that reads the store; finding nothing, it makes sure that the store is there.

        Raises:
            CollectionError: the store was dropped.
        """

        def read(connection: Connection) -> T:
            found = operation(connection)
            if not found and connection.execute(IS_THERE, (self._store,)).fetchone() is None:
                raise dropped(self.location)
            return found

        return self._database.read(read)

    def _tables(self, connection: Connection) -> PostgresTables:
        return PostgresTables(connection, self._store, self.location, self._filters)

    def _reading(self, operation: Callable[[StoreTables], T]) -> T:
        return self._read(lambda connection: operation(self._tables(connection)))

    def _writing(self, operation: Callable[[StoreTables], T]) -> T:
        return self._database.write(lambda connection: operation(self._tables(connection)))

    def with_source(self, query: SearchQuery, run: Callable[[SearchSource, float], T]) -> T:
        """Call a function with the store as one search sees it."""

        def search(connection: Connection) -> T:
            now = self._clock()
            source = PostgresSource(
                connection,
                self.location,
                self._dialect,
                self._viewed,
                query,
                store=self._store,
                model=self._model_name(),
                now=now,
                hnsw=self._hnsw,
            )
            return run(source, now)

        return self._database.read(search, settings=SEARCH_SETTINGS)

    def _with_attachments(self, items: Sequence[MemoryItem]) -> list[MemoryItem]:
        def read(names: Sequence[str]) -> dict[str, bytes]:
            return self._database.read(lambda connection: read_attachments(connection, self._store, names))

        return inlined(items, read)

    def _fetch(self, query: str, values: Sequence[object]) -> list[tuple[Any, ...]]:
        return self._read(lambda connection: connection.execute(composed(query), values, binary=True).fetchall())

    def _fetch_number(self, query: str, values: Sequence[object]) -> int:
        # Through `_read`, for which 0 is nothing found: the count of a store that was dropped must not look like that.
        return self._read(lambda connection: int((connection.execute(composed(query), values).fetchone() or (0,))[0]))

    def _item(self, row: int, *columns: Any) -> MemoryItem:  # noqa: ANN401 - they are the database's
        return item_from(row, *columns)

    def values(
        self, key: str, where: Filter | None = None, *, prefix: str = "", limit: int | None = None, offset: int = 0
    ) -> list[Scalar]:
        """Return the distinct values that items have."""
        condition = self._condition(where or NO_FILTER)
        return self._read(
            lambda connection: distinct_values(
                connection, key, condition, prefix=prefix, limit=limit, offset=max(offset, 0)
            )
        )

    def _value_counts(self, key: str, where: Filter) -> list[tuple[Scalar | None, int]]:
        condition = self._condition(where)
        return self._read(lambda connection: value_counts(connection, key, condition))

    def info(self) -> CollectionInfo:
        """Report what the collection is and how much it holds; the size is an estimate."""
        return self._read(lambda connection: read_info(connection, self.location, self._store, self._viewed))


class PostgresView(ReadOnly, PostgresReader):
    """A state of a store that is read only; `Collection` documents the methods."""

    def __init__(self, whole: PostgresReader, state: State, shown: str, *, clock: Callable[[], float]) -> None:
        """Show a state of a collection, whose connections it uses.

        Args:
            whole: the collection.
            state: the versions that are shown.
            shown: the state, for messages.
            clock: time of the view in seconds since the epoch: what has expired by it is not there.
        """
        super().__init__(whole._access, whole._database, whole._store, whole._hnsw, clock, state)  # noqa: SLF001
        self._whole, self._state = whole, shown

    def _model_name(self) -> str | None:
        return self._whole._model_name()  # noqa: SLF001 - a collection of this package

    def close(self) -> None:
        """Do nothing: the collection stays open."""


class PostgresRunView(RunView, PostgresView):
    """The items that a pending run sees."""

    def __init__(self, whole: PostgresReader, run: str, actor: str | None) -> None:
        """Take the collection and the run; nothing is written yet."""
        state = of_run(whole._filters, run)  # noqa: SLF001 - see above
        super().__init__(whole, state, f"run {run!r} is pending", clock=whole._clock)  # noqa: SLF001
        self._run, self._actor = run, actor
