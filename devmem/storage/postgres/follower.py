"""Following a PostgreSQL database in the order in which its transactions commit.

Numbers of rows become visible out of order, so what is new is not what has a higher number. Every row carries the
number of the transaction that wrote it, and a follower remembers the snapshot that it read last: new is what that
snapshot did not see, as PostgreSQL itself decides it (its documentation, "Snapshot Information Functions").
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, ClassVar, Final, TypeAlias

import numpy as np
import psycopg

from devmem.config.store import IndexConfig
from devmem.model.items import encodable
from devmem.search.indexes.columns import locked
from devmem.search.indexes.doc_values import STRING_COLUMNS, DocEntry
from devmem.search.indexes.index_set import IndexSet
from devmem.search.indexes.scoring import EncodedTerms
from devmem.storage.postgres.database import NOTHING_SHOWN, Connection, Snapshot, composed, read_text
from devmem.storage.postgres.rows import of_item
from devmem.storage.postgres.schema import PASSAGE_BITS, check_tables, dropped
from devmem.storage.searching import Follower
from devmem.storage.sql import DOC_COLUMNS
from devmem.storage.writing import are_unit

_BATCH_SIZE: Final = 5000
_NEW: Final = "xact >= %(xmin)s::xid8 AND (xact >= %(xmax)s::xid8 OR xact = ANY(%(running)s::text[]::xid8[]))"
"""Condition that a snapshot did not see a row; the first comparison is what an index finds."""
# The snapshot of a standby does not tell which transactions were running: only those before its xmin are sure.
_SNAPSHOT: Final = (
    "CASE WHEN pg_is_in_recovery() THEN concat_ws(':', pg_snapshot_xmin(pg_current_snapshot()), "
    "pg_snapshot_xmin(pg_current_snapshot()), '') ELSE pg_current_snapshot()::text END, pg_is_in_recovery()"
)
_POLL: Final = f"""
SELECT {_SNAPSHOT}, tableoid::bigint, generation, changes_floor::text::bigint, model,
    EXISTS (SELECT FROM items WHERE store = %(store)s AND {_NEW})
    OR EXISTS (SELECT FROM changes WHERE store = %(store)s AND {_NEW})
