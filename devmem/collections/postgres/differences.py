"""The queries of the states of a PostgreSQL store; see `Differences`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from devmem.collections.differences import Differences, States
from devmem.collections.postgres import rows
from devmem.collections.postgres.database import composed
from devmem.collections.postgres.runs import TOUCHED, PostgresRuns
from devmem.collections.postgres.shown import current_items, items_as_of, items_of_run, text_sql
from devmem.model.items import MemoryItem

_DIFFERING: Final = (
    "WITH earlier AS ({before}), later AS ({after}) SELECT earlier.row, later.row FROM earlier "
    "FULL JOIN later USING (id_key) WHERE earlier.row IS DISTINCT FROM later.row"
)


class PostgresDifferences(Differences):
    """Compares states of a store within one transaction."""

    def __init__(self, runs: PostgresRuns, schema: str) -> None:
        """Take the runs of the store, whose connection is used, and the schema of its tables."""
        super().__init__(runs)
        self._connection, self._fetch = runs.connection, runs.fetch
        self._store, self._schema = runs.store, schema

    def _current(self) -> str:
        return current_items(self._schema, self._store)

    def _nothing(self) -> str:
        return f"{self._current()} AND false"

    def _as_of(self, at: int) -> str:
        return items_as_of(self._schema, self._store, at)

    def _of_run(self, run: str) -> str:
        return items_of_run(self._schema, self._store, run)

    def _touched_by(self, run: str, items: str) -> str:
        touched = TOUCHED % {"store": self._store, "run": text_sql(run)}
        return f"SELECT * FROM ({items}) AS state WHERE id_key IN ({touched})"

    def _differing(self, states: States) -> list[tuple[int | None, int | None]]:
        # Without values: a schema's name may have a percent sign.
        query = composed(_DIFFERING.format(before=states[0], after=states[1]))
        return self._connection.execute(query).fetchall()

    def _items(self, numbers: Sequence[int]) -> dict[int, MemoryItem]:
        found: dict[int, MemoryItem] = {}
        for table in ("items", "versions"):
            query = f"SELECT row, body FROM {table} WHERE store = %(store)s AND row = ANY(%(rows)s)"
            found |= {row: rows.item_from(body) for row, body in self._fetch(query, rows=list(numbers))}
        return found
