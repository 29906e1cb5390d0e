"""Doc values: columns of the items' fields by position, for filters and features.

Also the order of each conversation: which item comes before and after another.
"""

from __future__ import annotations

import copy
import hashlib
import json
import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Any, ClassVar, Final, NamedTuple, Self, TypeAlias

import numpy as np
from numpy.typing import NDArray

from devmem.forks import follow_forks
from devmem.model.filters import ITEM_FIELDS
from devmem.search.indexes.columns import (
    NO_STRING,
    Mask,
    Positions,
    RowColumn,
    Rows,
    StringTable,
    group_starts,
    locked,
    places_in,
    spread,
    with_room,
)

STRING_COLUMNS: Final = (*(each.name for each in ITEM_FIELDS), "speaker")
_NUMBERS: Final = {
    "thread": "<i8",
    "time": "<f8",
    "expires_at": "<f8",
    "trust": "<f8",
    "length": "<i4",
    "importance": "<f4",
    "cues": "<u2",
}
_TYPES: Final = {**_NUMBERS, **dict.fromkeys(STRING_COLUMNS, "<i4")}
_NONE: Final = -1
_NEVER: Final = float("inf")
RUNNING: Final = 1800.0
"""Seconds without an item after which a session is over."""


class DocEntry(NamedTuple):
    """The fields of one item that are kept in memory."""

    row: int
    cues: int = 0
    length: int = 0
    """Number of characters that are searched."""
    time: float = 0.0
    """Event time, or creation time where there is none; seconds since the epoch."""
    importance: float | None = None
    trust: float = 1.0
    expires_at: float | None = None
    """Seconds since the epoch; None for never."""
    strings: tuple[str | None, ...] = (None,) * len(STRING_COLUMNS)
    """Those of `STRING_COLUMNS`, in their order."""


@lru_cache(maxsize=1 << 14)
def thread_of(conversation: str | None, session: str | None, agent: str | None, user: str | None) -> int:
    """Return the number of a conversation as one agent and one user have it; 0 for an item of none."""
    if conversation is None and session is None:
        return 0
    name = json.dumps([conversation, session, agent, user]).encode()
    return int.from_bytes(hashlib.blake2b(name, digest_size=8).digest(), "little", signed=True) or 1


