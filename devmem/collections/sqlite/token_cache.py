"""Token codes of passages, as they are needed: read from the database, the latest kept in memory."""

from __future__ import annotations

import sqlite3
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from typing import Final

import numpy as np

from devmem.embedding import TokenCodes

_MOST_BYTES: Final = 64 << 20
_AT_ONCE: Final = 500


class TokenCache:
    """The codes that were used last, up to 64 MB. Not thread-safe: its owner holds a lock.

    A passage's number is never given again and its codes never change, so what is kept stays right.
    """

    def __init__(self, most_bytes: int = _MOST_BYTES) -> None:
        self._kept: OrderedDict[int, TokenCodes] = OrderedDict()
        self._bytes, self._most_bytes = 0, most_bytes

    def get(self, connection: sqlite3.Connection, passages: Sequence[int], width: int) -> dict[int, TokenCodes]:
        """Give the codes of those of the passages that have some; a token's are `width` bytes."""
        found: dict[int, TokenCodes] = {}
        missing = []
        for passage in passages:
            codes = self._kept.get(passage)
            if codes is None:
                missing.append(passage)
            else:
                self._kept.move_to_end(passage)
                found[passage] = codes
        for passage, raw in _read(connection, missing):
            if raw and len(raw) % width == 0:
                found[passage] = np.frombuffer(raw, dtype=np.uint8).reshape(-1, width)
                self._keep(passage, found[passage])
        return found

    def clear(self) -> None:
        """Forget everything: another model made the codes."""
        self._kept.clear()
        self._bytes = 0

    def _keep(self, passage: int, codes: TokenCodes) -> None:
        self._kept[passage] = codes
        self._bytes += codes.nbytes
        while self._bytes > self._most_bytes:
            _, oldest = self._kept.popitem(last=False)
            self._bytes -= oldest.nbytes


def _read(connection: sqlite3.Connection, passages: Sequence[int]) -> Iterator[tuple[int, bytes]]:
    for start in range(0, len(passages), _AT_ONCE):
        part = passages[start : start + _AT_ONCE]
        marks = ", ".join("?" * len(part))
        yield from connection.execute(f"SELECT passage, codes FROM tokens WHERE passage IN ({marks})", part)
