"""Reading a database: the methods of a collection that change nothing."""

from __future__ import annotations

import sqlite3
from abc import abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final, Self, TypeVar

from devmem.collections.attachments import AttachmentFiles
from devmem.collections.fielded import Fields
from devmem.collections.following import Moment
from devmem.collections.model_check import check_length, check_name
from devmem.collections.protocol import CollectionInfo
from devmem.collections.searching import SearchingCollection
from devmem.collections.sqlite import history, predicates, rows
from devmem.collections.sqlite.database import MEMORY
from devmem.collections.sqlite.distinct import distinct_values
from devmem.collections.sqlite.follower import SqliteFollower
from devmem.collections.sqlite.indexed_fields import read_fields
from devmem.collections.sqlite.info import read_info
from devmem.collections.sqlite.integrity import DamagedRows
from devmem.collections.sqlite.source import SqliteSource
from devmem.config import IndexConfig
from devmem.embedding import PassageEmbeddings
from devmem.indexes.condition_cache import ConditionCache
from devmem.indexes.generations import LatestGeneration
from devmem.indexes.locking import locked
from devmem.indexes.token_codes import TokenCache
from devmem.model.items import MemoryItem, Vector
from devmem.search.conditions import Scalar
from devmem.search.filters import Filter, Order
from devmem.search.pipeline import SearchPipeline
from devmem.search.query import SearchQuery

T = TypeVar("T")

_AT_ONCE: Final = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class Opened:
    """An opened database, as its readers share it."""

    location: str
    """Path of the file, for messages."""
    tokens: LatestGeneration[TokenCache]
    conditions: ConditionCache
    attachments: AttachmentFiles | None
    """None in memory."""
    damaged: DamagedRows
    index: IndexConfig | None
    """How vectors are searched, and which metadata are indexed; None takes the defaults."""
    clock: Callable[[], float]
    """Current time in seconds since the epoch, for expiry."""

    @classmethod
    def at(cls, location: str, *, index: IndexConfig | None, clock: Callable[[], float]) -> Self:
        """Return what the readers of the database at a location share."""
        return cls(
            location=location,
            tokens=LatestGeneration(TokenCache),
            conditions=ConditionCache(),
            attachments=None if location == MEMORY else AttachmentFiles(Path(location + ".files")),
            damaged=DamagedRows(location),
            index=index,
            clock=clock,
        )


