"""The PostgreSQL collection: one store of a database that many processes and machines share.

Items, terms and embeddings are written in one transaction. The search indexes are a cache in memory, which follows the
database in the order of its commits (`follower.py`), so a search ranks as one of a SQLite file does; or they are in the
database (`server/`), for stores that are too large for the memory of each process.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final, TypeVar
from uuid import UUID

from devmem.collections.deletion import check_deletion
from devmem.collections.postgres import claim, rows, writes
from devmem.collections.postgres.adding import BatchWriter
from devmem.collections.postgres.attachments import inlined, read_attachments
from devmem.collections.postgres.claim import StoreRecord, check_embeddings
from devmem.collections.postgres.database import Access, Connection, Database, composed, run_alone
from devmem.collections.postgres.distinct import distinct_values
from devmem.collections.postgres.info import read_info
from devmem.collections.postgres.location import Location
from devmem.collections.postgres.migrations import prepare_database
from devmem.collections.postgres.predicates import order_sql, where_sql
from devmem.collections.postgres.searcher import open_searcher
from devmem.collections.postgres.states import PostgresStates
from devmem.collections.prepared import PreparedItem
from devmem.collections.protocol import CollectionInfo, Durability, Unique
from devmem.collections.searching import SearchingCollection
from devmem.config import IndexConfig
from devmem.embedding import ModelIdentity, PassageEmbeddings
from devmem.model.items import MemoryItem
from devmem.model.results import WriteOutcome
from devmem.search.conditions import Scalar
from devmem.search.filters import Filter, Order
from devmem.search.pipeline import SearchPipeline
from devmem.search.query import SearchQuery

T = TypeVar("T")

_AT_ONCE: Final = 500


class PostgresCollection(SearchingCollection):
    """Items of one store in a PostgreSQL database; `Collection` documents the methods."""

    def __init__(
        self,
        url: str,
        *,
        name: str | None = None,
        model: ModelIdentity | None = None,
        store_type: str | None = None,
        durability: Durability = "full",
        index: IndexConfig | None = None,
        busy_timeout: float = 30.0,
        clock: Callable[[], float] = time.time,
    ) -> None:
        """Open the store, or create it; the tables are created with the first one.

        Args:
            url: see `Location.parse`.
            name: name of the store where the URL names none.
            model: embedding model; without one the search is by text alone and new items wait for an embedding.
            store_type: store type to record in a new store; one of another type is refused.
            durability: `full` survives power loss; with `normal` a crash of the server may lose the last commits.
            index: how vectors are searched; None takes the defaults.
            busy_timeout: seconds to wait for locks, for a server that restarts, and for a free connection.
            clock: current time in seconds since the epoch, for expiry.

        Raises:
            CollectionError: the server cannot be reached or refuses; no password is in the message.
            CollectionInUseError: the store holds the items of another store type.
            EmbeddingMismatchError: its embeddings were made by another model.
        """
        place = Location.parse(url, name)
        self.location = str(place)
        self._clock = clock
        self._model = model.name if model else None
        access = Access(location=place, durability=durability, busy_timeout=busy_timeout)
        self._store = _opened(access, model, store_type).store
        self._database = Database(access)
        self.states = PostgresStates(self._database, access, self._store)
        """Values of the store beside its items; see `StatefulCollection`."""
        self._searcher = open_searcher(access, self._database, self._store, index or IndexConfig())

    def _now(self) -> float:
        return self._clock()

    def add(
        self,
        items: Sequence[MemoryItem | PreparedItem],
        *,
        unique: Unique = Unique.ID,
        expected: Mapping[str, str | None] | None = None,
    ) -> list[WriteOutcome]:
        """Store the items, all or none of them."""
        if not items:
            return []
        prepared = [PreparedItem.of(item) for item in items]

        def add(connection: Connection) -> list[WriteOutcome]:
            made = [item.embeddings for item in prepared]
            has_model = check_embeddings(connection, self.location, self._store, self._model, made)
            writes.purge_expired(connection, self._store, self._clock())
            writer = BatchWriter(connection, self._store, has_model=has_model, now=self._clock())
            return writer.add(prepared, unique, expected or {})

        outcomes = self._database.write(add)
        self._searcher.note(written=len(prepared))
        return outcomes

    def _search(self, query: SearchQuery, run: Callable[[SearchPipeline], T]) -> T:
        def search(connection: Connection) -> T:
            now = self._clock()
            source = self._searcher.source(connection, query, self._model, now)
            return run(SearchPipeline(source, query, now))

        return self._database.read(search)

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
        return self._database.read(
            lambda connection: connection.execute(composed(query), values, binary=True).fetchall()
        )

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
        return self._database.read(
            lambda connection: distinct_values(
                connection, self._store, key, condition, prefix=prefix, limit=limit, offset=max(offset, 0)
            )
        )

    def pop(self, count: int = 1, where: Filter | None = None) -> list[MemoryItem]:
        """Delete the items stored last, and return them."""
        return self._database.write(
            lambda connection: writes.pop(connection, self._store, count, where or Filter(), self._clock())
        )

    def delete(self, *, ids: Sequence[str] | None = None, where: Filter | None = None) -> int:
        """Delete the named or the matching items."""
        check_deletion(ids, where)
        deleted = self._database.write(
            lambda connection: writes.delete(connection, self._store, ids, where, self._clock())
        )
        self._searcher.note(deleted=deleted)
        return deleted

    def clear(self) -> int:
        """Delete everything."""
        deleted = self._database.write(lambda connection: writes.delete_rows(connection, self._store, "true", []))
        self._searcher.note(deleted=deleted)
        return deleted

    def trim(self, *, keep: int | None = None, stored_before: float | None = None) -> int:
        """Delete all but the newest items, and those stored before a time."""
        deleted = self._database.write(
            lambda connection: writes.trim(connection, self._store, keep, stored_before, self._clock())
        )
        self._searcher.note(deleted=deleted)
        return deleted

    def count(self, where: Filter | None = None) -> int:
        """Return the number of items that a search could find."""
        condition, values = where_sql(where or Filter(), self._clock())
        query = f"SELECT count(*) FROM items WHERE store = %s AND {condition}"
        ((count,),) = self._fetch(query, [self._store, *values])
        return int(count)

    def waiting(self, limit: int) -> list[MemoryItem]:
        """Return items whose embedding is still to be made, oldest first."""
        clause = "waiting AND (expires_at IS NULL OR expires_at > %s) ORDER BY items.row LIMIT %s"
        return [item for _, item in self._select(clause, [self._clock(), max(limit, 0)])]

    def embeddings(self, ids: Sequence[str]) -> dict[str, PassageEmbeddings]:
        """Return the embeddings of those of the items that have them, by id."""
        return self._database.read(lambda connection: rows.read_embeddings(connection, self._store, ids))

    def set_embeddings(self, embeddings: Mapping[str, PassageEmbeddings]) -> int:
        """Store the embeddings of waiting items."""

        def store(connection: Connection) -> int:
            check_embeddings(connection, self.location, self._store, self._model, embeddings.values())
            return writes.set_embeddings(connection, self._store, embeddings)

        return self._database.write(store)

    def replace_model(self, model: str, dimension: int | None) -> int:
        """Delete every embedding and record the model of the new ones."""
        waiting = self._database.write(
            lambda connection: writes.replace_model(connection, self._store, model, dimension)
        )
        self._model = model
        return waiting

    def info(self) -> CollectionInfo:
        """Report what the collection is and how much it holds; the size is an estimate."""
        mode = self._searcher.mode
        return self._database.read(lambda connection: read_info(connection, self.location, self._store, mode))

    def maintain(self) -> None:
        """Bring the indexes in the database up to date, where searches use them; this may take minutes.

        It goes on in the background anyway, and searches are right without it, only slower.
        """
        self._searcher.maintain()

    def close(self) -> None:
        """Release the connections and the indexes."""
        self._searcher.close()
        self._database.close()


def _opened(access: Access, model: ModelIdentity | None, store_type: str | None) -> StoreRecord:
    """Connect once, so that whatever is wrong is known at once, and prepare tables and store."""

    def prepare(connection: Connection) -> StoreRecord:
        prepare_database(connection, access.location)
        return claim.claim_store(connection, access.location, model, store_type)

    return run_alone(access, prepare)
