"""Reading and searching a state of a store: what databases do with the same statements."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final, TypeVar, cast

from devmem.errors import CollectionReadOnlyError
from devmem.model.conditions import Order, Scalar
from devmem.model.filters import NO_FILTER, Filter, counted, metadata_key, values_at
from devmem.model.items import MemoryItem
from devmem.model.results import Hit, HitGroup, SearchReport
from devmem.models.embedder import PassageEmbeddings
from devmem.search.query import SearchQuery
from devmem.storage.properties import recorded_fields
from devmem.storage.protocol import CollectionInfo
from devmem.storage.sql import Sql
from devmem.storage.tables import CURRENT, MISSING, State, StoreDatabase
from devmem.storage.writing import Fields

if TYPE_CHECKING:
    from devmem.search.pipeline import SearchPipeline
    from devmem.search.source import SearchSource

T = TypeVar("T")

BATCH_SIZE: Final = 500
"""Number of items that one statement reads."""
_GROWTH: Final = 8
_MOST_ROWS: Final = 100_000
"""Maximum number of rows that are found by one statement."""


class SqlReader:
    """The reading methods of `Collection`, on a state of a store."""

    def __init__(
        self, database: StoreDatabase, state: State = CURRENT, clock: Callable[[], float] | None = None
    ) -> None:
        """Show a state; what has expired by the clock, or else by that of the database, is not there."""
        self.database, self._viewed, self._clock = database, state, clock or database.clock
        self.location, self._dialect = database.location, database.dialect
        self._of = f"{self._dialect.of} AND {state.shown}"

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

    def _search(self, query: SearchQuery, run: Callable[[SearchPipeline], T]) -> T:
        """Run a search, for what is meant by the misspelled words of the query."""
        # Imported here: a manager knows collections before it searches one.
        from devmem.search.pipeline import SearchPipeline

        check = query.spelling

        def found(source: SearchSource, now: float) -> tuple[Mapping[str, str], T | None]:
            pipeline = SearchPipeline(source, query, now)
            by_word = pipeline.corrections(check) if check is not None else {}
            return by_word, None if by_word else run(pipeline)

        # Words are replaced after the transaction, as the query is embedded again.
        by_word, result = self.database.search(self._viewed, query, self._clock, found)
        return self._search(check.applied(query, by_word), run) if check and by_word else cast("T", result)

    def _shown(self, hits: Sequence[Hit], query: SearchQuery) -> tuple[Hit, ...]:
        """Return the hits with their attachments, without damaged rows.

        Where a column is damaged, the item itself does not match the filter.
        """
        admits = query.where.matcher(self._clock())
        intact = [hit for hit in hits if hit.item is not MISSING and admits(hit.item)]
        items = self.database.with_attachments([hit.item for hit in intact])
        # Most items have no attachments and are the hits' own.
        pairs = zip(intact, items, strict=True)
        return tuple(hit if item is hit.item else replace(hit, item=item) for hit, item in pairs)

    def _condition(self, where: Filter | None) -> Sql:
        """Return the condition of the shown items that match a filter."""
        condition, values = self._dialect.where(where or NO_FILTER, self._clock())
        return f"{self._of} AND {condition}", values

    def _fetch(self, query: str, values: Sequence[object] = ()) -> list[tuple[Any, ...]]:
        """Return the rows of a statement."""
        return self.database.read(lambda tables: tables.execute(query, values))

    def _items(self, clause: str, values: Sequence[object]) -> list[tuple[int, MemoryItem]]:
        """Return rows and items, with their embeddings and attachments, that a clause after `WHERE` selects."""
        return self.database.read(lambda tables: tables.whole(clause, values))

    def _at(self, rows: Sequence[int]) -> Iterator[MemoryItem]:
        """Return those of some rows that are still shown, in ascending order, reading them in batches."""
        for start in range(0, len(rows), BATCH_SIZE):
            among, numbers = self._dialect.among("row", rows[start : start + BATCH_SIZE])
            yield from (item for _, item in self._items(f"{self._of} AND {among} ORDER BY row", numbers))

    def _of_ids(self, ids: Sequence[str], where: Filter) -> Iterator[MemoryItem]:
        """Return the items with some ids that match, in their order, reading them in batches."""
        for start in range(0, len(ids), BATCH_SIZE):
            part = ids[start : start + BATCH_SIZE]
            among, values = self._dialect.among("id", part)
            admits = where.matcher(self._clock())
            found = {item.id: item for _, item in self._items(f"{self._of} AND {among}", values) if admits(item)}
            yield from (found[item_id] for item_id in part if item_id in found)

    def get(self, ids: Sequence[str]) -> list[MemoryItem]:
        """Return the items that are there, in the order of `ids`."""
        return list(self._of_ids(ids, NO_FILTER))

    def recent(
        self, limit: int, where: Filter | None = None, *, order: Order = Order.STORED, offset: int = 0
    ) -> list[MemoryItem]:
        """Return the last items of an order, the last one first."""
        (condition, values), ordered = self._condition(where), self._dialect.order(order, newest_first=True)
        # A sort of all that match would carry the items along; this one has numbers.
        page = f"SELECT row FROM items WHERE {condition} ORDER BY {ordered} LIMIT ? OFFSET ?"
        clause = f"{self._dialect.of} AND row IN ({page}) ORDER BY {ordered}"
        return [item for _, item in self._items(clause, (*values, max(limit, 0), max(offset, 0)))]

    def scan(
        self, where: Filter | None = None, *, order: Order = Order.STORED, offset: int = 0
    ) -> Iterator[MemoryItem]:
        """Return every item in an order; no lock is held between the parts, so a slow reader blocks no writer."""
        condition, values = self._condition(where)
        if order is not Order.STORED:
            # By id, as an item that is changed meanwhile gets another row.
            found = self._fetch(f"SELECT id FROM items WHERE {condition} ORDER BY {self._dialect.order(order)}", values)
            yield from self._of_ids([item_id for (item_id,) in found[max(offset, 0) :]], where or NO_FILTER)
            return
        # Where an index on the filter is used, the database sorts all that match for each statement, as the index has
        # them in another order. So each finds the rows of many batches. What is changed meanwhile comes last.
        last, most, skipped = 0, BATCH_SIZE, max(offset, 0)
        query = f"SELECT row FROM items WHERE {condition} AND row > ? ORDER BY row LIMIT ? OFFSET ?"
        while rows := [row for (row,) in self._fetch(query, (*values, last, most, skipped))]:
            yield from self._at(rows)
            last, most, skipped = rows[-1], min(_GROWTH * most, _MOST_ROWS), 0

    def values(
        self, key: str, where: Filter | None = None, *, prefix: str = "", limit: int | None = None, offset: int = 0
    ) -> list[Scalar]:
        """Return the distinct values that items have."""
        return self.database.read(
            lambda tables: tables.values(
                self._viewed,
                key,
                where or NO_FILTER,
                self._clock(),
                prefix=prefix,
                limit=limit,
                offset=max(offset, 0),
            )
        )

    def value_counts(self, key: str, where: Filter | None = None) -> list[tuple[Scalar | None, int]]:
        """Return how many items have each value."""
        name = metadata_key(key)
        if name is not None and "." in name:
            return counted((value, 1) for item in self.scan(where) for value in values_at(item, key))
        return counted(self.database.read(lambda tables: list(tables.value_counts(key, self._condition(where)))))

    def count(self, where: Filter | None = None) -> int:
        """Return the number of items that a search could find."""
        if where is None or where.everything():
            return self.database.read(lambda tables: tables.count(self._viewed, self._clock()))
        condition, values = self._condition(where)
        query = f"SELECT count(*) FROM items WHERE {condition}"
        return self.database.read(lambda tables: int(tables.execute(query, values)[0][0]))

    def embeddings(self, ids: Sequence[str]) -> dict[str, PassageEmbeddings]:
        """Return the embeddings of those of the items that have them, by id."""
        return self.database.read(lambda tables: tables.embeddings(ids, self._viewed.shown))

    def indexed_fields(self) -> Fields:
        """Return the fields by which items are searched that were written without a choice of their own."""
        return next(iter(self.database.read(recorded_fields)), ())

    def derived(self, after: int = 0) -> list[MemoryItem]:
        """Return the items in rows after one that name what they were derived from, oldest first."""
        condition, values = self._condition(None)
        query = f"SELECT row FROM items WHERE {condition} AND row > ? AND derived ORDER BY row"
        return list(self._at([row for (row,) in self._fetch(query, (*values, after))]))

    def change_mark(self) -> tuple[int, object]:
        """Return the newest row, and what tells the newest removal or change from the one before."""
        newest = self._fetch(f"SELECT row FROM items WHERE {self._of} AND row > 0 ORDER BY row DESC LIMIT 1")
        changes = self._fetch(self._dialect.last_change)
        return (newest[0][0] if newest else 0), (changes[0][0] if changes else None)

    def waiting(self, limit: int) -> list[MemoryItem]:
        """Return items whose embedding is pending and was not refused, oldest first."""
        # The plus signs keep SQLite from the index of expiring items: waiting ones are fewer, and have one in order.
        lives = "(+expires_at IS NULL OR +expires_at > ?)"
        clause = f"{self._of} AND waiting AND refusal IS NULL AND {lives} ORDER BY row LIMIT ?"
        return [item for _, item in self._items(clause, (self._clock(), max(limit, 0)))]

    def refusals(self) -> dict[str, str]:
        """Return why the model does not embed items that wait by themselves, by id, oldest first."""
        query = f"SELECT id, refusal FROM items WHERE {self._of} AND waiting AND refusal IS NOT NULL ORDER BY row"
        return dict(self._fetch(query))

    def info(self) -> CollectionInfo:
        """Report what the collection is and how much it holds."""
        return self.database.read(lambda tables: tables.info(self._viewed))


def _ranks(query: SearchQuery) -> bool:
    """Whether a query has anything to rank by."""
    return query.limit > 0 and (query.vector is not None or bool(query.text.strip()))


class View(SqlReader):
    """A state of a collection that is read only; `Collection` documents the methods."""

    def __init__(self, database: StoreDatabase, state: State, shown: str, clock: Callable[[], float]) -> None:
        """Show a state; `shown` names it in messages."""
        super().__init__(database, state, clock)
        self._shown_state = shown

    def _refuse(self, *_arguments: Any, **_options: Any) -> Any:  # noqa: ANN401 - of any method
        """Refuse to write.

        Raises:
            CollectionReadOnlyError: always.
        """
        raise CollectionReadOnlyError(self.location, self._shown_state)

    add = pop = delete = clear = trim = set_embeddings = index_fields = record_fields = replace_model = _refuse

    def close(self) -> None:
        """Do nothing: the collection stays open."""
