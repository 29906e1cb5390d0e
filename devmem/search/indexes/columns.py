"""Columns of an index: the database's row of each position, which positions are live, and selecting among them."""

from __future__ import annotations

import copy
import json
import threading
from collections.abc import Callable, Hashable, Iterable
from contextlib import AbstractContextManager
from typing import Any, Final, Generic, Self, TypeVar, overload

import numpy as np
from numpy.typing import NDArray

from devmem.forks import follow_forks

_LEAST_ROOM: Final = 1024
_BLOCKS_EACH: Final = 4
"""Blocks for each score that is wanted. With more the bound is closer, but partitioning them takes longer than what it
saves: of 200 wanted among 800 blocks, the bound is about the 230th highest score."""
_LEAST_BLOCK: Final = 16
_MASK_FROM: Final = 64
_MASK_SPAN: Final = 16

Array = TypeVar("Array", bound=NDArray[Any])
Rows = NDArray[np.int64]
Mask = NDArray[np.bool_]
Scores = NDArray[np.float32]
Positions = NDArray[np.int64]


def with_room(array: Array, need: int, most: int | None = None) -> Array:
    """Return an array with room for `need` entries: itself, or a copy of at least twice its length.

    A copy is no longer than `most`, which is at least `need`; None stands for any length.

    Entries are rows of the first axis; the new ones are not initialized. Whoever holds the old array keeps it as it
    was.
    """
    if need <= len(array):
        return array
    room = max(need, 2 * len(array), _LEAST_ROOM)
    grown = np.empty((room if most is None else min(room, most), *array.shape[1:]), dtype=array.dtype)
    grown[: len(array)] = array
    return grown  # type: ignore[return-value]


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
    # A block is every `blocks`-th score: the maxima of all blocks are taken side by side, ten times as fast.
    highest = scores[: blocks * block].reshape(block, blocks).max(axis=0)
    return max(above, float(np.partition(highest, blocks - limit)[blocks - limit]))


def places_in(ascending: Positions, wanted: Positions) -> Positions:
    """Return the place of each wanted number in an ascending array; -1 for one that is not there.

    The wanted numbers may have any shape; the result has the same.
    """
    if not len(ascending):
        return np.full(wanted.shape, -1, dtype=np.int64)
    at = np.minimum(ascending.searchsorted(wanted), len(ascending) - 1)
    return np.where(ascending[at] == wanted, at, -1)


def places_in_distinct(ascending: Positions, wanted: Positions) -> Positions:
    """Return what `places_in` does for an array of distinct numbers, in no time where they have no gaps."""
    count = len(ascending)
    if not count or ascending.item(-1) - (first := ascending.item(0)) != count - 1:
        return places_in(ascending, wanted)
    at: Positions = wanted - first
    # Of unsigned numbers, those below the first are beyond the last.
    outside = at.view(np.uint64) >= count
    if np.count_nonzero(outside):
        at[outside] = -1
    return at


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


def group_starts(owner: NDArray[np.integer[Any]]) -> Positions:
    """Return the place where each group begins, shape (groups,)."""
    first = np.empty(len(owner), dtype=np.bool_)
    first[:1] = True
    np.not_equal(owner[1:], owner[:-1], out=first[1:])
    return first.nonzero()[0]


def spread(positions: Positions, limit: int) -> Positions:
    """Return at most `limit` of some positions, evenly spread over them, the first and the last among them."""
    if len(positions) <= limit:
        return positions
    return positions[np.linspace(0, len(positions) - 1, limit).astype(np.int64)]


def best_first(scores: NDArray[np.float64]) -> Positions:
    """Return the places of scores in descending order, the later place first among equals."""
    order = np.argsort(-scores)
    ranked = scores[order]
    if (ranked[1:] == ranked[:-1]).any():
        # A stable sort takes several times as long.
        return len(scores) - 1 - np.argsort(-scores[::-1], kind="stable")
    return order


