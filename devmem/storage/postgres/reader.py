"""Reading a store of a PostgreSQL database: the methods of a collection that change nothing."""

from __future__ import annotations

import json
from abc import abstractmethod
from collections.abc import Callable, Sequence
from itertools import islice
from typing import Any, Final, TypeVar
from uuid import UUID

from devmem.model.conditions import Scalar
from devmem.model.filters import NO_FILTER, Filter
from devmem.model.items import MemoryItem, dump_item_json
from devmem.models.embedder import PassageEmbeddings
from devmem.search.indexes.passages import has_text, passages_of
from devmem.search.query import SearchQuery
from devmem.search.source import SearchSource
from devmem.storage.postgres import rows
from devmem.storage.postgres.attachments import inlined, read_attachments
from devmem.storage.postgres.database import Access, Connection, composed
from devmem.storage.postgres.hnsw import HnswIndex
from devmem.storage.postgres.inserting import insert_passages
from devmem.storage.postgres.predicates import DIALECT, distinct_values, read_info, value_counts
from devmem.storage.postgres.rows import ITEM_TABLES, VERSION_TABLES, Tables
from devmem.storage.postgres.schema import PASSAGE_BITS
from devmem.storage.postgres.search import SEARCH_SETTINGS, PostgresSource
from devmem.storage.postgres.transactions import Database, read_store
from devmem.storage.protocol import CollectionInfo
from devmem.storage.reading import BATCH_SIZE, SqlReader
from devmem.storage.sql import PARENTS, ReadOnly
from devmem.storage.writing import Fields, PreparedItem, recorded_first, recorded_too, with_fields

_KIND: Final = "devmem.index"
_NAME: Final = "fields"
_KEY: Final = rows.key_of(_NAME)


def read_fields(connection: Connection, store: int) -> Fields:
    """Return the fields that are recorded now."""
    return next(iter(_recorded(connection, store)), ())


def record_fields(connection: Connection, store: int, fields: Fields) -> None:
    """Record that items are written with other fields, too."""
    _record(connection, store, recorded_too(fields, _recorded(connection, store)))


def _recorded(connection: Connection, store: int) -> list[Fields]:
    """Return the fields that are recorded, the current ones first, then all earlier ones."""
    query = "SELECT value FROM states WHERE store = %s AND kind = %s AND name_key = %s"
    found = connection.execute(query, (store, _KIND, _KEY), binary=True).fetchone()
    return [] if found is None else [tuple(each) for each in json.loads(bytes(found[0]))]


def _record(connection: Connection, store: int, recorded: list[Fields]) -> None:
    connection.execute(
        "INSERT INTO states(store, kind, name_key, name, value) VALUES (%s, %s, %s, %s, %s) "
        "ON CONFLICT (store, kind, name_key) DO UPDATE SET value = excluded.value, version = states.version + 1",
        (store, _KIND, _KEY, _NAME, json.dumps(recorded).encode()),
    )


def replace_fields(connection: Connection, store: int, fields: Fields) -> int:
    """Search items and versions by other fields; return the number of items that wait for embeddings."""
    connection.execute("SET LOCAL statement_timeout = 0")
    recorded = _recorded(connection, store)
    changed = sum(_replace_in(connection, store, fields, recorded, tables) for tables in (ITEM_TABLES, VERSION_TABLES))
    if changed:
        rows.count_terms_again(connection, store)
    _record(connection, store, recorded_first(fields, recorded))
    query = "SELECT count(*) FROM items WHERE store = %s AND waiting"
    return int((connection.execute(query, (store,)).fetchone() or (0,))[0])


def _replace_in(connection: Connection, store: int, fields: Fields, recorded: Sequence[Fields], tables: Tables) -> int:
    """Replace the fields of the items in some tables; return the number of those whose passages are others now."""
    update = composed(f"UPDATE {tables.items} SET body = %s WHERE store = %s AND row = %s")
    changed, bodies = 0, rows.each_body(connection, store, tables)
    while some := list(islice(bodies, BATCH_SIZE)):
        other_passages: list[tuple[int, PreparedItem]] = []
        for row, body in some:
            item = rows.item_from(row, body)
            new = with_fields(item, fields, recorded)
            if new is item:
                continue
            connection.execute(update, (dump_item_json(new).decode(), store, row))
            if passages_of(new) != passages_of(item):
                other_passages.append((row, PreparedItem.of(new)))
        for row, prepared in other_passages:
            _drop_passages(connection, store, row, prepared, tables)
        insert_passages(connection, store, other_passages, tables)
        changed += len(other_passages)
    return changed


