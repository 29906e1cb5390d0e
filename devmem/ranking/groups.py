"""Groups of equal neighbours in an array: the passages of an item, the items of a conversation."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Places = NDArray[np.int64]


def group_starts(owner: Places) -> Places:
    """Return the place where each group begins, shape (groups,)."""
    return np.flatnonzero(np.append(True, owner[1:] != owner[:-1])) if len(owner) else owner


def rank_in_group(owner: Places) -> Places:
    """Return each element's place within its group, from 0."""
    starts = group_starts(owner)
    return np.arange(len(owner)) - np.repeat(starts, np.diff(np.append(starts, len(owner))))


def ranges(starts: NDArray[np.int64], counts: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the numbers of some ranges, joined: `counts` numbers from each of the starts on."""
    return np.arange(int(counts.sum())) + np.repeat(starts - np.cumsum(counts) + counts, counts)
