"""The items that one search has looked at: their fields and similarities, read as they are asked for."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from devmem.collections.postgres.database import Cursor
from devmem.collections.postgres.parameters import RowNumbers
from devmem.collections.postgres.schema import PASSAGE_BITS
from devmem.collections.postgres.server.admitted import Admitted
from devmem.collections.postgres.server.fields import FIELD_COLUMNS, FieldCache, ItemFields
from devmem.collections.postgres.server.planning import of_item, of_store
from devmem.collections.postgres.server.similarities import AskedSimilarities, Similarities
from devmem.collections.postgres.server.vector_cache import KnownVectors
from devmem.indexes.row_column import Rows
from devmem.indexes.top_k import distinct, places_in
from devmem.model.items import Vector

_NO_ROWS: Final[Rows] = np.empty(0, dtype=np.int64)
_FIELDS: Final = f"SELECT {FIELD_COLUMNS} FROM items WHERE store = %(store)s AND row = ANY(%(rows)s)"
_THERE: Final = (
    "SELECT passages.passage FROM (SELECT row FROM items "
    "WHERE store = %(store)s AND row = ANY(%(rows)s) AND {condition} OFFSET 0) AS found CROSS JOIN "
    + of_item("passages", "passage", "found.row")
)
_KNOWN: Final = "SELECT passage FROM passages WHERE store = %(store)s AND passage = ANY(%(passages)s)"


@dataclass(frozen=True, slots=True, eq=False)
class _Asked:
    """Items that the server was asked for."""

    rows: Rows
    passages: Rows
    """Of those of the items that are admitted, in any order."""
    near: AskedSimilarities
    """Their similarities."""


class LoadedItems:
    """Items that a search found, all of them admitted by its filter. Used by one search, in one thread."""

    def __init__(
        self,
        admitted: Admitted,
        query: Vector | None,
        known: Callable[[Rows], Rows],
        fields: FieldCache,
        vectors: KnownVectors | None,
    ) -> None:
        """Start empty.

        Args:
            admitted: what the search may find.
            query: the query's vector, None where similarity does not count.
            known: returns the passages of some items, perhaps some that were deleted.
            fields: fields of items that the process keeps.
            vectors: vectors that it keeps; None where this search may not use them.
        """
        self._connection, self._store = admitted.connection, admitted.store
        self._admitted, self._known = admitted, known
        self.passages: Rows = _NO_ROWS
        """Their passages, ascending."""
        self._asked = _NO_ROWS
        self._similarities: NDArray[np.float64] = np.empty(0)
        self._expected: _Asked | None = None
        self._near = Similarities(admitted.connection, admitted.store, query, vectors)
        self._fields, self._field_cache = ItemFields(), fields
        self._expected_fields: Cursor | None = None

    def expect(self, rows: Rows) -> None:
        """Have the server read items that will probably be loaded, while the search goes on."""
        self._take_expected()
        self._expected = self._ask(self._not_asked(rows))

    def load(self, rows: Rows) -> None:
        """Read those of the items that were not asked for before; one that is not admitted or not there has nothing."""
        self._take_expected()
        new = self._not_asked(rows)
        if len(new):
            self._take(self._ask(new))

    def _not_asked(self, rows: Rows) -> Rows:
        return distinct(rows[places_in(self._asked, rows) < 0])

    def _take_expected(self) -> None:
        expected, self._expected = self._expected, None
        if expected is not None:
            self._take(expected)

    def _ask(self, rows: Rows) -> _Asked:
        admitted = rows[places_in(self._admitted.rows, rows) >= 0] if self._admitted.restricts else rows
        # An item's fields never change: what was admitted is, as long as it is there and does not expire.
        passages = self._there(admitted) if self._admitted.moment.expired else self._known(admitted)
        return _Asked(rows, passages, self._near.ask(passages))

    def _take(self, asked: _Asked) -> None:
        """Wait for what the server was asked for, and add it to what is loaded."""
        there, near = asked.passages, self._near.read(asked.near)
        if not self._admitted.moment.expired:
            # A vector is deleted with its passage; of what has none it is not known whether it is there.
            kept = ~np.isnan(near)
            kept[~kept] = self._are_there(there[~kept])
            there, near = there[kept], near[kept]
        self._asked = np.sort(np.concatenate([self._asked, asked.rows]))
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

    def expect_fields(self, rows: Rows) -> None:
        """Have the server read the fields of items that `fields_of` will be asked for, while the search goes on."""
        if self._expected_fields is not None:
            # Another search may have put some of those that it reads into the cache meanwhile.
            return
        self._fields.add(self._field_cache.of(self._without_fields(rows)))
        new = self._without_fields(rows)
        if len(new):
            query = of_store(_FIELDS, self._store)
            self._expected_fields = self._connection.execute(query, {"rows": RowNumbers(new)}, binary=True)

    def _without_fields(self, rows: Rows) -> Rows:
        return distinct(rows[self._fields.positions(rows) < 0])

    def fields_of(self, rows: Rows) -> ItemFields:
        """Return the fields of at least those of some items that are there."""
        self._take_expected_fields()
        self.expect_fields(rows)
        self._take_expected_fields()
        return self._fields

    def _take_expected_fields(self) -> None:
        cursor, self._expected_fields = self._expected_fields, None
        if cursor is not None:
            found = cursor.fetchall()
            self._field_cache.keep(found)
            self._fields.add(found)

    @property
    def fields(self) -> ItemFields:
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
