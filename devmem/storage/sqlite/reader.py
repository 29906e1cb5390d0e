"""Reading a state of a database: the methods of a collection that change nothing."""

from __future__ import annotations

import json
import sqlite3
from abc import abstractmethod
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final, Self, TypeVar

import numpy as np
from numpy.typing import NDArray
from pydantic import ValidationError

from devmem.config.store import IndexConfig
from devmem.model.conditions import Scalar, after_prefix
from devmem.model.filters import NO_FILTER, Filter, Wanted, metadata_key
from devmem.model.items import MemoryItem
from devmem.models.embedder import TokenCodes
from devmem.search.candidates import filter_indexes
from devmem.search.indexes.codes import TokenCache
from devmem.search.indexes.columns import GenerationCache, Rows, locked
from devmem.search.indexes.doc_values import ConditionCache, ConditionLookup
from devmem.search.indexes.index_set import IndexReader
from devmem.search.query import SearchQuery
from devmem.search.source import FilterMatches, SearchSource
from devmem.storage.attachments import AttachmentFiles
from devmem.storage.protocol import CollectionInfo
from devmem.storage.reading import BATCH_SIZE, SqlReader
from devmem.storage.sql import Sql
from devmem.storage.sqlite import tables as rows
from devmem.storage.sqlite.compact_rows import (
    IS_FIRST_PART,
    PARTS_OF_PASSAGE,
    PASSAGE_OF_PART,
    joined_codes,
)
from devmem.storage.sqlite.database import MEMORY, read_meta, unreadable_item_error
from devmem.storage.sqlite.follower import SqliteFollower
from devmem.storage.sqlite.predicates import TEXT_MARK, SqliteDialect
from devmem.storage.sqlite.schema import metadata_type, metadata_value
from devmem.storage.sqlite.tables import SqliteTables, fetch_items
from devmem.storage.tables import CURRENT, NOW, State, StoreTables, check_length, check_name

T = TypeVar("T")

_INDEXED_COLUMNS: Final = frozenset({"agent", "user", "conversation", "trace"})


_WALK: Final = """
WITH RECURSIVE walk(value) AS (
    SELECT min({value}) FROM items WHERE {first}
    UNION ALL
    SELECT (SELECT min({value}) FROM items WHERE {next}) FROM walk WHERE walk.value IS NOT NULL
)
SELECT value FROM walk WHERE value IS NOT NULL LIMIT ? OFFSET ?
"""


def distinct_values(
    connection: sqlite3.Connection,
    key: str,
    where: Sql,
    *,
    walks: bool,
    indexed: Collection[str],
    prefix: str,
    limit: int | None,
    offset: int,
) -> list[Scalar]:
    """Return the distinct values of a key; see `Collection.values`.

    Args:
        connection: in a read transaction.
        key: the name of a column, or `metadata.KEY`.
        where: restricts the items.
        walks: whether an index has all that the restriction admits in the order of the values: then each is sought in
            the index behind the one before, instead of reading entry by entry.
        indexed: metadata keys that have an index.
        prefix: of the values, which are texts then.
        limit: maximum number of values; None for all.
        offset: number of values to pass over.

    Raises:
        FilterError: no item has such a key.
    """
    condition, parameters = where
    name = metadata_key(key)
    table, value, kind = "items", key, "'text'"
    if name is not None and name in indexed:
        value, kind = metadata_value(name), metadata_type(name)
    elif name is not None:
        table, value, kind = "items, json_each(body, '$.metadata') AS entry", "entry.atom", "entry.type"
        condition, parameters = f"{condition} AND entry.key = ?", [*parameters, name]
    others: list[Scalar] = []
    if name is not None and not prefix:
        # Numbers come before texts in an index.
        query = (
            f"SELECT DISTINCT {value}, {kind} IN ('true', 'false') FROM {table} WHERE {condition} AND {value} < '' "
            f"AND {kind} IN ('true', 'false', 'integer', 'real') ORDER BY 2 DESC, 1"
        )
        others = [bool(found) if is_flag else found for found, is_flag in connection.execute(query, parameters)]
    end = after_prefix(prefix)
    texts = f"{condition} AND {kind} = 'text'{'' if end is None else f' AND {value} < {TEXT_MARK}'} AND {value}"
    bounds = [*parameters, *([] if end is None else [end])]
    first, values = f"{texts} >= {TEXT_MARK}", [*bounds, prefix]
    if walks:
        query = _WALK.format(value=value, first=first, next=f"{texts} > walk.value")
        values += bounds
    else:
        query = f"SELECT DISTINCT {value} FROM {table} WHERE {first} ORDER BY 1 LIMIT ? OFFSET ?"
    chosen = others[offset:][:limit]
    wanted = -1 if limit is None else limit - len(chosen)
    found = connection.execute(query, (*values, wanted, max(offset - len(others), 0))).fetchall()
    return [*chosen, *(text for (text,) in found)]


