"""Selecting positions: those with the highest scores, those of some rows."""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

Scores = NDArray[np.float32]
Positions = NDArray[np.int64]

_BLOCKS_EACH: Final = 16
_LEAST_BLOCK: Final = 16
_MASK_FROM: Final = 64
_MASK_SPAN: Final = 16


def best_positions(scores: Scores, limit: int, *, above: float = 0.0) -> Positions:
    """Return the positions of the highest scores above a value, best first, the later first among equals."""
    if limit < 1:
        return np.empty(0, dtype=np.int64)
    threshold = lower_bound(scores, limit, above=above)
    found = np.flatnonzero(scores >= threshold) if threshold > above else np.flatnonzero(scores > above)
    if len(found) > limit:
        threshold = float(np.partition(scores[found], len(found) - limit)[len(found) - limit])
        found = found[scores[found] >= threshold]
    return found[np.lexsort((-found, -scores[found]))][:limit]


def lower_bound(scores: Scores, limit: int, *, above: float = 0.0) -> float:
    """Return a lower bound of the `limit`-th highest score; `above` when none is found cheaply.

    Partitioning a million scores takes longer than computing them. The highest of each block is one of the scores, so
    at least `limit` scores reach the `limit`-th highest of those.
    """
    block = len(scores) // (_BLOCKS_EACH * limit)
    if block < _LEAST_BLOCK:
        return above
    blocks = len(scores) // block
    highest = scores[: blocks * block].reshape(blocks, block).max(axis=1)
    return max(above, float(np.partition(highest, blocks - limit)[blocks - limit]))


def places_in(ascending: Positions, wanted: Positions) -> Positions:
    """Return the place of each wanted number in an ascending array; -1 for one that is not there.

    The wanted numbers may have any shape; the result has the same.
    """
    if not len(ascending):
        return np.full(wanted.shape, -1, dtype=np.int64)
    at = np.minimum(np.searchsorted(ascending, wanted), len(ascending) - 1)
    return np.where(ascending[at] == wanted, at, -1)


def distinct(numbers: Positions) -> Positions:
    """Return the distinct numbers of an array in ascending order.

    `np.unique` of NumPy 2.3 takes several times as long for a few hundred.
    """
    ascending = np.sort(numbers)
    return ascending[np.append(True, ascending[1:] != ascending[:-1])] if len(ascending) else ascending


def rows_mask(rows: Positions, wanted: Positions) -> NDArray[np.bool_]:
    """Return for each row whether it is a wanted one.

    Args:
        rows: distinct row numbers in ascending order, none negative.
        wanted: row numbers in any order.
    """
    mask = np.zeros(len(rows), dtype=np.bool_)
    if not len(rows) or not len(wanted):
        return mask
    first, span = int(rows[0]), int(rows[-1]) + 1
    if span - first == len(rows):
        # Without gaps, as most are, a row's number gives its place.
        mask[wanted[(wanted >= first) & (wanted < span)] - first] = True
        return mask
    if len(wanted) * _MASK_FROM < len(rows) or span > len(rows) * _MASK_SPAN:
        at = np.minimum(np.searchsorted(rows, wanted), len(rows) - 1)
        mask[at[rows[at] == wanted]] = True
        return mask
    # Looking many rows up in a table of all numbers is faster than searching for each.
    table = np.zeros(span, dtype=np.bool_)
    table[wanted[(wanted >= 0) & (wanted < span)]] = True
    return table[rows]
