"""What a search needs of a database."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from devmem.embedding import TokenCodes
from devmem.indexes.snapshot import Indexes
from devmem.indexes.vectors import Rows
from devmem.model.items import MemoryItem
from devmem.search.query import Filter


class SearchSource(Protocol):
    """A database as one search sees it: everything that it returns is of one moment."""

    @property
    def indexes(self) -> Indexes:
        """The indexes in memory, which show the same moment of the database."""
        ...

    def allowed(self, where: Filter, period: tuple[float, float] | None) -> Rows | None:
        """Return the passages that a filter admits, in ascending order; None when it admits all.

        Args:
            where: the filter; expired items never match.
            period: restricts the items to those of a time, from and until, in seconds since the epoch.
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

    def count(self) -> int:
        """Return the number of all items, expired ones included."""
        ...