_VALUE_COUNTS: Final = """
SELECT value, kind IN ('true', 'false'), count(*)
FROM (
    SELECT CASE entry.type WHEN 'array' THEN element.type ELSE entry.type END AS kind,
        CASE entry.type WHEN 'array' THEN element.atom ELSE entry.atom END AS value
    FROM items
    LEFT JOIN json_each(body, '$.metadata') AS entry
        ON entry.key = ?
    LEFT JOIN json_each(CASE entry.type WHEN 'array' THEN entry.value ELSE '[]' END) AS element
    WHERE {condition})
GROUP BY 1, 2
"""


def value_counts(connection: sqlite3.Connection, key: str, where: Sql) -> Iterator[tuple[Scalar | None, int]]:
    """Yield the values of a key, which is not a path, with the number of items that have each."""
    condition, parameters = where
    name = metadata_key(key)
    if name is None:
        query = f"SELECT {key}, 0, count(*) FROM items WHERE {condition} GROUP BY 1"
    else:
        query, parameters = _VALUE_COUNTS.format(condition=condition), [name, *parameters]
    for value, is_flag, count in connection.execute(query, parameters):
        yield (bool(value) if is_flag and value is not None else value), count


_SELECTED_BELOW: Final = 5000
"""Up to this many rows, they are selected by number; beyond, the metadata of all are compared. With an index on one of
the keys that pays off earlier."""


class SqliteTokenRows:
    """The token codes of a SQLite database; see `TokenRows`."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection

    def all(self, limit: int) -> dict[int, bytes]:
        """Return the codes of every passage; nothing where more than `limit` have some."""
        counted = f"SELECT count(*) FROM (SELECT 1 FROM tokens WHERE {IS_FIRST_PART} LIMIT ?)"
        (count,) = self._connection.execute(counted, (limit + 1,)).fetchone()
        every = f"SELECT {PASSAGE_OF_PART}, codes FROM tokens ORDER BY part"
        return dict(joined_codes(self._connection.execute(every))) if count <= limit else {}

    def of(self, passages: Sequence[int]) -> dict[int, bytes]:
        """Return the codes of passages; one without codes is left out."""
        query = (
            "SELECT passage, codes FROM (SELECT value AS passage FROM json_each(?)) "
            f"CROSS JOIN tokens ON {PARTS_OF_PASSAGE} ORDER BY part"
        )
        return dict(joined_codes(self._connection.execute(query, (json.dumps(sorted(passages)),))))


class SqliteSource:
    """The database as of the connection's read transaction; see `SearchSource`."""

    def __init__(
        self,
        connection: sqlite3.Connection,
        indexes: IndexReader,
        tokens: TokenCache,
        conditions: ConditionLookup,
        lock: AbstractContextManager[object],
        indexed: frozenset[str] = frozenset(),
    ) -> None:
        """Take what shows one moment.

        Args:
            connection: in a read transaction.
            indexes: of the same moment.
            tokens: the collection's token codes.
            conditions: remembers which rows match.
            lock: held for each use of the connection, which other searches may share.
            indexed: metadata keys that have an index.
        """
        self._connection, self._indexes, self._tokens, self._lock = connection, indexes, tokens, lock
        self._conditions, self._indexed = conditions, indexed

    @property
    def indexes(self) -> IndexReader:
        """The indexes in memory."""
        return self._indexes

    def apply_filter(self, where: Filter, period: tuple[float, float] | None) -> FilterMatches:
        """Return what a filter admits."""
        return filter_indexes(self._indexes, self.rows_with_metadata, where, period)

    def rows_with_metadata(self, metadata: Mapping[str, Wanted], among: Rows) -> Rows:
        """Return those of the rows whose metadata match."""
        condition, values = SqliteDialect(self._indexed).metadata(metadata)
        return self._conditions(
            repr(dict(metadata)), among, lambda rows: self._matching(metadata, condition, values, rows)
        )

    def _matching(self, metadata: Mapping[str, Wanted], condition: str, values: Sequence[object], among: Rows) -> Rows:
        """Compare rows in the database."""
        if len(among) > (_SELECTED_BELOW if self._indexed.isdisjoint(metadata) else BATCH_SIZE):
            query = f"SELECT row FROM items WHERE {condition}"
            found = locked(self._lock, lambda: self._connection.execute(query, values).fetchall())
            return np.intersect1d(np.array([row for (row,) in found], dtype=np.int64), among)
        matching: list[int] = []
        for part in np.split(among, range(BATCH_SIZE, len(among), BATCH_SIZE)):
            marks = ", ".join("?" * len(part))
            query = f"SELECT row FROM items WHERE row IN ({marks}) AND {condition}"
            with self._lock:
                matching += [row for (row,) in self._connection.execute(query, [*part.tolist(), *values])]
        return np.array(matching, dtype=np.int64)

    def items(self, rows: Sequence[int]) -> dict[int, MemoryItem]:
        """Return items by row number, without their embeddings."""
        return locked(self._lock, lambda: fetch_items(self._connection, rows))

    def token_codes(self, passages: Rows, width: int) -> tuple[TokenCodes, NDArray[np.int64]]:
        """Return the token codes of passages, joined in their order, and the number of codes of each."""
        return locked(self._lock, lambda: self._tokens.gather(SqliteTokenRows(self._connection), passages, width))


