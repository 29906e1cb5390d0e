"""The passages that are probably the nearest to a query, by the codes of their vectors."""

from __future__ import annotations

from functools import cached_property
from typing import Final

import numpy as np

from devmem.collections.postgres.schema import PASSAGE_BITS
from devmem.collections.postgres.server.admitted import Admitted
from devmem.collections.postgres.server.segments import places_of_rows
from devmem.collections.postgres.server.vector_codes import CodedPassages
from devmem.indexes.row_column import Rows
from devmem.indexes.sign_codes import CodeQuery
from devmem.indexes.top_k import Positions, distinct, places_in
from devmem.model.items import Vector

_LEAST: Final = 400
"""Minimum number of vectors that are compared exactly."""
_COMPARED_EACH: Final = 2
"""Number of vectors that are compared exactly, for each that is wanted."""


class NearestCodes:
    """The codes that one search compares."""

    def __init__(self, query: Vector, admitted: Admitted, coded: tuple[CodedPassages, CodedPassages]) -> None:
        """Take the codes of blocks and those of the rest; what the filter does not admit is passed over."""
        self._query, self._admitted = CodeQuery.of(query), admitted
        self._blocks, self._rest = coded
        self._found: dict[int, Rows] = {}

    @cached_property
    def _places(self) -> tuple[Positions | None, Positions | None]:
        """Places of the admitted passages in the blocks and in the rest; None for all."""
        if not self._admitted.restricts:
            return None, None
        rows, blocks = self._admitted.rows, self._blocks
        in_blocks = self._admitted.set.places(blocks, lambda: places_of_rows(blocks.passages, rows))
        return in_blocks, np.flatnonzero(places_in(rows, self._rest.passages >> PASSAGE_BITS) >= 0)

    def takes_all(self, limit: int) -> bool:
        """Whether all passages that may be found are compared in order to find the `limit` nearest."""
        parts = zip((self._blocks, self._rest), self._places, strict=True)
        most = max(len(part.passages) if places is None else len(places) for part, places in parts)
        return most <= _compared(limit)

    def nearest(self, limit: int) -> Rows:
        """Return the passages to compare in order to find the `limit` nearest."""
        if limit not in self._found:
            compared = _compared(limit)
            parts = zip((self._blocks, self._rest), self._places, strict=True)
            found = [part.nearest(self._query, compared, places) for part, places in parts]
            self._found[limit] = distinct(np.concatenate(found))
        return self._found[limit]


def _compared(limit: int) -> int:
    """Return the number of passages of each part that are compared in order to find the `limit` nearest."""
    return max(_LEAST, _COMPARED_EACH * limit)