class DocValues:
    """Columns over items that are known by their row in the database. Not thread-safe but for its views.

    Items are added in any order; within a conversation they have the order of their rows. The room of removed items is
    freed when they are as many as the others; positions change then, but not those of a view.
    """

    least_removed: ClassVar[int] = 1024
    """Number of removed items below which their room is not freed."""

    def __init__(self) -> None:
        self._rows = RowColumn()
        self._columns: dict[str, NDArray[Any]] = {name: np.empty(0, dtype=kind) for name, kind in _TYPES.items()}
        self._strings = StringTable()
        self._turns: Positions = np.empty(0, dtype=np.int64)
        """Positions of the items of conversations before `_ordered`, by conversation and row."""
        self._ordered = 0
        self._places: Positions | None = None
        """Place of each position among the turns, computed when it is first needed."""
        self.has_conversations = False
        """Whether any item is or was of a conversation."""
        self.next_expiry = _NEVER
        """No item expires before this time; seconds since the epoch."""

    def __len__(self) -> int:
        return len(self._rows)

    def view(self) -> Self:
        """Return a snapshot that later changes do not affect."""
        self._order_turns()
        view = copy.copy(self)
        view._rows, view._columns = self._rows.view(), dict(self._columns)  # noqa: SLF001 - a copy of this one
        return view

    def add(self, entries: Sequence[DocEntry]) -> None:
        """Append items, none of which was added before."""
        if not entries:
            return
        start, need = self._rows.used, self._rows.used + len(entries)
        given = dict(zip(DocEntry._fields, zip(*entries, strict=True), strict=True))
        given |= zip(STRING_COLUMNS, zip(*given.pop("strings"), strict=True), strict=True)
        self._rows.append(np.array(given["row"], dtype=np.int64))
        for name, column in self._columns.items():
            self._columns[name] = with_room(column, need)
        new = slice(start, need)
        for name in ("time", "trust", "length", "cues"):
            self._columns[name][new] = given[name]
        for name in STRING_COLUMNS:
            self._columns[name][new] = self._strings.encode_all(given[name])
        self._columns["importance"][new] = [importance or 0.0 for importance in given["importance"]]
        expiry = [_NEVER if time is None else time for time in given["expires_at"]]
        self._columns["expires_at"][new] = expiry
        self.next_expiry = min([self.next_expiry, *expiry])
        threads = list(map(thread_of, *(given[name] for name in ("conversation", "session", "agent", "user"))))
        self._columns["thread"][new] = threads
        self.has_conversations = self.has_conversations or any(threads)

    def _order_turns(self) -> None:
        """Put the items that were added since into the order of their conversations."""
        threads, rows, start = self.column("thread"), self._rows.rows, self._ordered
        new = start + np.flatnonzero((threads[start:] != 0) & self.live[start:])
        self._ordered = self._rows.used
        if not len(new):
            return
        new = new[np.lexsort((rows[new], threads[new]))]
        known, self._places = self._turns, None
        ends = np.searchsorted(threads[known], threads[new], side="right")
        last = known[ends[ends > 0] - 1]
        if ((threads[last] == threads[new[ends > 0]]) & (rows[last] > rows[new[ends > 0]])).any():
            together = np.concatenate([known, new])
            self._turns = together[np.lexsort((rows[together], threads[together]))]
        else:
            self._turns = np.insert(known, ends, new)

    def remove(self, rows: Iterable[int]) -> None:
        """Remove items; what was around one in its conversation becomes neighbours."""
        if not len(self._rows.remove(np.fromiter(rows, dtype=np.int64))):
            return
        self._turns, self._places = self._turns[self.live[self._turns]], None
        if self._rows.dead > max(self.least_removed, self._rows.used // 2):
            self._compact()

    def expired(self, now: float) -> tuple[Rows, NDArray[np.float64]]:
        """Return the rows of the items that expired until `now`, and when each did; seconds since the epoch."""
        times = self.column("expires_at")
        expired = self._rows.live & (times <= now)
        return self._rows.rows[expired], times[expired]

    def find_next_expiry(self) -> None:
        """Look `next_expiry` up again, after the expired items were removed."""
        self.next_expiry = float(np.min(self.column("expires_at")[self._rows.live], initial=_NEVER))

    def positions(self, rows: Rows) -> Positions:
        """Return the position of each row; -1 for one that is not there."""
        return self._rows.positions(rows)

    def rows(self, positions: Positions) -> Rows:
        """Return the rows at some positions."""
        return self._rows.rows[positions]

    @property
    def live(self) -> Mask:
        """Whether each position holds an item that is not removed."""
        return self._rows.live

    def column(self, name: str) -> NDArray[Any]:
        """Return a column, one value for each position: a field of `DocEntry`, or `thread`, 0 for no conversation."""
        return self._columns[name][: self._rows.used]

    def equal(self, name: str, value: str | None) -> Mask:
        """Return for each position whether a string column has a value; None stands for no string."""
        code = NO_STRING if value is None else self._strings.find(value)
        return np.asarray(self.column(name) == code)

    def matching(self, name: str, admits: Callable[[str | None], bool]) -> Mask:
        """Return for each position whether the value of a string column is admitted; each value is looked at once."""
        column = self.column(name)
        codes = np.unique(column)
        admitted = [admits(value) for value in self._strings.decode(codes)]
        return np.isin(column, codes[np.array(admitted, dtype=np.bool_)])

    def strings(self, name: str, positions: Positions) -> list[str | None]:
        """Return the value of a string column at some positions."""
        return self._strings.decode(self._columns[name][positions])

    def with_cues(self, cues: int, admitted: Mask | None = None) -> Positions:
        """Return the positions of the items whose text has one of some cues (`Cue`).

        Args:
            cues: the wanted bits.
            admitted: whether each position counts; None admits all that are not removed.
        """
        return np.flatnonzero(((self.column("cues") & cues) > 0) & (self.live if admitted is None else admitted))

    def last_with_cues(self, cues: int, limit: int, admitted: Mask | None = None) -> Positions:
        """Return the positions of the last items with one of some cues, in the order of their times.

        Args:
            cues: the wanted bits.
            limit: maximum number of items.
            admitted: whether each position counts; None admits all that are not removed.
        """
        found = self.with_cues(cues, admitted)
        return found[np.argsort(self.column("time")[found], kind="stable")][-limit:]

    def in_period(self, start: float, end: float, limit: int, admitted: Mask | None = None) -> Positions:
        """Return the positions of the items of a time, in its order; of more than `limit`, an even spread.

        Args:
            start: seconds since the epoch.
            end: the first time after it.
            limit: maximum number of items.
            admitted: whether each position counts; None admits all that are not removed.
        """
        times = self.column("time")
        found = np.flatnonzero((times >= start) & (times < end) & (self.live if admitted is None else admitted))
        return spread(found[np.argsort(times[found], kind="stable")], limit)

    def in_session(self, place: int, now: float, limit: int, admitted: Mask | None = None) -> Positions:
        """Return the positions of the items of a session, in the order of their times; see `DocValuesReader`."""
        has_session = np.stack([self.column("conversation"), self.column("session")]).astype(np.int64)
        at = np.flatnonzero((has_session != NO_STRING).any(axis=0) & (self.live if admitted is None else admitted))
        names = (has_session[0, at] << 32) + has_session[1, at]
        times = self.column("time")[at]
        _, number = np.unique(names, return_inverse=True)
        order = np.lexsort((times, number))
        at, times, starts = at[order], times[order], group_starts(number[order])
        ends = np.append(starts[1:], len(at))
        began = np.argsort(times[starts], kind="stable")
        if place < 0:
            last = times[ends[began] - 1]
            began = began[(last <= now - RUNNING) | (last > now)]
        if not -len(began) <= place < len(began):
            return np.empty(0, dtype=np.int64)
        return spread(at[starts[began[place]] : ends[began[place]]], limit)

    def around(self, positions: Positions, reach: int, visible: Mask | None = None) -> list[Positions]:
        """Return the positions of the `reach` items before each in its conversation, then those after, nearest first.

        Args:
            positions: of visible items.
            reach: number of items in each direction.
            visible: whether each position counts; the others are passed over as if they were not there. None for all.

        Returns:
            2 * `reach` arrays of the shape of `positions`; -1 stands for none.
        """
        self._order_turns()
        if self._places is None:
            self._places = self._places_of(self._turns)
        found = self._steps(self._turns, self._places, positions, reach)
        if visible is None or all(visible[step[step >= 0]].all() for step in found):
            return found
        turns = self._turns[visible[self._turns]]
        return self._steps(turns, self._places_of(turns), positions, reach)

    def _places_of(self, turns: Positions) -> Positions:
        places = np.full(self._rows.used, _NONE)
        places[turns] = np.arange(len(turns))
        return places

    def _steps(self, turns: Positions, places: Positions, positions: Positions, reach: int) -> list[Positions]:
        """Return the turns before and after some positions, given the turns that count and their places."""
        if not len(turns):
            return [np.full(positions.shape, _NONE)] * (2 * reach)
        threads, at = self.column("thread"), np.where(positions >= 0, places[positions], _NONE)
        found = []
        for distance in (*range(-1, -reach - 1, -1), *range(1, reach + 1)):
            step = turns.take(at + distance, mode="clip")
            is_there = (at >= 0) & (at + distance >= 0) & (at + distance < len(turns))
            found.append(np.where(is_there & (threads[step] == threads[positions]), step, _NONE))
        return found

    def parts(self) -> dict[str, NDArray[Any]]:
        """Return arrays by name, which `restore` takes."""
        self._compact()
        return {
            "rows": self._rows.rows.astype("<i8"),
            "strings": self._strings.part(),
            **{name: self.column(name) for name in self._columns},
        }

    @classmethod
    def restore(cls, parts: Mapping[str, NDArray[Any]]) -> Self:
        """Return the doc values that `parts` was made of.

        Raises:
            ValueError, KeyError: they are not such parts.
        """
        restored = cls()
        restored._rows = RowColumn(np.asarray(parts["rows"], dtype=np.int64))
        restored._columns = {name: np.asarray(parts[name], dtype=kind) for name, kind in _TYPES.items()}
        if any(len(column) != restored._rows.used for column in restored._columns.values()):
            raise ValueError("its columns are not of one length")
        restored._strings = StringTable.restore(parts["strings"])
        restored.has_conversations = bool(restored._columns["thread"].any())
        restored.find_next_expiry()
        return restored

    def _compact(self) -> None:
        """Free the room of removed items."""
        if not self._rows.dead:
            return
        self._columns = {name: self.column(name)[self.live] for name in self._columns}
        self._rows = self._rows.compacted()
        self._turns, self._ordered, self._places = np.empty(0, dtype=np.int64), 0, None


_MOST_ROWS: Final = 4_000_000
"""Maximum number of rows that are kept, of 8 bytes each, for all conditions together."""
_NO_ROWS: Final[Rows] = np.empty(0, dtype=np.int64)


ConditionLookup: TypeAlias = Callable[[str, Rows, Callable[[Rows], Rows]], Rows]
"""Returns those of some rows that match a condition, given its text, the rows (distinct, in any order), and a function
that returns the matching ones of rows that were not compared before."""


class ConditionCache:
    """The rows that were compared with each condition, and those of them that match. Thread-safe.

    A row's number is never used again, and an item that changes gets another row: facts about a row stay true.
    Conditions that were asked for last are kept.
    """

    def __init__(self, most_rows: int = _MOST_ROWS) -> None:
        """Make an empty cache of at most `most_rows` row numbers."""
        self._lock = threading.Lock()
        self._most_rows = most_rows
        self._known: OrderedDict[Hashable, tuple[Rows, Rows]] = OrderedDict()
        """Compared and matching rows, both ascending, by condition."""
        follow_forks(self)

    def at(self, generation: Hashable) -> ConditionLookup:
        """Return what looks conditions up in one generation of the database."""
        return lambda condition, among, ask: self._matching((generation, condition), among, ask)

    def _matching(self, condition: Hashable, among: Rows, ask: Callable[[Rows], Rows]) -> Rows:
        """Return those of some rows that match a condition; see `ConditionLookup`."""
        compared, found = locked(self._lock, lambda: self._known.get(condition, (_NO_ROWS, _NO_ROWS)))
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
    # New rows mostly have the highest numbers.
    return np.sort(joined, kind="stable") if len(known) and len(new) and new[0] < known[-1] else joined