def _drop_passages(connection: Connection, store: int, row: int, prepared: PreparedItem, tables: Tables) -> None:
    update = composed(
        f"UPDATE {tables.items} SET length = %s, waiting = %s, refusal = NULL WHERE store = %s AND row = %s"
    )
    connection.execute(update, (prepared.length(), has_text(prepared.item), store, row))
    own = (store, row << PASSAGE_BITS, (row + 1) << PASSAGE_BITS)
    for table in (tables.vectors, tables.tokens, tables.passages):
        connection.execute(composed(f"DELETE FROM {table} WHERE store = %s AND passage >= %s AND passage < %s"), own)


T = TypeVar("T")


class PostgresReader(SqlReader):
    """Items of one store as the connections of a database show them; `Collection` documents the methods."""

    _filters, _select_whole, _key = DIALECT, rows.SELECT_WHOLE, "id_key"
    _is_derived = f"strpos(items.body, '{PARENTS}') > 0"

    _expressions: str | None = None
    """Common table expressions of the state that statements read; None for the current one."""

    def __init__(
        self, access: Access, database: Database, store: int, hnsw: HnswIndex, clock: Callable[[], float]
    ) -> None:
        """Take what reads the store.

        Args:
            access: how the database is used.
            database: its transactions.
            store: number of the store.
            hnsw: the index of its vectors.
            clock: current time in seconds since the epoch, for expiry.
        """
        self.location = str(access.location)
        self._access, self._database, self._store, self._hnsw = access, database, store, hnsw
        self._clock = clock
        self._of = f"items.store = {store:d} AND "
        self._last_change = f"SELECT changes FROM stores WHERE store = {store:d}"

    @abstractmethod
    def _model_name(self) -> str | None:
        """Return the name of the model that queries are embedded with; None when it is not known."""

    def _now(self) -> float:
        return self._clock()

    def _read(self, operation: Callable[[Connection], T]) -> T:
        """Run an operation that reads the store; finding nothing, it makes sure that the store is there.

        Raises:
            CollectionError: the store was dropped.
        """
        return read_store(self._database, self.location, self._store, operation, shown=self._expressions)

    def with_source(self, query: SearchQuery, run: Callable[[SearchSource, float], T]) -> T:
        """Call a function with the store as one search sees it."""

        def search(connection: Connection) -> T:
            now = self._clock()
            source = PostgresSource(
                connection,
                self.location,
                self._store,
                query,
                model=self._model_name(),
                now=now,
                hnsw=self._hnsw,
            )
            return run(source, now)

        return self._database.read(search, shown=self._expressions, settings=SEARCH_SETTINGS)

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
        return rows.item_from(row, *columns)

    def _key_of(self, item_id: str) -> UUID:
        return rows.key_of(item_id)

    def values(
        self, key: str, where: Filter | None = None, *, prefix: str = "", limit: int | None = None, offset: int = 0
    ) -> list[Scalar]:
        """Return the distinct values that items have."""
        condition = self._filters.where(where or NO_FILTER, self._clock())
        return self._read(
            lambda connection: distinct_values(
                connection, self._store, key, condition, prefix=prefix, limit=limit, offset=max(offset, 0)
            )
        )

    def _value_counts(self, key: str, where: Filter) -> list[tuple[Scalar | None, int]]:
        condition = self._filters.where(where, self._clock())
        return self._read(lambda connection: value_counts(connection, self._store, key, condition))

    def embeddings(self, ids: Sequence[str]) -> dict[str, PassageEmbeddings]:
        """Return the embeddings of those of the items that have them, by id."""
        return self._read(lambda connection: rows.read_embeddings(connection, self._store, ids))

    def indexed_fields(self) -> Fields:
        """Return the fields by which items are searched that were written without a choice of their own."""
        return self._database.read(lambda connection: read_fields(connection, self._store))

    def info(self) -> CollectionInfo:
        """Report what the collection is and how much it holds; the size is an estimate."""
        return self._read(lambda connection: read_info(connection, self.location, self._store))


class PostgresView(ReadOnly, PostgresReader):
    """A state of a store that is read only; `Collection` documents the methods."""

    def __init__(
        self, whole: PostgresReader, *, items: str, state: str, clock: Callable[[], float] | None = None
    ) -> None:
        """Show a state of a collection, whose connections it uses.

        Args:
            whole: the collection.
            items: query of the items.
            state: the state that it shows, for messages.
            clock: time of the view in seconds since the epoch: what has expired by it is not there; None takes that of
                the collection.
        """
        super().__init__(whole._access, whole._database, whole._store, whole._hnsw, clock or whole._clock)  # noqa: SLF001
        self._whole, self._state, self._expressions = whole, state, rows.state_ctes(items)

    def _model_name(self) -> str | None:
        return self._whole._model_name()  # noqa: SLF001 - a collection of this package

    def close(self) -> None:
        """Do nothing: the collection stays open."""
