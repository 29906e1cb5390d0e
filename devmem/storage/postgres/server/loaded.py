"""The items that one search has looked at: their fields and similarities, read as they are asked for."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from devmem.model.items import Vector
from devmem.search.indexes.columns import Mask, Positions, Rows, distinct, places_in, ranges
from devmem.search.indexes.doc_values import RUNNING, thread_of
from devmem.storage.postgres.database import Cursor, RowNumbers
from devmem.storage.postgres.follower import indexed_form
from devmem.storage.postgres.rows import of_item
from devmem.storage.postgres.schema import PASSAGE_BITS
from devmem.storage.postgres.server.admitted import Admitted
from devmem.storage.postgres.server.term_texts import of_store
from devmem.storage.postgres.server.vector_cache import AskedSimilarities, KnownVectors, Similarities

FIELD_COLUMNS: Final = (
    'row, conversation, session, agent, "user", speaker, COALESCE(event_time, created_at), length, cues, importance'
)
"""Columns of the table `items` that `ItemFields.add` takes."""
FieldRow: TypeAlias = tuple[
    int, str | None, str | None, str | None, str | None, str | None, float, int, int, float | None
]
_MOST_KEPT: Final = 50_000
"""Number of items whose fields are kept: some 30 MB with conversations, users and speakers."""
_TYPES: Final = {"thread": "<i8", "time": "<f8", "length": "<i4", "cues": "<u2", "importance": "<f4"}


class FieldCache:
    """Fields of the items that searches looked at last, of one generation of a store. Thread-safe.

    The fields of an item stay the same: what changes them makes a new row, or a new generation.
    """

    def __init__(self) -> None:
        self._known: dict[int, FieldRow] = {}

    def of(self, rows: Rows) -> list[FieldRow]:
        """Return those of the rows that are known."""
        known = self._known
        return [known[row] for row in rows.tolist() if row in known]

    def keep(self, found: Sequence[FieldRow]) -> None:
        """Remember rows that were read; when there are too many, start again with these."""
        if len(self._known) + len(found) > _MOST_KEPT:
            self._known = {}
        self._known.update((fields[0], fields) for fields in found)


class ItemFields:
    """Columns over items that are known by their row: those of `DocValues` that searches read."""

    def __init__(self) -> None:
        self._rows: Rows = np.empty(0, dtype=np.int64)
        self._order: Positions = np.empty(0, dtype=np.int64)
        self._columns: dict[str, NDArray[Any]] = {name: np.empty(0, dtype=kind) for name, kind in _TYPES.items()}
        self._speakers: list[str | None] = []
        self._users: list[str | None] = []
        self._conversations: list[str | None] = []

    def add(self, found: Sequence[FieldRow]) -> None:
        """Append items, none of which was added before."""
        if not found:
            return
        rows, *texts, time, length, cues, importance = zip(*found, strict=True)
        conversation, session, agent, user, speaker = map(_indexed_forms, texts)
        threads = list(map(thread_of, conversation, session, agent, user))
        new = {"thread": threads, "time": time, "length": length, "cues": cues}
        new["importance"] = [value or 0.0 for value in importance]
        self._rows = np.append(self._rows, np.array(rows, dtype=np.int64))
        self._order = np.argsort(self._rows)
        self._speakers += speaker
        self._users += user
        self._conversations += conversation
        for name, kind in _TYPES.items():
            self._columns[name] = np.append(self._columns[name], np.array(new[name], dtype=kind))

    def positions(self, rows: Rows) -> Positions:
        """Return the position of each row; -1 for one that was not added."""
        if not len(self._rows):
            return np.full(rows.shape, -1, dtype=np.int64)
        at = places_in(self._rows[self._order], rows)
        return np.where(at >= 0, self._order[at], -1)

    def rows(self, positions: Positions) -> Rows:
        """Return the rows at some positions."""
        return self._rows[positions]

    def column(self, name: str) -> NDArray[Any]:
        """Return a column, one value for each position; see `DocValues.column`."""
        return self._columns[name]

    def speakers(self, positions: Positions) -> list[str | None]:
        """Return the speaker of each item at some positions."""
        return [self._speakers[position] for position in positions.tolist()]

    def users(self, positions: Positions) -> list[str | None]:
        """Return the user of each item at some positions."""
        return [self._users[position] for position in positions.tolist()]

    def conversations(self, positions: Positions) -> list[str | None]:
        """Return the conversation of each item at some positions."""
        return [self._conversations[position] for position in positions.tolist()]


def _indexed_forms(column: Sequence[str | None]) -> list[str | None]:
    forms = {text: indexed_form(text) for text in set(column)}
    return [forms[text] for text in column]


_NO_ROWS: Final[Rows] = np.empty(0, dtype=np.int64)
_FIELDS: Final = f"SELECT {FIELD_COLUMNS} FROM items WHERE store = %(store)s AND row = ANY(%(rows)s)"
_THERE: Final = (
    "SELECT passages.passage FROM (SELECT row FROM items "
    "WHERE store = %(store)s AND row = ANY(%(rows)s) AND {condition} OFFSET 0) AS found CROSS JOIN "
    + of_item("passages", "passage", "found.row")
)
_KNOWN: Final = "SELECT passage FROM passages WHERE store = %(store)s AND passage = ANY(%(passages)s)"


@dataclass(frozen=True, slots=True, eq=False)
class _Asked:
    """Items that the server was asked for."""

    rows: Rows
    passages: Rows
    """Of those of the items that are admitted, in any order."""
    near: AskedSimilarities
    """Their similarities."""


class LoadedItems:
    """Items that a search found, all of them admitted by its filter. Used by one search, in one thread."""

    def __init__(
        self,
        admitted: Admitted,
        query: Vector | None,
        known: Callable[[Rows], Rows],
        fields: FieldCache,
        vectors: KnownVectors | None,
    ) -> None:
        """Start empty.

        Args:
            admitted: what the search may find.
            query: the query's vector, None where similarity does not count.
            known: returns the passages of some items, perhaps some that were deleted.
            fields: fields of items that the process keeps.
            vectors: vectors that it keeps; None where this search may not use them.
        """
        self._connection, self._store = admitted.connection, admitted.store
        self._admitted, self._known = admitted, known
        self.passages: Rows = _NO_ROWS
        """Their passages, ascending."""
        self._asked = _NO_ROWS
        self._similarities: NDArray[np.float64] = np.empty(0)
        self._expected: _Asked | None = None
        self._near = Similarities(admitted.connection, admitted.store, query, vectors)
        self._fields, self._field_cache = ItemFields(), fields
        self._expected_fields: Cursor | None = None

    def expect(self, rows: Rows) -> None:
        """Have the server read items that will probably be loaded, while the search goes on."""
        self._take_expected()
        self._expected = self._ask(self._not_asked(rows))

    def load(self, rows: Rows) -> None:
        """Read those of the items that were not asked for before; one that is not admitted or not there has nothing."""
        self._take_expected()
        new = self._not_asked(rows)
        if len(new):
            self._take(self._ask(new))

    def _not_asked(self, rows: Rows) -> Rows:
        return distinct(rows[places_in(self._asked, rows) < 0])

    def _take_expected(self) -> None:
        expected, self._expected = self._expected, None
        if expected is not None:
            self._take(expected)

    def _ask(self, rows: Rows) -> _Asked:
        admitted = rows[places_in(self._admitted.rows, rows) >= 0] if self._admitted.restricts else rows
        # An item's fields never change: what was admitted is, as long as it is there and does not expire.
        passages = self._there(admitted) if self._admitted.moment.expired else self._known(admitted)
        return _Asked(rows, passages, self._near.ask(passages))

    def _take(self, asked: _Asked) -> None:
        """Wait for what the server was asked for, and add it to what is loaded."""
        there, near = asked.passages, self._near.read(asked.near)
        if not self._admitted.moment.expired:
            # A vector is deleted with its passage; of what has none it is not known whether it is there.
            kept = ~np.isnan(near)
            kept[~kept] = self._are_there(there[~kept])
            there, near = there[kept], near[kept]
        self._asked = np.sort(np.concatenate([self._asked, asked.rows]))
        passages = np.concatenate([self.passages, there])
        order = np.argsort(passages)
        self.passages = passages[order]
        self._similarities = np.concatenate([self._similarities, near])[order]

    def _there(self, rows: Rows) -> Rows:
        """Return the passages of those of the items that are there and admitted, in any order."""
        condition, values = self._admitted.named()
        return self._passages(_THERE.replace("{condition}", condition), {"rows": RowNumbers(rows), **values})

    def _are_there(self, passages: Rows) -> NDArray[np.bool_]:
        """Return for each passage whether it is there."""
        if not len(passages):
            return np.empty(0, dtype=np.bool_)
        return np.isin(passages, self._passages(_KNOWN, {"passages": RowNumbers(passages)}))

    def _passages(self, query: str, parameters: Mapping[str, object]) -> Rows:
        found = self._connection.execute(of_store(query, self._store), parameters, binary=True).fetchall()
        return np.array([passage for (passage,) in found], dtype=np.int64)

    def expect_fields(self, rows: Rows) -> None:
        """Have the server read the fields of items that `fields_of` will be asked for, while the search goes on."""
        if self._expected_fields is not None:
            # Another search may have put some of those that it reads into the cache meanwhile.
            return
        self._fields.add(self._field_cache.of(self._without_fields(rows)))
        new = self._without_fields(rows)
        if len(new):
            query = of_store(_FIELDS, self._store)
            self._expected_fields = self._connection.execute(query, {"rows": RowNumbers(new)}, binary=True)

    def _without_fields(self, rows: Rows) -> Rows:
        return distinct(rows[self._fields.positions(rows) < 0])

    def fields_of(self, rows: Rows) -> ItemFields:
        """Return the fields of at least those of some items that are there."""
        self._take_expected_fields()
        self.expect_fields(rows)
        self._take_expected_fields()
        return self._fields

    def _take_expected_fields(self) -> None:
        cursor, self._expected_fields = self._expected_fields, None
        if cursor is not None:
            found = cursor.fetchall()
            self._field_cache.keep(found)
            self._fields.add(found)

    @property
    def fields(self) -> ItemFields:
        """Fields of the items that `fields_of` was asked for."""
        return self._fields

    def are_admitted(self, rows: Rows) -> NDArray[np.bool_]:
        """Return for each row whether it is there and admitted."""
        self.load(rows)
        return places_in(self.passages >> PASSAGE_BITS, rows) >= 0

    def similarities(self, passages: Rows) -> NDArray[np.float64]:
        """Return the cosine of the query and some passages; NaN for one without a vector, or that is not there."""
        self.load(passages >> PASSAGE_BITS)
        at = places_in(self.passages, passages)
        found = np.full(len(passages), np.nan)
        found[at >= 0] = self._similarities[at[at >= 0]]
        return found


_STANDING: Final = 200
"""Maximum number of instructions and preferences that are looked at, the nearest to the query."""
_NEIGHBORS: Final = """
SELECT own.row, turn.row FROM unnest(%(rows)s::bigint[]) AS at(row)
JOIN items AS own ON own.store = %(store)s AND own.row = at.row
CROSS JOIN LATERAL (
    (SELECT row FROM items WHERE store = %(store)s AND {same} AND row < own.row AND {condition}
        ORDER BY row DESC LIMIT %(reach)s)
    UNION ALL
    (SELECT row FROM items WHERE store = %(store)s AND {same} AND row > own.row AND {condition}
        ORDER BY row LIMIT %(reach)s)
) AS turn
WHERE own.{key} IS NOT NULL {alone}
"""
_SAME: Final = (
    '{key} = own.{key} AND {other} AND agent IS NOT DISTINCT FROM own.agent AND "user" IS NOT DISTINCT FROM own."user"'
)
_KEYS: Final = {
    "conversation": ("session IS NOT DISTINCT FROM own.session", ""),
    "session": ("conversation IS NULL", "AND own.conversation IS NULL"),
}
"""A conversation is found by its name, and by its session where it has none."""
_WITH_CUES: Final = "SELECT row FROM items WHERE store = %(store)s AND cues & %(cues)s <> 0 AND {condition}"
_LAST: Final = f"{_WITH_CUES} ORDER BY COALESCE(event_time, created_at) DESC, row DESC LIMIT %(limit)s"
_IN_PERIOD: Final = """
SELECT row FROM (
    SELECT row, row_number() OVER (ORDER BY happened, row) - 1 AS at, count(*) OVER () AS total FROM (
        SELECT row, COALESCE(event_time, created_at) AS happened FROM items
        WHERE store = %(store)s AND {within} AND {condition}
    ) AS found
) AS numbered WHERE total <= %(limit)s OR at * %(limit)s / total > (at - 1) * %(limit)s / total ORDER BY at
"""
"""Rows in the order of their times; of more than the limit, an even spread."""
_WITHIN: Final = "COALESCE(event_time, created_at) >= %(start)s AND COALESCE(event_time, created_at) < %(end)s"
_IS_OF: Final = "conversation IS NOT DISTINCT FROM %(conversation)s AND session IS NOT DISTINCT FROM %(session)s"
_SESSION_AT: Final = """
SELECT conversation, session FROM items
WHERE store = %(store)s AND (conversation IS NOT NULL OR session IS NOT NULL) AND {condition}
GROUP BY conversation, session
HAVING %(place)s >= 0 OR max(COALESCE(event_time, created_at)) <= %(now)s - %(running)s
    OR max(COALESCE(event_time, created_at)) > %(now)s
