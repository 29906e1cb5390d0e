"""The items that one search has looked at: their fields and similarities, read as they are asked for."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

import numpy as np
from numpy.typing import NDArray

from devmem.collections.postgres.follower import DOC_COLUMNS, doc_entry
from devmem.collections.postgres.parameters import RowNumbers
from devmem.collections.postgres.schema import PASSAGE_BITS
from devmem.collections.postgres.server.admitted import Admitted
from devmem.collections.postgres.server.planning import of_item, of_store
from devmem.collections.postgres.server.term_texts import numbers_from
from devmem.indexes.doc_values import DocValues
from devmem.indexes.row_column import Rows
from devmem.indexes.top_k import distinct, places_in
from devmem.model.items import Vector

_NO_ROWS: Final[Rows] = np.empty(0, dtype=np.int64)
_FIELDS: Final = f"SELECT {DOC_COLUMNS} FROM items WHERE store = %(store)s AND row = ANY(%(rows)s)"
_THERE: Final = (
    "SELECT passages.passage FROM (SELECT row FROM items "
    "WHERE store = %(store)s AND row = ANY(%(rows)s) AND {condition} OFFSET 0) AS found CROSS JOIN "
    + of_item("passages", "passage", "found.row")
)
_KNOWN: Final = "SELECT passage FROM passages WHERE store = %(store)s AND passage = ANY(%(passages)s)"
# One row is transferred faster than hundreds.
_SIMILARITY: Final = (
    "SELECT string_agg(int8send(passage), ''::bytea), string_agg(float8send(-(vector <#> %(query)s)), ''::bytea) "
    "FROM vectors WHERE store = %(store)s AND passage = ANY(%(passages)s)"
)


class LoadedItems:
    """Items that a search found, all of them admitted by its filter. Used by one search, in one thread."""

    def __init__(
        self,
        admitted: Admitted,
        query: Vector | None,
        *,
        known: Callable[[Rows], Rows],
        expected: Callable[[], Rows],
    ) -> None:
        """Start empty.

        Args:
            admitted: what the search may find.
            query: the query's vector, None where similarity does not count.
            known: returns the passages of some items, deleted ones perhaps included.
            expected: returns rows that will probably be asked for, and are read together with the first ones.
        """
        self._connection, self._store = admitted.connection, admitted.store
        self._admitted, self._query, self._known, self._expected = admitted, query, known, expected
        self.passages: Rows = _NO_ROWS
        """Their passages, ascending."""
        self._asked = _NO_ROWS
        self._similarities: NDArray[np.float64] = np.empty(0)
        self._fields = DocValues(linked=False)

    def load(self, rows: Rows) -> None:
        """Read those of the items that were not asked for before; one that is not admitted or not there has nothing."""
        new = distinct(rows[places_in(self._asked, rows) < 0])
        if not len(new):
            return
        if not len(self._asked):
            new = distinct(np.concatenate([new, self._expected()]))
        self._asked = np.sort(np.concatenate([self._asked, new]))
        if self._admitted.restricts:
            new = new[places_in(self._admitted.rows, new) >= 0]
        # An item's fields never change: what was admitted is, as long as it is there and does not expire.
        must_look = self._admitted.moment.expired
        there = self._there(new) if must_look else self._known(new)
        near = self._near(there)
        if not must_look:
            # A vector is deleted with its passage; of what has none it is not known whether it is there.
            kept = ~np.isnan(near)
            kept[~kept] = self._are_there(there[~kept])
            there, near = there[kept], near[kept]
        passages = np.concatenate([self.passages, there])
        order = np.argsort(passages)
        self.passages = passages[order]
        self._similarities = np.concatenate([self._similarities, near])[order]

    def _there(self, rows: Rows) -> Rows:
        """Return the passages of those of the items that are there and admitted, in any order."""
        condition, values = self._admitted.named()
        return self._passages(_THERE.replace("{condition}", condition), {"rows": RowNumbers(rows), **values})

    def _are_there(self, passages: Rows) -> NDArray[np.bool_]:
        """Return for each passage whether it is there."""
        if not len(passages):
            return np.empty(0, dtype=np.bool_)
        return np.isin(passages, self._passages(_KNOWN, {"passages": RowNumbers(passages)}))

    def _passages(self, query: str, parameters: Mapping[str, object]) -> Rows:
        found = self._connection.execute(of_store(query, self._store), parameters, binary=True).fetchall()
        return np.array([passage for (passage,) in found], dtype=np.int64)

    def _near(self, passages: Rows) -> NDArray[np.float64]:
        """Return the cosine of the query and some passages; NaN for one without a vector."""
        near = np.full(len(passages), np.nan)
        if self._query is None or not len(passages):
            return near
        parameters = {"passages": RowNumbers(passages), "query": self._query}
        query = of_store(_SIMILARITY, self._store)
        ((found, values),) = self._connection.execute(query, parameters, binary=True).fetchall()
        read = numbers_from(found, ">i8")
        order = np.argsort(passages)
        near[order[places_in(passages[order], read)]] = numbers_from(values, ">f8")
        return near

    def fields_of(self, rows: Rows) -> DocValues:
        """Return doc values that have at least the admitted ones of some items, and know no order of conversations."""
        known = self._fields.positions(rows) >= 0
        new = distinct(rows[~known])
        if len(new):
            parameters = {"rows": RowNumbers(new)}
            found = self._connection.execute(of_store(_FIELDS, self._store), parameters, binary=True).fetchall()
            self._fields.add([doc_entry(columns) for columns in found])
        return self._fields

    @property
    def fields(self) -> DocValues:
        """Fields of the items that `fields_of` was asked for."""
        return self._fields

    def are_admitted(self, rows: Rows) -> NDArray[np.bool_]:
        """Return for each row whether it is there and admitted."""
        self.load(rows)
        return places_in(self.passages >> PASSAGE_BITS, rows) >= 0

    def similarities(self, passages: Rows) -> NDArray[np.float64]:
        """Return the cosine of the query and some passages; NaN for one without a vector, or that is not there."""
        self.load(passages >> PASSAGE_BITS)
        at = places_in(self.passages, passages)
        found = np.full(len(passages), np.nan)
        found[at >= 0] = self._similarities[at[at >= 0]]
        return found
