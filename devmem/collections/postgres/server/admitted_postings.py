"""The passages of segments that a filter admits, and the postings of terms among them."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from devmem.collections.postgres.server.posting_cache import TermPostings
from devmem.collections.postgres.server.segments import SegmentMap
from devmem.indexes.locking import locked
from devmem.indexes.postings.impacts import Codes
from devmem.indexes.postings.segment import Docs
from devmem.indexes.row_column import Rows
from devmem.indexes.top_k import Positions

_KEPT_EACH: Final = 12
"""Number of postings that are kept for each admitted passage: 72 bytes."""
_MOST_KEPT: Final = 18_000_000
"""Number of postings that are kept however many passages are admitted: 108 MB."""
_OVERHEAD: Final = 60
"""Number of postings that take as much memory as a term without any."""
_LEAST_KEPT: Final = 1_000
"""Number of postings that are kept however few passages are admitted: 6 KB."""
Part: TypeAlias = tuple[Docs, Codes]


class AdmittedPassages:
    """The admitted passages, which are numbered in the order of their positions.

    Searches with one filter look the same terms up again and again: the last ones are kept. Thread-safe.
    """

    def __init__(self, segments: SegmentMap, rows: Rows) -> None:
        """Find the passages of some items, whose rows ascend."""
        self.positions: Positions = segments.positions_of_rows(rows)
        """Position of each, ascending."""
        self.length = float(segments.lengths[self.positions].sum(dtype=np.float64))
        """Of all of them, in terms."""
        self._lock = threading.Lock()
        self._known: dict[int, Part] = {}
        self._kept = 0
        """Cost of all of them, in postings."""

    def postings(self, term: int, found: TermPostings, mask: Callable[[], NDArray[np.bool_]]) -> Part:
        """Return the numbers of the admitted passages with a term, and the codes of its postings.

        Args:
            term: hash.
            found: its postings in the segments.
            mask: returns for each position whether it is of an admitted passage.
        """
        known = self._known.get(term)
        if known is not None:
            return known
        part = found.among(self.positions, mask)
        locked(self._lock, lambda: self._keep(term, part))
        return part

    def _keep(self, term: int, part: Part) -> None:
        # Not with the postings that it was made of: these would stay in memory when `PostingCache` drops them.
        if term in self._known:
            return
        cost = len(part[0]) + _OVERHEAD
        if self._kept + cost > min(max(_KEPT_EACH * len(self.positions), _LEAST_KEPT), _MOST_KEPT):
            self._known, self._kept = {}, 0
        self._known[term] = part
        self._kept += cost
