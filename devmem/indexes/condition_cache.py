"""A cache of conditions on metadata: each row is compared with a condition once, in the database."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Final, TypeAlias

import numpy as np

from devmem.indexes.locking import locked
from devmem.indexes.row_column import Rows
from devmem.indexes.top_k import places_in

_MOST_ROWS: Final = 4_000_000
"""Maximum number of rows that are kept, of 8 bytes each, for all conditions together."""
_NONE: Final[Rows] = np.empty(0, dtype=np.int64)


ConditionLookup: TypeAlias = Callable[[str, Rows, Callable[[Rows], Rows]], Rows]
"""Returns those of some rows that match a condition, given its text, the rows (distinct, in any order), and a function
that returns the matching ones of rows that were not compared before."""


class ConditionCache:
    """The rows that were compared with each condition, and those of them that match. Thread-safe.

    A row's number is never used again, and an item that changes gets another row: what is known of a row stays true.
    Conditions that were asked for last are kept.
    """

    def __init__(self, most_rows: int = _MOST_ROWS) -> None:
        """Make an empty cache of at most `most_rows` row numbers."""
        self._lock = threading.Lock()
        self._most_rows = most_rows
        self._known: OrderedDict[Hashable, tuple[Rows, Rows]] = OrderedDict()
        """Compared and matching rows, both ascending, by condition."""

    def at(self, generation: Hashable) -> ConditionLookup:
        """Return what looks conditions up in one generation of the database."""
        return lambda condition, among, ask: self._matching((generation, condition), among, ask)

    def _matching(self, condition: Hashable, among: Rows, ask: Callable[[Rows], Rows]) -> Rows:
        """Return those of some rows that match a condition; see `ConditionLookup`."""
        compared, found = locked(self._lock, lambda: self._known.get(condition, (_NONE, _NONE)))
        unknown = among[places_in(compared, among) < 0]
        if len(unknown):
            compared, found = _merged(compared, unknown), _merged(found, ask(unknown))
        locked(self._lock, lambda: self._keep(condition, compared, found))
        return among[places_in(found, among) >= 0]

    def _keep(self, condition: Hashable, compared: Rows, found: Rows) -> None:
        self._known[condition] = compared, found
        self._known.move_to_end(condition)
        while sum(len(one) + len(other) for one, other in self._known.values()) > self._most_rows:
            self._known.popitem(last=False)


def _merged(known: Rows, new: Rows) -> Rows:
    """Return known rows, which ascend, and new ones in ascending order."""
    new = np.sort(new)
    joined = np.concatenate([known, new])
    # What is new is mostly of the highest numbers.
    return np.sort(joined, kind="stable") if len(known) and len(new) and new[0] < known[-1] else joined
