"""The protocol between the search pipeline and a database."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from devmem.embedding import TokenCodes
from devmem.indexes.index_set import IndexReader
from devmem.indexes.row_column import Rows
from devmem.model.items import MemoryItem
from devmem.search.conditions import Condition, Scalar


class SearchSource(Protocol):
    """A database as one search sees it: everything that it returns is of one moment.

    Row and passage numbers tell items and passages apart, and the higher one counts as the newer one. Nothing else
    follows from them: transactions may commit in another order than that of their numbers, so an item with a lower
    number may become visible after one with a higher number. See `IndexSet` for what a follower has to guarantee.
    """

    @property
    def indexes(self) -> IndexReader:
        """The indexes in memory, which show the same moment of the database."""
        ...

    def rows_with_metadata(self, metadata: Mapping[str, Scalar | Condition], among: Rows) -> Rows:
        """Return those of the rows whose metadata match; compared as by `Filter.admits`.

        Args:
            metadata: top-level keys with the values or conditions that they must have.
            among: row numbers, each of which is there.
        """
        ...

    def items(self, rows: Sequence[int]) -> dict[int, MemoryItem]:
        """Return items by row number, without their embeddings."""
        ...

    def token_codes(self, passages: Sequence[int], width: int) -> tuple[TokenCodes, NDArray[np.int64]]:
        """Return the token codes of passages, joined in their order, and the number of codes of each.

        Args:
            passages: passage numbers, in any order.
            width: bytes of a token's code; codes of another width are those of another model and are left out.
        """
        ...
