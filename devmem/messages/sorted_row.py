"""A sorted list that gives up its first and its last elements at no cost."""

from __future__ import annotations

from bisect import bisect_left, insort
from typing import Final, Generic, TypeVar

K = TypeVar("K", int, tuple[float, int])

_LEAST_GARBAGE: Final = 64


class SortedRow(Generic[K]):
    """Different keys in order; a new last, the first and the last cost nothing, others move pointers."""

    def __init__(self) -> None:
        self._keys: list[K] = []
        self._start = 0
        """What stands before it was removed already."""

    def __len__(self) -> int:
        return len(self._keys) - self._start

    def add(self, key: K) -> None:
        """Put a key in its place."""
        if len(self) == 0 or key > self._keys[-1]:
            self._keys.append(key)
        else:
            insort(self._keys, key, lo=self._start)

    def remove(self, key: K) -> None:
        """Take a key out, which is there."""
        if self._keys[self._start] != key:
            del self._keys[bisect_left(self._keys, key, lo=self._start)]
            return
        self._start += 1
        if self._start > _LEAST_GARBAGE and 2 * self._start > len(self._keys):
            del self._keys[: self._start]
            self._start = 0

    def between(self, start: int, stop: int) -> list[K]:
        """Give the keys at positions, counted from 0."""
        return self._keys[self._start + start : self._start + stop]

    def position(self, key: K) -> int:
        """Count the keys that are smaller."""
        return bisect_left(self._keys, key, lo=self._start) - self._start
