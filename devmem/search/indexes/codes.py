"""A cache of token codes: each passage's are read from the database once."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from typing import Final, Protocol

import numpy as np
from numpy.typing import NDArray

from devmem.forks import follow_forks
from devmem.models.embedder import TokenCodes
from devmem.search.indexes.columns import Rows, locked
from devmem.search.token_matching import widened

_MOST_BYTES: Final = 128 << 20
_AHEAD: Final = 20_000
"""Passages that are read at once when one of them is asked for, in the time that a quarter takes one by one."""


class TokenRows(Protocol):
    """The database's token codes, by passage number."""

    def all(self, limit: int) -> Mapping[int, bytes]:
        """Return the codes of every passage; nothing where more than `limit` have some."""
        ...

    def of(self, passages: Sequence[int]) -> Mapping[int, bytes]:
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
        self._kept: dict[int, bytes] = {}
        self._bytes = 0
        follow_forks(self)

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
        wanted, kept = passages.tolist(), self._kept
        known = list(map(kept.get, wanted))
        new: dict[int, bytes] = {}
        if None in known:
            new = dict(rows.all(self._ahead)) if self._ahead and not kept else {}
            missing = {passage for passage, code in zip(wanted, known, strict=True) if code is None}
            if left := missing.difference(new):
                new |= rows.of(list(left))
        codes = [new.get(at, b"") if code is None else code for at, code in zip(wanted, known, strict=True)]
        if new:
            asked = dict(zip(wanted, codes, strict=True))
            locked(self._lock, lambda: self._keep(new, asked))
        counts, rest = np.divmod(np.fromiter(map(len, codes), dtype=np.int64, count=len(codes)), width)
        if rest.any():
            counts[rest > 0] = 0
            codes = [code for code, count in zip(codes, counts.tolist(), strict=True) if count]
        return widened(np.frombuffer(b"".join(codes), dtype=np.uint8).reshape(-1, width)), counts

    def _keep(self, new: Mapping[int, bytes], asked: Mapping[int, bytes]) -> None:
        """Keep new codes; where all have no room, those that were asked for now."""
        added = sum(len(code) for passage, code in new.items() if passage not in self._kept)
        if self._bytes + added <= self._most_bytes:
            self._kept.update(new)
            self._bytes += added
            return
        # There is more than has room: reading ahead would evict the codes that were asked for.
        self._ahead = 0
        self._kept = {passage: code for passage, code in asked.items() if code}
        self._bytes = sum(map(len, self._kept.values()))