class SqliteReader(SearchingCollection):
    """The reading methods of `Collection`, on the items that a connection shows as `items`."""

    def __init__(
        self, opened: Opened, *, follower: SqliteFollower, statement_lock: AbstractContextManager[object]
    ) -> None:
        """Take what reading needs.

        Args:
            opened: the database.
            follower: keeps the indexes of these items.
            statement_lock: held for each use of a connection that searches share.
        """
        self.location, self._clock = opened.location, opened.clock
        self._opened, self._attachments, self._damaged = opened, opened.attachments, opened.damaged
        self._follower, self._statement_lock = follower, statement_lock
        self._indexed = frozenset(opened.index.metadata if opened.index else ())

    @abstractmethod
    def _read_shared(self, operation: Callable[[sqlite3.Connection], T]) -> T:
        """Run an operation as `_read` does, which holds `_statement_lock` only while it uses the connection."""

    @abstractmethod
    def _model_name(self) -> str | None:
        """Return the name of the model that queries are embedded with; None when it is not known."""

    def _total(self, connection: sqlite3.Connection) -> int:
        """Return the number of items, expired ones that are still there included."""
        return int(connection.execute("SELECT count(*) FROM items").fetchone()[0])

    def _read(self, operation: Callable[[sqlite3.Connection], T]) -> T:
        """Run an operation that sees the database as of one commit."""
        return self._read_shared(lambda connection: locked(self._statement_lock, lambda: operation(connection)))

    def _search(self, query: SearchQuery, run: Callable[[SearchPipeline], T]) -> T:
        """Bring the indexes up to date and run a search on them."""

        def search(connection: sqlite3.Connection) -> T:
            now = self._clock()
            moment = locked(self._statement_lock, lambda: self._follower.follow(connection, now))
            if query.vector is not None:
                self._check_query(query.vector, moment)
            tokens, conditions = (
                self._opened.tokens.of(moment.generation),
                self._opened.conditions.at(moment.generation),
            )
            source = SqliteSource(
                connection, moment.indexes, tokens, conditions, self._statement_lock, self._damaged, self._indexed
            )
            return run(SearchPipeline(source, query, now))

        return self._read_shared(search)

    def _check_query(self, vector: Vector, moment: Moment) -> None:
        check_name(self.location, made=moment.model, given=self._model_name())
        if moment.indexes.vectors is not None:
            check_length(self.location, made=moment.indexes.vectors.dimension, given=len(vector))

    def _now(self) -> float:
        return self._clock()

    def _with_attachments(self, items: Sequence[MemoryItem]) -> list[MemoryItem]:
        return [self._resolved(item) for item in items]

    def _resolved(self, item: MemoryItem) -> MemoryItem:
        """Return the item with the paths of its attachments."""
        return self._attachments.resolve(item) if self._attachments else item

    def _select(self, clause: str, values: Sequence[object], where: Filter | None = None) -> list[rows.Selected]:
        """Return row numbers and items, with their embeddings; None for a row that is damaged or does not match."""
        query, now = f"{rows.SELECT_WHOLE} {clause}", self._clock()
        found = self._read(lambda connection: connection.execute(query, tuple(values)).fetchall())
        items = ((columns[0], rows.item_from_row(self._damaged, *columns)) for columns in found)
        return [
            (row, None if item is None or (where and not where.admits(item, now)) else self._resolved(item))
            for row, item in items
        ]

    def get(self, ids: Sequence[str]) -> list[MemoryItem]:
        """Return the items that are there, in the order of `ids`."""
        return list(self._in_order([rows.sql_text(wanted) for wanted in ids], Filter()))

    def recent(
        self, limit: int, where: Filter | None = None, *, order: Order = Order.STORED, offset: int = 0
    ) -> list[MemoryItem]:
        """Return the last items of an order, the last one first."""
        wanted = where or Filter()
        if order is not Order.STORED:
            ids = self._ids(wanted, order, newest_first=True, limit=max(limit, 0), offset=offset)
            return list(self._in_order(ids, wanted))
        condition, values = predicates.where_sql(wanted, self._clock(), self._indexed)
        clause = f"WHERE {condition} ORDER BY items.row DESC LIMIT ? OFFSET ?"
        return rows.intact_items(self._select(clause, (*values, max(limit, 0), max(offset, 0)), wanted))

    def scan(
        self, where: Filter | None = None, *, order: Order = Order.STORED, offset: int = 0
    ) -> Iterator[MemoryItem]:
        """Return every item in an order."""
        wanted = where or Filter()
        if order is not Order.STORED:
            # By id, as an item that is changed meanwhile gets another row.
            yield from self._in_order(self._ids(wanted, order, offset=offset), wanted)
            return
        condition, values = predicates.where_sql(wanted, self._clock(), self._indexed)
        clause = f"WHERE items.row > ? AND {condition} ORDER BY items.row LIMIT {_AT_ONCE} OFFSET ?"
        # No lock is held between the parts: a slow reader keeps nobody from writing.
        last, passed_over = 0, max(offset, 0)
        while found := self._select(clause, (last, *values, passed_over), wanted):
            yield from rows.intact_items(found)
            last, passed_over = found[-1][0], 0

    def _ids(
        self, where: Filter, order: Order, *, newest_first: bool = False, limit: int = -1, offset: int = 0
    ) -> list[str]:
        """Return the ids of the items that match, as the table has them, in an order."""
        condition, values = predicates.where_sql(where, self._clock(), self._indexed)
        query = (
            f"SELECT id FROM items WHERE {condition} "
            f"ORDER BY {predicates.order_sql(order, newest_first=newest_first)} LIMIT ? OFFSET ?"
        )
        parameters = (*values, limit, max(offset, 0))
        return [found for (found,) in self._read(lambda connection: connection.execute(query, parameters).fetchall())]

    def _in_order(self, ids: Sequence[str | None], where: Filter | None = None) -> Iterator[MemoryItem]:
        """Return the items of some ids, as the table has them, in their order, reading them in batches."""
        for start in range(0, len(ids), _AT_ONCE):
            part = ids[start : start + _AT_ONCE]
            selected = self._select(f"WHERE id IN ({', '.join('?' * len(part))})", part, where)
            found = {rows.sql_text(item.id): item for item in rows.intact_items(selected)}
            yield from (found[wanted] for wanted in part if wanted in found)

    def values(
        self, key: str, where: Filter | None = None, *, prefix: str = "", limit: int | None = None, offset: int = 0
    ) -> list[Scalar]:
        """Return the distinct values that items have."""

        def read(connection: sqlite3.Connection) -> list[Scalar]:
            now = self._clock()
            is_whole = (where is None or where.everything()) and not history.any_expired(connection, now)
            condition = None if is_whole else predicates.where_sql(where or Filter(), now, self._indexed)
            return distinct_values(
                connection, key, condition, indexed=self._indexed, prefix=prefix, limit=limit, offset=max(offset, 0)
            )

        return self._read(read)

    def count(self, where: Filter | None = None) -> int:
        """Return the number of items that a search could find."""

        def count(connection: sqlite3.Connection) -> int:
            now = self._clock()
            if (where is None or where.everything()) and not history.any_expired(connection, now):
                return self._total(connection)
            condition, values = predicates.where_sql(where or Filter(), now, self._indexed)
            return int(connection.execute(f"SELECT count(*) FROM items WHERE {condition}", values).fetchone()[0])

        return self._read(count)

    def waiting(self, limit: int) -> list[MemoryItem]:
        """Return items whose embedding is still to be made, oldest first."""
        clause = "WHERE waiting AND (+expires_at IS NULL OR +expires_at > ?) ORDER BY items.row LIMIT ?"
        return rows.intact_items(self._select(clause, (self._clock(), limit)))

    def embeddings(self, ids: Sequence[str]) -> dict[str, PassageEmbeddings]:
        """Return the embeddings of those of the items that have them, by id."""

        def read(connection: sqlite3.Connection) -> dict[str, PassageEmbeddings | None]:
            return {wanted: rows.read_embeddings(connection, wanted) for wanted in ids}

        return {wanted: found for wanted, found in self._read(read).items() if found is not None}

    def indexed_fields(self) -> Fields:
        """Return the fields by which items are searched that were written without a choice of their own."""
        return self._read(read_fields)

    def info(self) -> CollectionInfo:
        """Report what the collection is and how much it holds."""

        def read(connection: sqlite3.Connection) -> CollectionInfo:
            return replace(read_info(connection, self.location), items=self._total(connection))

        info = self._read(read)
        attachments = self._attachments.size_bytes() if self._attachments else 0
        return replace(info, size_bytes=info.size_bytes + attachments, damaged=len(self._damaged))