def rank_in_group(owner: Positions) -> Positions:
    """Return each element's place within its group, from 0."""
    starts = group_starts(owner)
    return np.arange(len(owner)) - np.repeat(starts, np.diff(np.append(starts, len(owner))))


def ranges(starts: NDArray[np.int64], counts: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the numbers of some ranges, joined: `counts` numbers from each of the starts on."""
    return np.arange(int(counts.sum())) + np.repeat(starts - np.cumsum(counts) + counts, counts)


class RowColumn:
    """Row numbers in the order in which they were applied, which need not be ascending; none occurs twice.

    A removed row keeps its position, which is masked. A `view` is a snapshot: appending writes only behind what it
    reads, and removing replaces the mask.
    """

    def __init__(self, rows: Rows | None = None, dead: Positions | None = None) -> None:
        """Start with rows, and with the positions among them that are removed."""
        self._rows: Rows = np.empty(0, dtype=np.int64) if rows is None else rows
        self.used = len(self._rows)
        """Number of positions, removed ones included."""
        self._live: Mask = np.ones(self.used, dtype=np.bool_)
        self.dead = 0 if dead is None else len(dead)
        """Number of removed positions."""
        if dead is not None:
            self._live[dead] = False
        self._ascending = _ascends(self._rows)
        self._order: Positions | None = None

    def __len__(self) -> int:
        return self.used - self.dead

    @property
    def rows(self) -> Rows:
        """Row number of each position."""
        return self._rows[: self.used]

    @property
    def live(self) -> Mask:
        """Whether each position is not removed."""
        return self._live[: self.used]

    def view(self) -> Self:
        """Return a snapshot that later changes do not affect."""
        return copy.copy(self)

    def append(self, rows: Rows) -> None:
        """Append rows, in any order."""
        need = self.used + len(rows)
        self._rows, self._live = with_room(self._rows, need), with_room(self._live, need)
        self._rows[self.used : need] = rows
        self._live[self.used : need] = True
        self._ascending = self._ascending and _ascends(self._rows[max(0, self.used - 1) : need])
        self.used, self._order = need, None

    def remove(self, rows: Rows) -> Positions:
        """Mask rows and return their positions; rows that are not there are passed over."""
        positions = self.positions(rows)
        positions = np.unique(positions[positions >= 0])
        if len(positions):
            self._live = self._live.copy()
            self._live[positions] = False
            self.dead += len(positions)
        return positions

    def positions(self, rows: Rows) -> Positions:
        """Return the position of each row; -1 for one that is not there."""
        if not self.used:
            return np.full(len(rows), -1, dtype=np.int64)
        if self._ascending:
            found = places_in_distinct(self.rows, rows)
        else:
            order = self._sorted()
            at = places_in_distinct(self.rows[order], rows)
            found = np.where(at >= 0, order[at], -1)
        return np.where(self._live[found], found, -1) if self.dead else found

    def mask(self, rows: Rows) -> Mask:
        """Return for each position whether its row is live and among some rows, which are in any order."""
        if self._ascending:
            found = rows_mask(self.rows, rows)
        else:
            order = self._sorted()
            found = np.empty(self.used, dtype=np.bool_)
            found[order] = rows_mask(self.rows[order], rows)
        return found & self.live if self.dead else found

    def live_positions(self) -> Positions:
        """Return the positions that are not removed."""
        return np.flatnonzero(self.live)

    def compacted(self) -> RowColumn:
        """Return a column of the live rows, without the room of the removed ones."""
        return RowColumn(self.rows[self.live])

    def _sorted(self) -> Positions:
        if self._order is None:
            self._order = np.argsort(self.rows, kind="stable")
        return self._order


def _ascends(rows: Rows) -> bool:
    return bool((rows[1:] > rows[:-1]).all())


NO_STRING: Final = -1
"""Code of None."""
_UNKNOWN: Final = -2


class StringTable:
    """Distinct strings, numbered in the order in which they came. A code never changes its meaning."""

    def __init__(self, strings: Iterable[str] = ()) -> None:
        self._strings = list(strings)
        self._codes = {string: code for code, string in enumerate(self._strings)}

    def encode(self, string: str | None) -> int:
        """Return the code of a string, which is added when it is new."""
        if string is None:
            return NO_STRING
        code = self._codes.setdefault(string, len(self._strings))
        if code == len(self._strings):
            self._strings.append(string)
        return code

    def encode_all(self, strings: Iterable[str | None]) -> list[int]:
        """Return the codes of some strings, which are added when they are new."""
        known = self._codes
        return [NO_STRING if each is None else known[each] if each in known else self.encode(each) for each in strings]

    def find(self, string: str) -> int:
        """Return the code of a string; a number that no column holds when it is not there.

        Strings with lone surrogates are looked up in the form in which databases hold them.
        """
        return self._codes.get(string, _UNKNOWN)

    def decode(self, codes: NDArray[np.int32]) -> list[str | None]:
        """Return the string of each code."""
        strings, listed = self._strings, codes.tolist()
        distinct = set(listed)
        if distinct == {NO_STRING}:
            return [None] * len(listed)
        known = {code: None if code == NO_STRING else strings[code] for code in distinct}
        return [known[code] for code in listed]

    def part(self) -> NDArray[np.uint8]:
        """Return the strings as bytes, which `restore` takes."""
        return np.frombuffer(json.dumps(self._strings).encode(), dtype=np.uint8)

    @classmethod
    def restore(cls, part: NDArray[Any]) -> Self:
        """Return the table that `part` was made of; raises `ValueError` when it is not JSON."""
        return cls(json.loads(part.tobytes()))


T = TypeVar("T")


class computed_once(Generic[T]):  # noqa: N801 - a decorator, as `cached_property` is
    """A property that is computed at its first use, without a lock.

    `functools.cached_property` of Python 3.11 holds a lock for all objects of a class, so that searches in several
    threads would wait for each other. Without one, threads that share an object may compute the value twice.
    """

    def __init__(self, compute: Callable[[Any], T]) -> None:
        self._compute, self._name = compute, compute.__name__
        self.__doc__ = compute.__doc__

    @overload
    def __get__(self, owner: None, kind: type) -> Self: ...
    @overload
    def __get__(self, owner: object, kind: type) -> T: ...
    def __get__(self, owner: object | None, kind: type) -> T | Self:
        """Return the value, which hides the descriptor from then on."""
        if owner is None:
            return self
        value = self._compute(owner)
        # `setattr` would be refused by a frozen data class.
        owner.__dict__[self._name] = value
        return value


def locked(lock: AbstractContextManager[object], operation: Callable[[], T]) -> T:
    """Run an operation while holding a lock, which is released whatever is raised, and wherever.

    Ctrl-C between the end of a `with` block of several lines and its `__exit__` would leave the lock held for ever; on
    one line nothing comes between.
    """
    with lock: return operation()  # noqa: E701  # fmt: skip


class GenerationCache(Generic[T]):
    """A cache for the latest generation of a database: another generation starts with a new one.

    The caller decides how generations are distinguished. Thread-safe; a search goes on with the cache that it was
    given.
    """

    def __init__(self, make: Callable[[], T]) -> None:
        """Start with an empty cache; `make` returns one."""
        self._lock = threading.Lock()
        self._make = make
        self._generation: Hashable = None
        self._cache = make()
        follow_forks(self)

    def of(self, generation: Hashable) -> T:
        """Return the cache of a generation: a new one where the last was of another."""
        return locked(self._lock, lambda: self._of(generation))

    def _of(self, generation: Hashable) -> T:
        if generation != self._generation:
            self._generation, self._cache = generation, self._make()
        return self._cache

    def clear(self) -> None:
        """Forget everything."""
        locked(self._lock, lambda: self._of(None))