ORDER BY min(COALESCE(event_time, created_at)) {order} LIMIT 1 OFFSET %(skipped)s
"""
_NEAREST: Final = (
    f"SELECT found.row FROM ({_WITH_CUES}) AS found CROSS JOIN {of_item('vectors', 'vector', 'found.row')} "
    f"ORDER BY vector <#> %(query)s LIMIT {_STANDING}"
)


class ServerDocValues:
    """Fields of items by position; see `DocValuesReader`. An item has a position once it was asked for."""

    def __init__(
        self, admitted: Admitted, loaded: LoadedItems, query: Vector | None, *, has_conversations: bool
    ) -> None:
        """Show the admitted items; `query` is the query's vector, None where similarity does not count."""
        self._connection, self._store = admitted.connection, admitted.store
        self._admitted, self._loaded, self._query = admitted, loaded, query
        self.has_conversations = has_conversations
        """Whether any item is of a conversation."""

    def positions(self, rows: Rows) -> Positions:
        """Return the position of each row; -1 for one that is not there."""
        return self._loaded.fields_of(rows).positions(rows)

    def rows(self, positions: Positions) -> Rows:
        """Return the rows at some positions."""
        return self._loaded.fields.rows(positions)

    def column(self, name: str) -> NDArray[Any]:
        """Return a column, one value for each position; see `DocValues.column`."""
        return self._loaded.fields.column(name)

    def speakers(self, positions: Positions) -> list[str | None]:
        """Return the speaker of each item at some positions."""
        return self._loaded.fields.speakers(positions)

    def users(self, positions: Positions) -> list[str | None]:
        """Return the user of each item at some positions."""
        return self._loaded.fields.users(positions)

    def conversations(self, positions: Positions) -> list[str | None]:
        """Return the conversation of each item at some positions."""
        return self._loaded.fields.conversations(positions)

    def with_cues(self, cues: int, admitted: Mask | None = None) -> Positions:  # noqa: ARG002 - it is the search's
        """Return the positions of those of the nearest items whose text has one of some cues."""
        parameters = {"cues": int(cues), "query": self._query}
        found = self._fetch(_WITH_CUES if self._query is None else _NEAREST, parameters)
        return self.positions(np.unique(np.array([row for (row,) in found], dtype=np.int64)))

    def last_with_cues(self, cues: int, limit: int, admitted: Mask | None = None) -> Positions:  # noqa: ARG002
        """Return the positions of the last items with one of some cues, in the order of their times."""
        found = self._fetch(_LAST, {"cues": int(cues), "limit": limit})
        return self.positions(np.array([row for (row,) in reversed(found)], dtype=np.int64))

    def in_period(self, start: float, end: float, limit: int, admitted: Mask | None = None) -> Positions:  # noqa: ARG002
        """Return the positions of the items of a time, in its order; of more than `limit`, an even spread."""
        return self._spread(_WITHIN, {"start": start, "end": end, "limit": limit})

    def in_session(self, place: int, now: float, limit: int, admitted: Mask | None = None) -> Positions:  # noqa: ARG002
        """Return the positions of the items of a session, in the order of their times; see `DocValuesReader`."""
        query = _SESSION_AT.replace("{order}", "ASC" if place >= 0 else "DESC")
        skipped = place if place >= 0 else -1 - place
        found = self._fetch(query, {"place": place, "now": now, "running": RUNNING, "skipped": skipped})
        if not found:
            return _NO_ROWS
        conversation, session = found[0]
        return self._spread(_IS_OF, {"conversation": conversation, "session": session, "limit": limit})

    def _spread(self, within: str, parameters: dict[str, Any]) -> Positions:
        found = self._fetch(_IN_PERIOD.replace("{within}", within), parameters)
        return self.positions(np.array([row for (row,) in found], dtype=np.int64))

    def around(self, positions: Positions, reach: int, visible: Mask | None = None) -> list[Positions]:  # noqa: ARG002
        """Return the positions of the `reach` items before each in its conversation, then those after, nearest first.

        Returns:
            2 * `reach` arrays of the shape of `positions`; -1 stands for none.
        """
        found = [np.full(len(positions), -1, dtype=np.int64) for _ in range(2 * reach)]
        if not len(positions) or not (self.column("thread")[positions] != 0).any():
            return found
        rows = self.rows(positions)
        turns = self._turns_around(rows, reach)
        around = np.array(sorted({row for each in turns.values() for row in each}), dtype=np.int64)
        places = dict(zip(around.tolist(), self.positions(around).tolist(), strict=True))
        for at, row in enumerate(rows.tolist()):
            before = sorted((each for each in turns.get(row, ()) if each < row), reverse=True)
            after = sorted(each for each in turns.get(row, ()) if each > row)
            for first, side in ((0, before), (reach, after)):
                for step, each in enumerate(side, first):
                    found[step][at] = places[each]
        return found

    def _turns_around(self, rows: Rows, reach: int) -> dict[int, list[int]]:
        """Return the rows around each row that is of a conversation."""
        turns: dict[int, list[int]] = {}
        parameters = {"rows": RowNumbers(rows), "reach": reach}
        for key, (other, alone) in _KEYS.items():
            same = _SAME.format(key=key, other=other)
            query = _NEIGHBORS.replace("{same}", same).replace("{key}", key).replace("{alone}", alone)
            for row, turn in self._fetch(query, parameters):
                turns.setdefault(row, []).append(turn)
        return turns

    def _fetch(self, query: str, parameters: dict[str, Any]) -> list[tuple[Any, ...]]:
        condition, values = self._admitted.named()
        completed = query.replace("{condition}", condition)
        return self._connection.execute(
            of_store(completed, self._store), {**parameters, **values}, binary=True
        ).fetchall()


class ServerPassageMap:
    """Which passages an item has; see `PassageMapReader`."""

    singles = False
    """Nobody counted whether some item has more than one."""

    def __init__(self, loaded: LoadedItems) -> None:
        """Read through the items of a search."""
        self._loaded = loaded

    def rows_of(self, passages: Rows) -> Rows:
        """Return the row of each passage."""
        return passages >> PASSAGE_BITS

    def passages_of(self, rows: Rows) -> tuple[Rows, Rows]:
        """Return the passages of some rows, in their order, and for each passage its row's place in `rows`."""
        self._loaded.load(rows)
        known = self._loaded.passages
        starts, ends = (np.searchsorted(known, bound << PASSAGE_BITS) for bound in (rows, rows + 1))
        counts = ends - starts
        return known[ranges(starts, counts)], np.repeat(np.arange(len(rows)), counts)

    def all_passages_of(self, rows: Rows) -> Rows:
        """Return the passages of some rows, in ascending order."""
        return self.passages_of(np.sort(rows))[0]
