"""Reading and searching a collection: what databases do with the same statements."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar, Final, TypeVar, cast

from devmem.model.conditions import Order, Scalar
from devmem.model.filters import NO_FILTER, Filter, counted, metadata_key, values_at
from devmem.model.items import MemoryItem
from devmem.model.results import Hit, HitGroup, SearchReport
from devmem.models.embedder import PassageEmbeddings
from devmem.search.pipeline import SearchPipeline
from devmem.search.query import SearchQuery
from devmem.search.source import SearchSource
from devmem.storage.properties import recorded_fields
from devmem.storage.sql import Dialect, Sql
from devmem.storage.tables import MISSING, State, TransactionalStore
from devmem.storage.writing import Fields

T = TypeVar("T")

BATCH_SIZE: Final = 500
"""Number of items that one statement reads."""
_GROWTH: Final = 8
_MOST_ROWS: Final = 100_000
"""Maximum number of rows that are found by one statement."""


class SqlReader(TransactionalStore):
    """The reading methods of `Collection`, on the table `items` and what a subclass runs its statements with."""

    _filters: Dialect
    _viewed: State
    """The versions that are shown."""
    _of: str
    """Condition that a row of `items` is shown, and others follow."""
    _select_whole: ClassVar[str]
    """Query of the arguments of `_item`, to which a condition is added."""
    _last_change: str
    """Query of what tells the newest removal or change of an item from the one before; no row where there is none."""

    @abstractmethod
    def _fetch(self, query: str, values: Sequence[object]) -> list[tuple[Any, ...]]:
        """Return the rows of a statement that sees the database as of one commit."""

    @abstractmethod
    def with_source(self, query: SearchQuery, run: Callable[[SearchSource, float], T]) -> T:
        """Call a function with the database as one search sees it, whose indexes are up to date, and its time.

        The source is valid until the function returns; the time is in seconds since the epoch.
        """

    def _search(self, query: SearchQuery, run: Callable[[SearchPipeline], T]) -> T:
        """Run a search, for what is meant by the misspelled words of the query."""
        check = query.spelling
        if check is None:
            return self.with_source(query, lambda source, now: run(SearchPipeline(source, query, now)))

        def found(source: SearchSource, now: float) -> tuple[Mapping[str, str], T | None]:
            pipeline = SearchPipeline(source, query, now)
            by_word = pipeline.corrections(check)
            return by_word, None if by_word else run(pipeline)

        # Words are replaced after the transaction, as the query is embedded again.
        by_word, result = self.with_source(query, found)
        return self._search(check.applied(query, by_word), run) if by_word else cast("T", result)

    @abstractmethod
    def _value_counts(self, key: str, where: Filter) -> Sequence[tuple[Scalar | None, int]]:
        """Return how many items have each value of a key, which is not a path; a value may come more than once."""

    def value_counts(self, key: str, where: Filter | None = None) -> list[tuple[Scalar | None, int]]:
        """Return how many items have each value."""
        name = metadata_key(key)
        if name is None or "." not in name:
            return counted(self._value_counts(key, where or NO_FILTER))
        return counted((value, 1) for item in self.scan(where) for value in values_at(item, key))

    def search(self, query: SearchQuery) -> SearchReport:
        """Return the best items, best first, and how they were found."""
        if not _ranks(query):
            return SearchReport()
        report = self._search(query, lambda pipeline: pipeline.run())
        return replace(
            report,
            hits=self._shown(report.hits, query),
            cut=tuple(each for each in report.cut if each.item_id != MISSING.id),
        )

    def conversations(self, query: SearchQuery, *, hits_each: int = 3) -> list[HitGroup]:
        """Return the conversations that the query is about, best first, each with its best items."""
        if hits_each < 1 or not _ranks(query):
            return []
        groups = self._search(query, lambda pipeline: pipeline.conversations(hits_each))
        shown = (replace(group, hits=self._shown(group.hits, query)) for group in groups)
        return [group for group in shown if group.hits]

    def _shown(self, hits: Sequence[Hit], query: SearchQuery) -> tuple[Hit, ...]:
        """Return the hits with their attachments, without damaged rows.

        Where a column is damaged, the item itself does not match the filter.
        """
        admits = query.where.matcher(self._now())
        intact = [hit for hit in hits if hit.item is not MISSING and admits(hit.item)]
        items = self._with_attachments([hit.item for hit in intact])
        # Most items have no attachments and are the hits' own.
        pairs = zip(intact, items, strict=True)
        return tuple(hit if item is hit.item else replace(hit, item=item) for hit, item in pairs)

    def _now(self) -> float:
        """Return the current time in seconds since the epoch."""
        return self._clock()

    def _condition(self, where: Filter) -> Sql:
        """Return the condition of the shown items that match a filter."""
        condition, values = self._filters.where(where, self._now())
        return f"{self._of}{condition}", values

    def embeddings(self, ids: Sequence[str]) -> dict[str, PassageEmbeddings]:
        """Return the embeddings of those of the items that have them, by id."""
        return self._reading(lambda tables: tables.embeddings(ids, self._viewed.shown))

    def indexed_fields(self) -> Fields:
        """Return the fields by which items are searched that were written without a choice of their own."""
        return next(iter(self._reading(recorded_fields)), ())

    @abstractmethod
    def _item(self, row: int, *columns: Any) -> MemoryItem:  # noqa: ANN401 - they are the database's
        """Return the item of a selected row, with its embedding."""

    def _page(self, condition: str, ordered: str) -> str:
        """Return the clause that selects the items that match at some places of an order; a limit and an offset follow.

        A subclass restricts them in another way where that is faster.
        """
        return f"{condition} ORDER BY {ordered} LIMIT ? OFFSET ?"

    def _fetch_number(self, query: str, values: Sequence[object]) -> int:
        """Return the only value of a statement that counts."""
        ((number,),) = self._fetch(query, values)
        return int(number)

    def _fetch_items(self, clause: str, values: Sequence[object]) -> list[tuple[Any, ...]]:
        return self._fetch(f"{self._select_whole} WHERE {self._of}{clause}", values)

    def _items(self, found: Sequence[tuple[Any, ...]]) -> list[MemoryItem]:
        """Return the selected items, with their embeddings and attachments."""
        return self._with_attachments([self._item(*columns) for columns in found])

    def get(self, ids: Sequence[str]) -> list[MemoryItem]:
        """Return the items that are there, in the order of `ids`."""
        return list(self._in_order(ids, NO_FILTER))

    def recent(
        self, limit: int, where: Filter | None = None, *, order: Order = Order.STORED, offset: int = 0
    ) -> list[MemoryItem]:
        """Return the last items of an order, the last one first."""
        wanted = where or NO_FILTER
        condition, values = self._filters.where(wanted, self._now())
        page = self._page(condition, self._filters.order(order, newest_first=True))
        return self._items(self._fetch_items(page, (*values, max(limit, 0), max(offset, 0))))

    def scan(
        self, where: Filter | None = None, *, order: Order = Order.STORED, offset: int = 0
    ) -> Iterator[MemoryItem]:
        """Return every item in an order; no lock is held between the parts, so a slow reader blocks no writer."""
        wanted, dialect = where or NO_FILTER, self._filters
        condition, values = dialect.where(wanted, self._now())
        if order is not Order.STORED:
            # By id, as an item that is changed meanwhile gets another row.
            query = f"SELECT id FROM items WHERE {self._of}{condition} ORDER BY {dialect.order(order)}"
            found = self._fetch(query, values)
            yield from self._in_order([item_id for (item_id,) in found[max(offset, 0) :]], wanted)
            return
        page = self._page(f"items.row > ? AND {condition}", dialect.order(order))
        if found := self._fetch_items(page, (0, *values, BATCH_SIZE, max(offset, 0))):
            yield from self._items(found)
            for rows in self._rows_after(found[-1][0], condition, values):
                clause, numbers = dialect.among("items.row", rows)
                yield from self._items(self._fetch_items(f"{clause} ORDER BY items.row", numbers))

    def _rows_after(self, last: int, condition: str, values: Sequence[object]) -> Iterator[Sequence[int]]:
        """Yield the rows that match after one, ascending, in batches; an item that is changed meanwhile comes last.

        Where an index on the filter is used, the database sorts all that match for each statement, as the index has
        them in another order. So each finds the rows of many batches.
        """
        most = _GROWTH * BATCH_SIZE
        query = f"SELECT items.row FROM items WHERE {self._of}items.row > ? AND {condition} ORDER BY items.row LIMIT ?"
        while rows := [row for (row,) in self._fetch(query, (last, *values, most))]:
            yield from (rows[start : start + BATCH_SIZE] for start in range(0, len(rows), BATCH_SIZE))
            last, most = rows[-1], min(_GROWTH * most, _MOST_ROWS)

    def _in_order(self, ids: Sequence[str], where: Filter) -> Iterator[MemoryItem]:
        """Return the items with some ids that match, in their order, reading them in batches."""
        for start in range(0, len(ids), BATCH_SIZE):
            part = ids[start : start + BATCH_SIZE]
            items = self._items(self._fetch_items(*self._filters.among("id", part)))
            admits = where.matcher(self._now())
            found = {item.id: item for item in items if admits(item)}
            yield from (found[item_id] for item_id in part if item_id in found)

    def count(self, where: Filter | None = None) -> int:
        """Return the number of items that a search could find."""
        if where is None or where.everything():
            return self._reading(lambda tables: tables.count(self._viewed, self._now()))
        condition, values = self._filters.where(where, self._now())
        return self._fetch_number(f"SELECT count(*) FROM items WHERE {self._of}{condition}", values)

    def derived(self, after: int = 0) -> list[MemoryItem]:
        """Return the items in rows after one that name what they were derived from, oldest first."""
        dialect = self._filters
        condition, values = dialect.where(NO_FILTER, self._now())
        has_parents = f"items.row > ? AND derived AND {condition}"
        query = f"SELECT items.row FROM items WHERE {self._of}{has_parents} ORDER BY items.row"
        rows = [row for (row,) in self._fetch(query, (after, *values))]
        found: list[MemoryItem] = []
        for start in range(0, len(rows), BATCH_SIZE):
            clause, numbers = dialect.among("items.row", rows[start : start + BATCH_SIZE])
            found += self._items(self._fetch_items(f"{clause} ORDER BY items.row", numbers))
        return found

    def change_mark(self) -> tuple[int, object]:
        """Return the newest row, and what tells the newest removal or change from the one before."""
        query = f"SELECT items.row FROM items WHERE {self._of}items.row > 0 ORDER BY items.row DESC LIMIT 1"
        newest = self._fetch(query, ())
        changes = self._fetch(self._last_change, ())
        return (newest[0][0] if newest else 0), (changes[0][0] if changes else None)

    def waiting(self, limit: int) -> list[MemoryItem]:
        """Return items whose embedding is pending and was not refused, oldest first."""
        # The plus signs keep SQLite from the index of expiring items: waiting ones are fewer, and have one in order.
        lives = "(+expires_at IS NULL OR +expires_at > ?)"
        clause = f"waiting AND refusal IS NULL AND {lives} ORDER BY items.row LIMIT ?"
        return self._items(self._fetch_items(clause, (self._now(), max(limit, 0))))

    def refusals(self) -> dict[str, str]:
        """Return why the model does not embed items that wait by themselves, by id, oldest first."""
        query = f"SELECT id, refusal FROM items WHERE {self._of}waiting AND refusal IS NOT NULL ORDER BY items.row"
        return dict(self._fetch(query, ()))


def _ranks(query: SearchQuery) -> bool:
    """Whether a query has anything to rank by."""
    return query.limit > 0 and (query.vector is not None or bool(query.text.strip()))
