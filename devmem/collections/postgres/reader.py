"""Reading a store of a PostgreSQL database: the methods of a collection that change nothing."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final, TypeVar
from uuid import UUID

from devmem.collections.fielded import Fields
from devmem.collections.postgres import rows
from devmem.collections.postgres.attachments import inlined, read_attachments
from devmem.collections.postgres.database import Access, Connection, composed
from devmem.collections.postgres.distinct import distinct_values
from devmem.collections.postgres.indexed_fields import read_fields
from devmem.collections.postgres.info import read_info
from devmem.collections.postgres.predicates import order_sql, where_sql
from devmem.collections.postgres.searcher import Searcher
from devmem.collections.postgres.transactions import Database, read_store
from devmem.collections.protocol import CollectionInfo
from devmem.collections.searching import SearchingCollection
from devmem.embedding import PassageEmbeddings
from devmem.model.items import MemoryItem
from devmem.search.conditions import Scalar
from devmem.search.filters import Filter, Order
from devmem.search.pipeline import SearchPipeline
from devmem.search.query import SearchQuery

T = TypeVar("T")

_AT_ONCE: Final = 500


class PostgresReader(SearchingCollection):
    """Items of one store as the connections of a database show them; `Collection` documents the methods."""

    def __init__(
        self, access: Access, database: Database, store: int, searcher: Searcher, clock: Callable[[], float]
    ) -> None:
        """Take what reads the store.

        Args:
            access: how the database is used.
            database: its transactions.
            store: number of the store.
            searcher: searches it.
            clock: current time in seconds since the epoch, for expiry.
        """
        self.location = str(access.location)
        self._access, self._database, self._store, self._searcher = access, database, store, searcher
        self._clock = clock

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
        return read_store(self._database, self.location, self._store, operation)

    def _search(self, query: SearchQuery, run: Callable[[SearchPipeline], T]) -> T:
        def search(connection: Connection) -> T:
            now = self._clock()
            source = self._searcher.source(connection, query, self._model_name(), now)
            return run(SearchPipeline(source, query, now))

        settings = self._searcher.settings
        return self._database.read(search) if settings is None else self._database.read_pipelined(search, settings)

    def _with_attachments(self, items: Sequence[MemoryItem]) -> list[MemoryItem]:
        def read(names: Sequence[str]) -> dict[str, bytes]:
            return self._database.read(lambda connection: read_attachments(connection, self._store, names))

        return inlined(items, read)

    def _select(self, clause: str, values: Sequence[object]) -> list[tuple[int, MemoryItem]]:
        """Return row numbers and items, with their embeddings and attachments."""
        found = self._fetch(f"{rows.SELECT_WHOLE} WHERE items.store = %s AND {clause}", [self._store, *values])
        items = self._with_attachments([rows.item_from(body, vector) for _, body, vector in found])
        return [(row, item) for (row, *_), item in zip(found, items, strict=True)]

    def _fetch(self, query: str, values: Sequence[object]) -> list[tuple[Any, ...]]:
        return self._read(lambda connection: connection.execute(composed(query), values, binary=True).fetchall())

    def get(self, ids: Sequence[str]) -> list[MemoryItem]:
        """Return the items that are there, in the order of `ids`."""
        return list(self._in_order([rows.key_of(wanted) for wanted in ids], Filter()))

    def recent(
        self, limit: int, where: Filter | None = None, *, order: Order = Order.STORED, offset: int = 0
    ) -> list[MemoryItem]:
        """Return the last items of an order, the last one first."""
        condition, values = where_sql(where or Filter(), self._clock())
        clause = f"{condition} ORDER BY {order_sql(order, newest_first=True)} LIMIT %s OFFSET %s"
        return [item for _, item in self._select(clause, [*values, max(limit, 0), max(offset, 0)])]

    def scan(
        self, where: Filter | None = None, *, order: Order = Order.STORED, offset: int = 0
    ) -> Iterator[MemoryItem]:
        """Return every item in an order."""
        wanted, passed_over = where or Filter(), max(offset, 0)
        condition, values = where_sql(wanted, self._clock())
        if order is not Order.STORED:
            # By id, as an item that is changed meanwhile gets another row.
            query = f"SELECT id_key FROM items WHERE store = %s AND {condition} ORDER BY {order_sql(order)} OFFSET %s"
            found = self._fetch(query, [self._store, *values, passed_over])
            yield from self._in_order([key for (key,) in found], wanted)
            return
        clause = f"items.row > %s AND {condition} ORDER BY items.row LIMIT {_AT_ONCE} OFFSET %s"
        last = 0
        while part := self._select(clause, [last, *values, passed_over]):
            yield from (item for _, item in part)
            last, passed_over = part[-1][0], 0

    def _in_order(self, keys: Sequence[UUID], where: Filter | None = None) -> Iterator[MemoryItem]:
        """Return the items of some keys that match, in their order, reading them in batches."""
        for start in range(0, len(keys), _AT_ONCE):
            part, now = keys[start : start + _AT_ONCE], self._clock()
            found = {rows.key_of(item.id): item for _, item in self._select("id_key = ANY(%s)", [list(part)])}
            there = (found[key] for key in part if key in found)
            yield from (item for item in there if where is None or where.admits(item, now))

    def values(
        self, key: str, where: Filter | None = None, *, prefix: str = "", limit: int | None = None, offset: int = 0
    ) -> list[Scalar]:
        """Return the distinct values that items have."""
        condition = where_sql(where or Filter(), self._clock())
        return self._read(
            lambda connection: distinct_values(
                connection, self._store, key, condition, prefix=prefix, limit=limit, offset=max(offset, 0)
            )
        )

    def count(self, where: Filter | None = None) -> int:
        """Return the number of items that a search could find."""
        condition, values = where_sql(where or Filter(), self._clock())
        query = composed(f"SELECT count(*) FROM items WHERE store = %s AND {condition}")
        return self._read(
            lambda connection: int((connection.execute(query, (self._store, *values)).fetchone() or (0,))[0])
        )

    def waiting(self, limit: int) -> list[MemoryItem]:
        """Return items whose embedding is still to be made, oldest first."""
        clause = "waiting AND (expires_at IS NULL OR expires_at > %s) ORDER BY items.row LIMIT %s"
        return [item for _, item in self._select(clause, [self._clock(), max(limit, 0)])]

    def embeddings(self, ids: Sequence[str]) -> dict[str, PassageEmbeddings]:
        """Return the embeddings of those of the items that have them, by id."""
        return self._read(lambda connection: rows.read_embeddings(connection, self._store, ids))

    def indexed_fields(self) -> Fields:
        """Return the fields by which items are searched that were written without a choice of their own."""
        return self._database.read(lambda connection: read_fields(connection, self._store))

    def info(self) -> CollectionInfo:
        """Report what the collection is and how much it holds; the size is an estimate."""
        mode = self._searcher.mode
        return self._read(lambda connection: read_info(connection, self.location, self._store, mode))