FROM stores WHERE store = %(store)s
"""
_ITEMS: Final = f"""
SELECT {DOC_COLUMNS} FROM items WHERE store = %(store)s AND row > %(last)s AND {_NEW} ORDER BY row LIMIT {_BATCH_SIZE}
"""
_CHANGES: Final = f"SELECT row, kind FROM changes WHERE store = %(store)s AND {_NEW}"
# Where everything is new, the passages of a batch of items are one range of the index.
_IN_RANGE: Final = "FROM {table} WHERE store = %(store)s AND passage >= %(first)s AND passage < %(end)s"
_OF_ROWS: Final = f"FROM unnest(%(rows)s::bigint[]) AS new(row) CROSS JOIN {of_item('{table}', '*', 'new.row')}"


@dataclass(frozen=True, slots=True)
class _Poll:
    """The database as one poll found it."""

    snapshot: Snapshot
    is_standby: bool
    generation: int
    changes_floor: int
    model: str | None
    news: bool


Rows: TypeAlias = list[tuple[Any, ...]]


@dataclass(frozen=True, slots=True)
class _News:
    """A batch of new items, as the tables have it."""

    items: Rows
    passages: Rows
    vectors: Rows


class PostgresFollower(Follower[Connection]):
    """Keeps an `IndexSet` up to date with a store of a database. Thread-safe."""

    shows_all: ClassVar[bool] = True
    """Whether all passages between those of two items are of items that are shown."""

    def __init__(self, location: str, store: int, config: IndexConfig | None) -> None:
        """Start empty."""
        super().__init__(config)
        self._location, self._store = location, store
        self._seen = NOTHING_SHOWN
        self._found: _Poll | None = None
        self._applying = False
        """Whether some of the news may be applied and others not."""

    def _poll(self, connection: Connection) -> bool:
        if self._moment is None:
            self._seen = NOTHING_SHOWN
        row = connection.execute(_POLL, self._parameters()).fetchone()
        if row is None:
            raise dropped(self._location)
        text, is_standby, tables, *rest = row
        check_tables(connection, tables)
        found = _Poll(Snapshot.parse(text, connection.contents), is_standby, *rest)
        self._found = found
        if self._moment is not None and self._must_start_again(found):
            self._moment = None
        if self._moment is not None and not found.news and self._moment.model == found.model:
            self._seen = found.snapshot
            return False
        return True

    def _must_start_again(self, found: _Poll) -> bool:
        """Whether what the indexes show is not a past of this database, or more changed than was recorded."""
        seen = self._seen
        return (
            seen.contents != found.snapshot.contents
            or found.snapshot.xmax < seen.xmax
            or found.generation != self._generation
            or seen.xmin <= found.changes_floor
            # Some of the news may be in the indexes already.
            or (found.is_standby and found.news)
        )

    def _catch_up(self, connection: Connection, now: float) -> str | None:  # noqa: ARG002 - nothing depends on the time
        found = self._found
        assert found is not None  # noqa: S101 - `_poll` was called
        is_first = self._moment is None
        if is_first:
            self.indexes.close()
            self.indexes = IndexSet(self._config)
            self._seen = NOTHING_SHOWN
        news = self._read_news(connection)
        # Later news are read before any is applied: where the connection is lost, the indexes stay what they were.
        batches = news if is_first else list(news)
        self._applying = True
        for batch in batches:
            self._apply(batch)
        if not is_first:
            self._apply_changes(connection)
        self._applying = False
        self._seen, self._generation = found.snapshot, found.generation
        return found.model

    def _is_untouched(self, error: BaseException) -> bool:
        return isinstance(error, psycopg.Error) and not self._applying

    def close(self) -> None:
        """End the work in the background."""
        locked(self._lock, lambda: self.indexes.close())

    def _parameters(self) -> dict[str, Any]:
        return {"store": self._store, **self._seen.parameters()}

    def _read_news(self, connection: Connection) -> Iterator[_News]:
        last = 0
        while True:
            found = connection.execute(composed(_ITEMS), {**self._parameters(), "last": last}, binary=True).fetchall()
            if not found:
                return
            passages, vectors = self._read_passages(connection, [row for row, *_ in found])
            yield _News(found, passages, vectors)
            last = found[-1][0]
            if len(found) < _BATCH_SIZE:
                return

    def _read_passages(self, connection: Connection, rows: list[int]) -> tuple[Rows, Rows]:
        source = _IN_RANGE if self._seen is NOTHING_SHOWN and self.shows_all else _OF_ROWS
        parameters = {
            "store": self._store,
            "rows": rows,
            "first": rows[0] << PASSAGE_BITS,
            "end": (rows[-1] + 1) << PASSAGE_BITS,
        }
        columns = "SELECT passage, term_hashes, term_counts, term_length "
        query = columns + source.format(table="passages") + " ORDER BY passage"
        passages = connection.execute(composed(query), parameters, binary=True).fetchall()
        query = "SELECT passage, vector_send(vector) " + source.format(table="vectors") + " ORDER BY passage"
        return passages, connection.execute(composed(query), parameters, binary=True).fetchall()

    def _apply(self, news: _News) -> None:
        self.indexes.add_items([doc_entry(columns) for columns in news.items])
        terms = [
            EncodedTerms(hashes=hashes, counts=counts, length=length) for _, hashes, counts, length in news.passages
        ]
        passages = [passage for passage, *_ in news.passages]
        self.indexes.add_passages(passages, [passage >> PASSAGE_BITS for passage in passages], terms)
        self._add_vectors(news.vectors)

    def _apply_changes(self, connection: Connection) -> None:
        changes = connection.execute(_CHANGES, self._parameters()).fetchall()
        embedded = sorted({row for row, kind in changes if kind == "embedded"})
        self.indexes.remove(np.array(self._gone(connection, changes), dtype=np.int64))
        passages = self.indexes.passages_without_vector(np.array(embedded, dtype=np.int64)).tolist()
        query = (
            "SELECT passage, vector_send(vector) FROM vectors WHERE store = %s AND passage = ANY(%s) ORDER BY passage"
        )
        for start in range(0, len(passages), _BATCH_SIZE):
            part = passages[start : start + _BATCH_SIZE]
            self._add_vectors(connection.execute(query, (self._store, part), binary=True).fetchall())

    def _gone(self, connection: Connection, changes: Rows) -> list[int]:  # noqa: ARG002 - the changes say it
        """Return the rows that are not there any more, in ascending order."""
        return sorted({row for row, kind in changes if kind == "deleted"})

    def _add_vectors(self, found: list[tuple[Any, ...]]) -> None:
        if not found:
            return
        passages = np.array([passage for passage, _ in found], dtype=np.int64)
        raw = np.frombuffer(b"".join(vector for _, vector in found), dtype=">f4").reshape(len(found), -1)
        # Before the components there are two bytes of dimension and two of flags, as wide as one of them.
        matrix = raw[:, 1:].astype(np.float32)
        usable = are_unit(matrix)
        self.indexes.add_vectors(passages[usable], matrix[usable])


def doc_entry(columns: tuple[Any, ...]) -> DocEntry:
    """Return the doc values of an item, read from `DOC_COLUMNS`."""
    last = 1 + len(STRING_COLUMNS)
    return DocEntry._make((columns[0], *map(indexed_form, columns[1:last]), *columns[last:]))


@lru_cache(maxsize=1 << 12)
def indexed_form(text: str | None) -> str | None:
    """Return a column's text in the form by which the indexes know it."""
    return None if text is None else encodable(read_text(text) or "")
