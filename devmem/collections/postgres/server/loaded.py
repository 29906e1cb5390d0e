"""The items that one search has looked at: their fields, terms, and similarities, read as they are asked for."""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from devmem.collections.postgres.database import composed
from devmem.collections.postgres.follower import DOC_COLUMNS, doc_entry
from devmem.collections.postgres.schema import PASSAGE_BITS
from devmem.collections.postgres.server.admitted import Admitted
from devmem.collections.postgres.server.planning import of_item
from devmem.collections.postgres.server.term_texts import NO_TEXTS, TermTexts
from devmem.indexes.doc_values import DocValues
from devmem.indexes.row_column import Rows
from devmem.indexes.top_k import places_in
from devmem.model.items import Vector

_NO_ROWS: Final[Rows] = np.empty(0, dtype=np.int64)
_FIELDS: Final = f"SELECT {DOC_COLUMNS} FROM items WHERE store = %s AND row = ANY(%s)"
_PASSAGES: Final = (
    "SELECT passages.passage, term_hashes, term_counts, term_length, {similarity} FROM (SELECT row FROM items "
    "WHERE store = %(store)s AND row = ANY(%(rows)s) AND {condition}) AS found CROSS JOIN "
    + of_item("passages", "passage, term_hashes, term_counts, term_length", "found.row")
)
_SIMILARITY: Final = (
    "(SELECT -(vector <#> %(query)s) FROM vectors "
    "WHERE vectors.store = %(store)s AND vectors.passage = passages.passage)"
)


class LoadedItems:
    """Items that a search found, all of them admitted by its filter. Used by one search, in one thread."""

    def __init__(self, admitted: Admitted, query: Vector | None) -> None:
        """Start empty; `query` is the query's vector, None where similarity does not count."""
        self._connection, self._store = admitted.connection, admitted.store
        self._admitted, self._query = admitted, query
        self.terms: TermTexts = NO_TEXTS
        """Terms of their passages."""
        self.passages: Rows = _NO_ROWS
        """Their passages, ascending."""
        self._asked = _NO_ROWS
        self._similarities: NDArray[np.float64] = np.empty(0)
        self._fields = DocValues(linked=False)

    def load(self, rows: Rows) -> None:
        """Read those of the items that were not asked for before; one that is not admitted or not there has nothing."""
        new = np.setdiff1d(rows, self._asked)
        if not len(new):
            return
        self._asked = np.union1d(self._asked, new)
        condition, values = self._admitted.named()
        query = _PASSAGES.replace("{condition}", condition)
        query = query.replace("{similarity}", "NULL" if self._query is None else _SIMILARITY)
        parameters = {"rows": new.tolist(), "store": self._store, "query": self._query, **values}
        found = self._connection.execute(composed(query), parameters, binary=True).fetchall()
        terms = TermTexts.of([(passage, hashes, counts, length) for passage, hashes, counts, length, _ in found])
        near = np.array([np.nan if each is None else each for *_, each in found], dtype=np.float64)
        self.terms = self.terms.joined(terms)
        passages = np.concatenate([self.passages, terms.passages])
        order = np.argsort(passages)
        self.passages = passages[order]
        self._similarities = np.concatenate([self._similarities, near])[order]

    def fields_of(self, rows: Rows) -> DocValues:
        """Return doc values that have at least the admitted ones of some items, and know no order of conversations."""
        known = self._fields.positions(rows) >= 0
        new = np.unique(rows[~known])
        if len(new):
            found = self._connection.execute(composed(_FIELDS), (self._store, new.tolist()), binary=True).fetchall()
            self._fields.add([doc_entry(columns) for columns in found])
        return self._fields

    @property
    def fields(self) -> DocValues:
        """Fields of the items that `fields_of` was asked for."""
        return self._fields

    def are_admitted(self, rows: Rows) -> NDArray[np.bool_]:
        """Return for each row whether it is there and admitted."""
        self.load(rows)
        return np.isin(rows, self.passages >> PASSAGE_BITS)

    def similarities(self, passages: Rows) -> NDArray[np.float64]:
        """Return the cosine of the query and some passages; NaN for one without a vector, or that is not there."""
        self.load(passages >> PASSAGE_BITS)
        at = places_in(self.passages, passages)
        found = np.full(len(passages), np.nan)
        found[at >= 0] = self._similarities[at[at >= 0]]
        return found
