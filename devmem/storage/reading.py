"""Reading a collection by SQL: what databases do with the same statements."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Sequence
from typing import Any, ClassVar, Final

from devmem.model.conditions import Order
from devmem.model.filters import NO_FILTER, Filter
from devmem.model.items import MemoryItem
from devmem.storage.searching import SearchingCollection
from devmem.storage.sql import Dialect

BATCH_SIZE: Final = 500
"""Number of items that one statement reads."""
_GROWTH: Final = 8
_MOST_ROWS: Final = 100_000
"""Maximum number of rows that are found by one statement."""


class SqlReader(SearchingCollection):
    """The reading methods of `Collection`, on a table or view `items` and what a subclass runs its statements with."""

    _filters: Dialect
    _of: str = ""
    """Condition that a row of `items` is of the collection, and others follow; empty where all are."""
    _select_whole: ClassVar[str]
    """Query of the arguments of `_item`, to which a condition is added."""
    _last_change: str
    """Query of what tells the newest removal or change of an item from the one before; no row where there is none."""

    @abstractmethod
    def _fetch(self, query: str, values: Sequence[object]) -> list[tuple[Any, ...]]:
        """Return the rows of a statement that sees the database as of one commit."""

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
        condition, values = self._filters.where(where or NO_FILTER, self._now())
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
