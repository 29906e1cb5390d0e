"""The protocol between the search pipeline and a database."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from devmem.embedding import TokenCodes
from devmem.indexes.row_column import Mask, Rows
from devmem.model.items import MemoryItem
from devmem.search.filters import Filter
from devmem.search.readers import IndexesReader


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class FilterMatches:
    """The items and passages that a filter admits; None admits all that the indexes show, which none expired is."""

    positions: Mask | None = None
    """Whether each position of the doc values is admitted."""
    passages: Rows | None = None
    """The admitted passages, ascending."""
    hidden: int = 0
    """Number of items within the filter's scope that the rest of it does not admit."""


class SearchSource(Protocol):
    """A database as one search sees it: everything that it returns is of one moment.

    Row and passage numbers tell items and passages apart, and the higher one counts as the newer one. Nothing else
    follows from them: transactions may commit in another order than that of their numbers, so an item with a lower
    number may become visible after one with a higher number. See `IndexSet` for what a follower has to guarantee.
    """

    @property
    def indexes(self) -> IndexesReader:
        """The indexes, which show the same moment of the database."""
        ...

    def apply_filter(self, where: Filter, period: tuple[float, float] | None) -> FilterMatches:
        """Return what a filter admits; called once, before the indexes are searched.

        A source may restrict its indexes to that instead of returning it.

        Args:
            where: the filter.
            period: restricts the items to those of a time, from and until, in seconds since the epoch; None does not.
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
