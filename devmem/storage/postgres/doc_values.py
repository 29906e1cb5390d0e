"""The fields of items by which a search of a PostgreSQL store ranks them, read for those that it looks at."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from devmem.model.items import Vector
from devmem.search.indexes.columns import Mask, Positions, Rows, distinct, places_in
from devmem.search.indexes.doc_values import RUNNING, thread_of
from devmem.storage.postgres.database import Cursor, RowNumbers
from devmem.storage.postgres.passages import Source
from devmem.storage.postgres.rows import of_item
from devmem.storage.sql import EVENT_TIME

_NO_ROWS: Final[Rows] = np.empty(0, dtype=np.int64)


_STANDING: Final = 200
"""Maximum number of instructions and preferences that are looked at, the nearest to the query."""
_FIELDS: Final = (
    'SELECT row, conversation, session, agent, "user", speaker, COALESCE(event_time, created_at), length, cues, '
    "importance FROM items WHERE store = {store} AND row = ANY(%(rows)s)"
)
_TYPES: Final = {"thread": "<i8", "time": "<f8", "length": "<i4", "cues": "<u2", "importance": "<f4"}
_TEXTS: Final = ("conversation", "user", "speaker")
_NEIGHBORS: Final = """
SELECT own.row, turn.row FROM unnest(%(rows)s::bigint[]) AS at(row)
JOIN items AS own ON own.store = {store} AND own.row = at.row
CROSS JOIN LATERAL (
    (SELECT row FROM items WHERE store = {store} AND {same} AND row < own.row AND {condition}
        ORDER BY row DESC LIMIT %(reach)s)
    UNION ALL
    (SELECT row FROM items WHERE store = {store} AND {same} AND row > own.row AND {condition}
        ORDER BY row LIMIT %(reach)s)
) AS turn
"""
_SAME: Final = (
    '{key} = own.{key} AND {other} AND agent IS NOT DISTINCT FROM own.agent AND "user" IS NOT DISTINCT FROM own."user"'
)
_KEYS: Final = {"conversation": "session IS NOT DISTINCT FROM own.session", "session": "conversation IS NULL"}
"""A conversation is found by its name, and by its session where it has none."""
_WITH_CUES: Final = "SELECT row FROM items WHERE store = {store} AND cues & %(cues)s <> 0 AND {condition}"
_LAST: Final = f"{_WITH_CUES} ORDER BY {EVENT_TIME} DESC, row DESC LIMIT %(limit)s"
_SPREAD: Final = f"""
SELECT row FROM (
    SELECT row, row_number() OVER (ORDER BY happened, row) - 1 AS at, count(*) OVER () AS total FROM (
        SELECT row, {EVENT_TIME} AS happened FROM items WHERE store = {{store}} AND {{within}} AND {{condition}}
    ) AS found
) AS numbered WHERE total <= %(limit)s OR at * %(limit)s / total > (at - 1) * %(limit)s / total ORDER BY at
"""
"""Rows in the order of their times; of more than the limit, an even spread."""
_WITHIN: Final = f"{EVENT_TIME} >= %(start)s AND {EVENT_TIME} < %(end)s"
_IS_OF: Final = "conversation IS NOT DISTINCT FROM %(conversation)s AND session IS NOT DISTINCT FROM %(session)s"
_SESSION_AT: Final = f"""
SELECT conversation, session FROM items
WHERE store = {{store}} AND (conversation IS NOT NULL OR session IS NOT NULL) AND {{condition}}
GROUP BY conversation, session
HAVING %(place)s >= 0 OR max({EVENT_TIME}) <= %(now)s - %(running)s OR max({EVENT_TIME}) > %(now)s
ORDER BY min({EVENT_TIME}) {{order}} LIMIT 1 OFFSET %(skipped)s
"""
_NEAREST_WITH_CUES: Final = (
    f"SELECT found.row FROM ({_WITH_CUES}) AS found CROSS JOIN {of_item('vectors', 'vector', 'found.row')} "
    f"ORDER BY vector <#> %(query)s LIMIT {_STANDING}"
)


class PostgresDocValues:
    """Fields of items by position; see `DocValuesReader`. An item has a position once it was asked for."""

    def __init__(self, source: Source, query: Vector | None, *, has_conversations: bool) -> None:
        """Show the admitted items; `query` is the query's vector, None where similarity does not count."""
        self._source, self._query = source, query
        self.has_conversations = has_conversations
        """Whether any item is of a conversation."""
        self._asked: list[Cursor] = []
        self._rows: Rows = _NO_ROWS
        self._order: Positions = _NO_ROWS
        self._columns: dict[str, NDArray[Any]] = {name: np.empty(0, dtype=kind) for name, kind in _TYPES.items()}
        self._texts: list[tuple[str | None, str | None, str | None]] = []
        """`_TEXTS` of each item."""

    def ask(self, rows: Rows) -> None:
        """Ask for the fields of some items that `positions` is going to be called with."""
        new = distinct(rows[self._known(rows) < 0])
        if len(new):
            self._asked.append(self._source.execute(_FIELDS, rows=RowNumbers(new)))

    def positions(self, rows: Rows) -> Positions:
        """Return the position of each row; -1 for one that is not there."""
        while self._asked:
            self._add(self._asked.pop().fetchall())
        self.ask(rows)
        while self._asked:
            self._add(self._asked.pop().fetchall())
        return self._known(rows)

    def _known(self, rows: Rows) -> Positions:
        if not len(self._rows):
            return np.full(rows.shape, -1, dtype=np.int64)
        at = places_in(self._rows[self._order], rows)
        return np.where(at >= 0, self._order[at], -1)

    def _add(self, found: Sequence[tuple[Any, ...]]) -> None:
        if not found:
            return
        rows, *texts, time, length, cues, importance = zip(*found, strict=True)
        conversation, session, agent, user, speaker = texts
        new: dict[str, Sequence[Any]] = {
            "thread": [thread_of(*each) for each in zip(conversation, session, agent, user, strict=True)],
            "time": time,
            "length": length,
            "cues": cues,
            "importance": [value or 0.0 for value in importance],
        }
        self._texts += zip(conversation, user, speaker, strict=True)
        for name, kind in _TYPES.items():
            self._columns[name] = np.append(self._columns[name], np.array(new[name], dtype=kind))
        self._rows = np.append(self._rows, np.array(rows, dtype=np.int64))
        self._order = np.argsort(self._rows)

    def rows(self, positions: Positions) -> Rows:
        """Return the rows at some positions."""
        return self._rows[positions]

    def column(self, name: str) -> NDArray[Any]:
        """Return a column, one value for each position; see `PostgresDocValues.column`."""
        return self._columns[name]

    def strings(self, name: str, positions: Positions) -> list[str | None]:
        """Return the conversation, user or speaker of each item at some positions."""
        at = _TEXTS.index(name)
        return [self._texts[position][at] for position in positions.tolist()]

    def _positions_of(self, found: Iterable[tuple[Any, ...]]) -> Positions:
        return self.positions(np.array([row for (row,) in found], dtype=np.int64))

    def with_cues(self, cues: int, admitted: Mask | None = None) -> Positions:  # noqa: ARG002 - it is the search's
        """Return the positions of those of the nearest items whose text has one of some cues."""
        query = _WITH_CUES if self._query is None else _NEAREST_WITH_CUES
        found = self._source.execute(query, cues=int(cues), query=self._query).fetchall()
        return self._positions_of(sorted(set(found)))

    def last_with_cues(self, cues: int, limit: int, admitted: Mask | None = None) -> Positions:  # noqa: ARG002
        """Return the positions of the last items with one of some cues, in the order of their times."""
        return self._positions_of(reversed(self._source.execute(_LAST, cues=int(cues), limit=limit).fetchall()))

    def in_period(self, start: float, end: float, limit: int, admitted: Mask | None = None) -> Positions:  # noqa: ARG002
        """Return the positions of the items of a time, in its order; of more than `limit`, an even spread."""
        query = _SPREAD.replace("{within}", _WITHIN)
        return self._positions_of(self._source.execute(query, start=start, end=end, limit=limit).fetchall())

    def in_session(self, place: int, now: float, limit: int, admitted: Mask | None = None) -> Positions:  # noqa: ARG002
        """Return the positions of the items of a session, in the order of their times; see `DocValuesReader`."""
        query = _SESSION_AT.replace("{order}", "ASC" if place >= 0 else "DESC")
        skipped = place if place >= 0 else -1 - place
        found = self._source.execute(query, place=place, now=now, running=RUNNING, skipped=skipped).fetchone()
        if found is None:
            return _NO_ROWS
        query = _SPREAD.replace("{within}", _IS_OF)
        cursor = self._source.execute(query, conversation=found[0], session=found[1], limit=limit)
        return self._positions_of(cursor.fetchall())

    def around(self, positions: Positions, reach: int, visible: Mask | None = None) -> list[Positions]:  # noqa: ARG002
        """Return the positions of the `reach` items before each in its conversation, then those after, nearest first.

        Returns:
            2 * `reach` arrays of the shape of `positions`; -1 stands for none.
        """
        found = [np.full(len(positions), -1, dtype=np.int64) for _ in range(2 * reach)]
        if not len(positions) or not (self.column("thread")[positions] != 0).any():
            return found
        rows, turns = self.rows(positions), dict[int, list[int]]()
        named = np.array([each is not None for each in self.strings("conversation", positions)], dtype=np.bool_)
        cursors = []
        for (key, other), some in zip(_KEYS.items(), (rows[named], rows[~named]), strict=True):
            if len(some):
                query = _NEIGHBORS.replace("{same}", _SAME.format(key=key, other=other))
                cursors.append(self._source.execute(query, rows=RowNumbers(some), reach=reach))
        for row, turn in (pair for cursor in cursors for pair in cursor.fetchall()):
            turns.setdefault(row, []).append(turn)
        every = np.array(sorted({row for each in turns.values() for row in each}), dtype=np.int64)
        places = dict(zip(every.tolist(), self.positions(every).tolist(), strict=True))
        for at, row in enumerate(rows.tolist()):
            before = sorted((each for each in turns.get(row, ()) if each < row), reverse=True)
            after = sorted(each for each in turns.get(row, ()) if each > row)
            for first, side in ((0, before), (reach, after)):
                for step, each in enumerate(side, first):
                    found[step][at] = places[each]
        return found
