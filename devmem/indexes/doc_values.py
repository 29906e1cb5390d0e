"""What ranking wants to know of items beside their text: who said it, when, in which conversation, after what."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, ClassVar, Final, Self

import numpy as np
from numpy.typing import NDArray

from devmem.indexes.growable import with_room
from devmem.indexes.top_k import Positions, places_in
from devmem.indexes.vectors import Rows

_COLUMNS: Final = np.dtype(
    [
        ("row", "<i8"),
        ("thread", "<i8"),
        ("time", "<f8"),
        ("previous", "<i4"),
        ("next", "<i4"),
        ("speaker", "<i4"),
        ("length", "<i4"),
        ("importance", "<f4"),
        ("cues", "u1"),
        ("alive", "?"),
    ]
)
_NONE: Final = -1


@dataclass(frozen=True, slots=True)
class DocEntry:
    """What is recorded of one item."""

    row: int
    agent: str | None
    user: str | None
    session: str | None
    conversation: str | None
    speaker: str | None
    cues: int
    length: int
    """Characters of all that is searched of it."""
    time: float
    """When it happened, or was stored where that is not known; seconds since the epoch."""
    importance: float | None


@lru_cache(maxsize=1 << 14)
def _thread(conversation: str | None, session: str | None, agent: str | None, user: str | None) -> int:
    """Number a conversation as one agent and one user have it; 0 for an item that is of none."""
    if conversation is None and session is None:
        return 0
    name = json.dumps([conversation, session, agent, user]).encode()
    return int.from_bytes(hashlib.blake2b(name, digest_size=8).digest(), "little", signed=True) or 1


class DocValues:
    """Facts of items that are known by their row in the database. Not thread-safe: its owner holds a lock.

    It knows, too, what was stored before and after an item in the same conversation. The room of removed items is given
    back when they are as many as the others; positions change then.
    """

    least_removed: ClassVar[int] = 1024
    """For fewer it is not worth the work."""

    def __init__(self) -> None:
        self._table = np.empty(0, dtype=_COLUMNS)
        self._used = self._removed = 0
        self._last: dict[int, int] = {}
        self._speakers: dict[str, int] = {}
        self._names: list[str] = []

    @property
    def last_row(self) -> int:
        """The highest row; 0 when there is none."""
        return int(self._table["row"][self._used - 1]) if self._used else 0

    @property
    def has_conversations(self) -> bool:
        """Whether any item is or was of a conversation."""
        return bool(self._last)

    def add(self, entries: Sequence[DocEntry]) -> None:
        """Append items whose rows ascend, above those that are there."""
        start = self._used
        self._used = start + len(entries)
        self._table = with_room(self._table, self._used)
        for at, entry in enumerate(entries, start):
            thread = _thread(entry.conversation, entry.session, entry.agent, entry.user)
            previous = self._last.get(thread, _NONE) if thread else _NONE
            if thread:
                self._last[thread] = at
            if previous != _NONE:
                self._table["next"][previous] = at
            self._table[at] = (
                entry.row,
                thread,
                entry.time,
                previous,
                _NONE,
                self._speaker(entry.speaker),
                entry.length,
                entry.importance or 0.0,
                entry.cues,
                True,
            )

    def remove(self, rows: Iterable[int]) -> None:
        """Drop the rows; what was around them becomes neighbours."""
        positions = self.positions(np.fromiter(rows, dtype=np.int64))
        for at in positions[positions >= 0].tolist():
            before, after = int(self._table["previous"][at]), int(self._table["next"][at])
            if before != _NONE:
                self._table["next"][before] = after
            if after != _NONE:
                self._table["previous"][after] = before
            elif thread := int(self._table["thread"][at]):
                self._last[thread] = before
            self._table["alive"][at] = False
            self._removed += 1
        if self._removed > max(self.least_removed, self._used // 2):
            self._compact()

    def positions(self, rows: Rows) -> Positions:
        """Give the position of each row; -1 for one that is not there."""
        at = places_in(self._table["row"][: self._used], rows)
        return np.where(self._table["alive"][at], at, _NONE) if self._used else at

    def rows(self, positions: Positions) -> Rows:
        """Give the rows at some positions."""
        found: Rows = self._table["row"][positions]
        return found

    def facts(self, positions: Positions) -> NDArray[Any]:
        """Give what is known at some positions, with the fields `thread`, `time`, `length`, `importance` and `cues`."""
        return self._table[positions]

    def around(self, positions: Positions, reach: int) -> list[Positions]:
        """Give the positions of the items before each, the nearest first, `reach` of them; then of those after each.

        -1 stands for none.
        """
        found = []
        for way in ("previous", "next"):
            at = positions
            for _ in range(reach):
                at = self._step(way, at)
                found.append(at)
        return found

    def speakers(self, positions: Positions) -> list[str | None]:
        """Name who said what is at some positions."""
        return [None if at == _NONE else self._names[at] for at in self._table["speaker"][positions].tolist()]

    def parts(self) -> dict[str, NDArray[Any]]:
        """Give what `restore` takes: arrays by name."""
        names = np.frombuffer(json.dumps(self._names).encode(), dtype=np.uint8)
        return {"table": self._table[: self._used].view(np.uint8), "names": names}

    @classmethod
    def restore(cls, parts: Mapping[str, NDArray[Any]]) -> Self:
        """Make a doc_values from the parts that `parts` gave.

        Raises:
            ValueError, KeyError: they are not such parts.
        """
        doc_values = cls()
        doc_values._table = np.array(parts["table"]).view(_COLUMNS)
        doc_values._used = len(doc_values._table)
        doc_values._removed = doc_values._used - int(np.count_nonzero(doc_values._table["alive"]))
        doc_values._names = json.loads(parts["names"].tobytes())
        doc_values._speakers = {name: at for at, name in enumerate(doc_values._names)}
        living = np.flatnonzero(doc_values._table["alive"] & (doc_values._table["thread"] != 0))
        # A later position takes an earlier one's place.
        doc_values._last = dict(zip(doc_values._table["thread"][living].tolist(), living.tolist(), strict=True))
        return doc_values

    def _compact(self) -> None:
        """Drop what was removed, except the last item: by its row it is known what comes later."""
        table = self._table[: self._used]
        kept = table["alive"].copy()
        kept[-1] = True
        moved = np.cumsum(kept) - 1
        self._table = table[kept]
        for way in ("previous", "next"):
            self._table[way] = np.where(self._table[way] >= 0, moved[self._table[way]], _NONE)
        self._last = {thread: int(moved[at]) for thread, at in self._last.items() if at != _NONE}
        self._used = len(self._table)
        self._removed = self._used - int(np.count_nonzero(self._table["alive"]))

    def _step(self, way: str, positions: Positions) -> Positions:
        if not self._used:
            return positions
        return np.where(positions >= 0, self._table[way][positions], _NONE).astype(np.int64)

    def _speaker(self, name: str | None) -> int:
        if name is None:
            return _NONE
        if name not in self._speakers:
            self._speakers[name] = len(self._names)
            self._names.append(name)
        return self._speakers[name]
