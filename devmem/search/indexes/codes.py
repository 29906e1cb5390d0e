"""A cache of token codes: each passage's are read from the database once and kept ready to be compared."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator, Sequence
from typing import Final, Protocol

import numpy as np
from numpy.typing import NDArray

from devmem.forks import follow_forks
from devmem.models.embedder import TokenCodes
from devmem.search.indexes.columns import (
    Positions,
    Rows,
    distinct,
    locked,
    places_in_distinct,
    ranges,
    with_room,
)
from devmem.search.token_matching import widened

_MOST_BYTES: Final = 128 << 20
_SMALL: Final = 8 << 20
"""Bytes up to which the room of the cache grows with its contents."""
_AHEAD: Final = 20_000
"""Passages that are read at once when one of them is asked for, in the time that a quarter takes one by one."""

Found = Iterable[tuple[int, bytes]]


class TokenRows(Protocol):
    """The database's token codes, by passage number."""

    def count_after(self, passage: int, limit: int) -> tuple[int, int]:
        """Return the number of passages with codes after one, at most `limit`, and the last of these."""
        ...

    def after(self, passage: int) -> Iterator[list[tuple[int, bytes]]]:
        """Return the codes of every passage after one in ascending order, in batches."""
        ...

    def of(self, passages: Sequence[int]) -> list[tuple[int, bytes]]:
        """Return the codes of passages; one without codes is left out."""
        ...


class TokenCache:
    """The codes that were asked for or read ahead, up to 128 MB; then it starts again. Thread-safe.

    A passage's number is never used again, and its codes stay the same until the model is replaced.
    """

    def __init__(self, most_bytes: int = _MOST_BYTES, ahead: int = _AHEAD) -> None:
        """Make an empty cache.

        Args:
            most_bytes: maximum number of bytes, unless more are asked for at once.
            ahead: a database with at most this many passages is read as a whole when the first one is asked for.
        """
        self._lock = threading.Lock()
        self._most_bytes, self._ahead = most_bytes, ahead
        self._width = 0
        self._clear()
        follow_forks(self)

    def _clear(self) -> None:
        self._codes: TokenCodes = np.empty((0, self._width), dtype=np.uint8)
        self._used = 0
        # The passages that are kept, ascending, and the place of each; the first place holds nothing.
        self._passages: Rows = np.empty(0, dtype=np.int64)
        self._places: Positions = np.empty(0, dtype=np.int64)
        self._ends = np.zeros(1, dtype=np.int64)
        self._read_to = 0

    def gather(self, rows: TokenRows, passages: Rows, width: int) -> tuple[TokenCodes, NDArray[np.int64]]:
        """Return the codes of some passages.

        Args:
            rows: the database's token codes.
            passages: their numbers, in any order.
            width: bytes of a token's code.

        Returns:
            the codes of all of them in order, padded with zeros as `widened` does, and the number of codes
            of each: 0 for a passage that has none, or those of another model.
        """
        # Kept codes are never overwritten: they can be copied without the lock.
        places, codes, ends = locked(self._lock, lambda: self._find(rows, passages, width))
        starts = ends[np.maximum(places - 1, 0)]
        counts = ends[places] - starts
        return widened(codes.take(ranges(starts, counts), axis=0)), counts

    def _find(self, rows: TokenRows, passages: Rows, width: int) -> tuple[Positions, TokenCodes, NDArray[np.int64]]:
        """Return the place of each passage, 0 for one without codes, all codes, and the end of those of each place."""
        if width != self._width:
            self._width = width
            self._clear()
        places = self._places_of(passages)
        if not places.all():
            self._read_missing(rows, passages, width)
            places = self._places_of(passages)
        return places, self._codes, self._ends

    def _places_of(self, passages: Rows) -> Positions:
        at = places_in_distinct(self._passages, passages)
        return np.where(at >= 0, self._places[at], 0) if len(self._places) else at + 1

    def _missing(self, passages: Rows) -> Rows:
        return distinct(passages[self._places_of(passages) == 0])

    def _read_missing(self, rows: TokenRows, passages: Rows, width: int) -> None:
        missing = self._missing(passages)
        if self._ahead and len(missing) and missing[-1] > self._read_to:
            self._read_ahead(rows, width)
            missing = self._missing(missing)
        found = rows.of(missing.tolist())
        if found and self._bytes_with(found, width) > self._most_bytes:
            # There is more than has room: reading ahead would evict the codes that were asked for.
            self._ahead = 0
            self._clear()
            found = rows.of(distinct(passages).tolist())
        self._keep(found, width)

    def _read_ahead(self, rows: TokenRows, width: int) -> None:
        """Read everything, if it is not much."""
        count, last = rows.count_after(self._read_to, self._ahead + 1)
        if count > self._ahead:
            self._ahead = 0
        if not 0 < count <= self._ahead:
            return
        for found in rows.after(self._read_to):
            known = self._places_of(np.array([passage for passage, _ in found], dtype=np.int64))
            new = [each for each, place in zip(found, known.tolist(), strict=True) if not place]
            if self._bytes_with(new, width) > self._most_bytes:
                self._ahead = 0
                return
            self._keep(new, width)
        self._read_to = last

    def _bytes_with(self, found: Found, width: int) -> int:
        """Return the size of the cache after adding some codes."""
        tokens = self._used + sum(len(raw) for _, raw in found) // max(width, 1)
        return tokens * width

    def _keep(self, found: Found, width: int) -> None:
        right = [(passage, raw) for passage, raw in found if raw and len(raw) % width == 0]
        if not right:
            return
        counts = [len(raw) // width for _, raw in right]
        need = self._used + sum(counts)
        if need > len(self._codes):
            most = self._most_bytes // width
            # The system provides memory as it is written to: a large cache gets all of its room without being copied.
            room = min(2 * need, most) if need * width < _SMALL else most
            grown = np.zeros((max(need, room), width), dtype=np.uint8)
            if self._used:
                grown[: self._used] = self._codes[: self._used]
            self._codes = grown
        joined = np.frombuffer(b"".join(raw for _, raw in right), dtype=np.uint8).reshape(-1, width)
        self._codes[self._used : need] = joined
        first = len(self._places) + 1
        self._note_places(np.array([passage for passage, _ in right], dtype=np.int64), first)
        self._ends = with_room(self._ends, first + len(right))
        self._ends[first : first + len(right)] = self._used + np.cumsum(counts)
        self._used = need

    def _note_places(self, passages: Rows, first: int) -> None:
        """Note passages, none of which is kept yet, at the places from `first` on."""
        together = np.concatenate([self._passages, passages])
        places = np.append(self._places, np.arange(first, first + len(passages)))
        order = np.argsort(together, kind="stable")
        self._passages, self._places = together[order], places[order]
