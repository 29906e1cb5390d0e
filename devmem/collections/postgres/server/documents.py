"""Fields of the items that a search looks at, and the turns around them in their conversations."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from devmem.collections.postgres.parameters import RowNumbers
from devmem.collections.postgres.schema import PASSAGE_BITS
from devmem.collections.postgres.server.admitted import Admitted
from devmem.collections.postgres.server.loaded import LoadedItems
from devmem.collections.postgres.server.planning import of_item, of_store
from devmem.indexes.row_column import Mask, Rows
from devmem.indexes.top_k import Positions
from devmem.model.items import Vector
from devmem.ranking.groups import ranges

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

    def with_cues(self, cues: int, admitted: Mask | None = None) -> Positions:  # noqa: ARG002 - it is the search's
        """Return the positions of those of the nearest items whose text has one of some cues."""
        parameters = {"cues": int(cues), "query": self._query}
        found = self._fetch(_WITH_CUES if self._query is None else _NEAREST, parameters)
        return self.positions(np.unique(np.array([row for (row,) in found], dtype=np.int64)))

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