@dataclass(frozen=True, slots=True, kw_only=True)
class Opened:
    """An opened database, as the readers of its states share it."""

    location: str
    """Path of the file, for messages."""
    tokens: GenerationCache[TokenCache]
    conditions: ConditionCache
    attachments: AttachmentFiles | None
    """None in memory."""
    index: IndexConfig | None
    """How vectors are searched, and which metadata are indexed; None takes the defaults."""
    clock: Callable[[], float]
    """Current time in seconds since the epoch, for expiry."""

    @classmethod
    def at(cls, location: str, *, index: IndexConfig | None, clock: Callable[[], float]) -> Self:
        """Return what the readers of the database at a location share."""
        return cls(
            location=location,
            tokens=GenerationCache(TokenCache),
            conditions=ConditionCache(),
            attachments=None if location == MEMORY else AttachmentFiles(Path(location + ".files")),
            index=index,
            clock=clock,
        )


class SqliteReader(SqlReader):
    """The reading methods of `Collection`, on a state of a database."""

    _select_whole = rows.SELECT_WHOLE
    _last_change = "SELECT number FROM changes ORDER BY number DESC LIMIT 1"

    def __init__(
        self,
        opened: Opened,
        *,
        follower: SqliteFollower,
        statement_lock: AbstractContextManager[object],
        state: State = CURRENT,
    ) -> None:
        """Take what reading needs.

        Args:
            opened: the database.
            follower: keeps the indexes of the state.
            statement_lock: held for each use of a connection that searches share.
            state: the versions that are shown.
        """
        self.location, self._clock = opened.location, opened.clock
        self._opened, self._attachments, self._viewed = opened, opened.attachments, state
        self._follower, self._statement_lock = follower, statement_lock
        self._indexed = frozenset(opened.index.metadata if opened.index else ())
        self._filters = SqliteDialect(self._indexed)
        self._of = f"{state.shown} AND "

    @abstractmethod
    def _read_shared(self, operation: Callable[[sqlite3.Connection], T]) -> T:
        """Run an operation as `_read` does, which holds `_statement_lock` only while it uses the connection."""

    def _read(self, operation: Callable[[sqlite3.Connection], T]) -> T:
        """Run an operation that sees the database as of one commit."""
        if isinstance(self._statement_lock, nullcontext):
            return self._read_shared(operation)
        return self._read_shared(lambda connection: locked(self._statement_lock, lambda: operation(connection)))

    def _tables(self, connection: sqlite3.Connection) -> SqliteTables:
        return SqliteTables(connection, self.location, self._attachments, self._filters)

    def _reading(self, operation: Callable[[StoreTables], T]) -> T:
        """Run an operation that sees the database as of one commit."""
        return self._read(lambda connection: operation(self._tables(connection)))

    def with_source(self, query: SearchQuery, run: Callable[[SearchSource, float], T]) -> T:
        """Bring the indexes up to date and call a function with the source of a search on them."""

        def search(connection: sqlite3.Connection) -> T:
            now = self._clock()
            moment = locked(self._statement_lock, lambda: self._follower.follow(connection, now))
            if query.vector is not None:
                check_name(self.location, made=moment.model, given=self._model_name())
                if moment.indexes.vectors is not None:
                    check_length(self.location, made=moment.indexes.vectors.dimension, given=len(query.vector))
            tokens = self._opened.tokens.of(moment.generation)
            conditions = self._opened.conditions.at(moment.generation)
            source = SqliteSource(connection, moment.indexes, tokens, conditions, self._statement_lock, self._indexed)
            return run(source, now)

        return self._read_shared(search)

    def _with_attachments(self, items: Sequence[MemoryItem]) -> list[MemoryItem]:
        return list(map(self._attachments.resolve, items)) if self._attachments else list(items)

    def _fetch(self, query: str, values: Sequence[object]) -> list[tuple[Any, ...]]:
        return self._read(lambda connection: connection.execute(query, tuple(values)).fetchall())

    def _item(self, row: int, *columns: Any) -> MemoryItem:  # noqa: ANN401 - they are the database's
        try:
            return rows.item_from_row(row, *columns)
        except ValidationError as error:
            raise unreadable_item_error(self.location, error) from error

    def _page(self, condition: str, ordered: str) -> str:
        # A sort of all that match would carry the items along; this one has numbers.
        page = super()._page(f"{self._of}{condition}", ordered)
        return f"items.row IN (SELECT items.row FROM items WHERE {page}) ORDER BY {ordered}"

    def values(
        self, key: str, where: Filter | None = None, *, prefix: str = "", limit: int | None = None, offset: int = 0
    ) -> list[Scalar]:
        """Return the distinct values that items have."""
        wanted = where or NO_FILTER

        def read(connection: sqlite3.Connection) -> list[Scalar]:
            walks = self._walks(key, wanted) and not rows.any_expired(connection, self._clock())
            return distinct_values(
                connection,
                key,
                (NOW, []) if walks and wanted.everything() else self._condition(wanted),
                walks=walks,
                indexed=self._indexed,
                prefix=prefix,
                limit=limit,
                offset=max(offset, 0),
            )

        return self._read(read)

    def _walks(self, key: str, where: Filter) -> bool:
        """Whether an index has the items that match in the order of a key's values."""
        if self._viewed is not CURRENT:
            return False
        if where.everything():
            return key in _INDEXED_COLUMNS or metadata_key(key) in self._indexed
        is_of_one = where.scope.user is not None and not where.include_unscoped
        return key == "source_name" and (is_of_one or "user" in where.unbound)

    def _value_counts(self, key: str, where: Filter) -> list[tuple[Scalar | None, int]]:
        return self._read(lambda connection: list(value_counts(connection, key, self._condition(where))))

    def info(self) -> CollectionInfo:
        """Report what the collection is and how much it holds."""

        def read(connection: sqlite3.Connection) -> CollectionInfo:
            meta = read_meta(connection)
            waits = f"SELECT count(*) FROM items WHERE waiting AND {self._viewed.shown}"
            (waiting,) = connection.execute(waits).fetchone()
            (archived,) = connection.execute("SELECT count(*) FROM items WHERE archived").fetchone()
            (items,) = connection.execute(f"SELECT count(*) FROM items WHERE {self._viewed.shown}").fetchone()
            model, dimension = meta.get("model"), meta.get("dimension")
            return CollectionInfo(
                location=self.location,
                items=int(items),
                waiting=int(waiting) if model else 0,
                size_bytes=0 if self.location == MEMORY else _size_bytes(self.location),
                embedding=str(model) if model else None,
                dimension=int(dimension) if dimension else None,
                archived=int(archived),
            )

        info = self._read(read)
        attachments = self._attachments.size_bytes() if self._attachments else 0
        return replace(info, size_bytes=info.size_bytes + attachments)


def _size_bytes(location: str) -> int:
    """Return the size of a database and its files, without attachments."""
    files = (Path(location + suffix) for suffix in ("", "-wal", ".faiss"))
    return sum(file.stat().st_size for file in files if file.exists())
