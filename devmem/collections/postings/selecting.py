"""Picking the few highest of many scores."""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

Scores = NDArray[np.float32]
Positions = NDArray[np.int64]

_BLOCK: Final = 512


def best_positions(scores: Scores, limit: int) -> Positions:
    """Give the positions of the highest scores above 0, best first, the later first among equals."""
    border = reached_by(scores, limit)
    found = np.flatnonzero(scores >= border) if border > 0 else np.flatnonzero(scores > 0)
    if len(found) > limit:
        border = float(np.partition(scores[found], len(found) - limit)[len(found) - limit])
        found = found[scores[found] >= border]
    return found[np.lexsort((-found, -scores[found]))][:limit]


def reached_by(scores: Scores, limit: int) -> float:
    """Give a score that at least `limit` of them reach, and near the highest such one; 0 when there are too few.

    Partitioning a million scores takes longer than making them: the highest of each block is one of the scores, so the
    `limit`-th highest of those is reached `limit` times.
    """
    blocks = len(scores) // _BLOCK
    if limit < 1 or blocks < 2 * limit:
        return 0.0
    highest = scores[: blocks * _BLOCK].reshape(blocks, _BLOCK).max(axis=1)
    return float(np.partition(highest, blocks - limit)[blocks - limit])
