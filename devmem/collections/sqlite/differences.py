"""The queries of the states of a SQLite file; see `Differences`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from devmem.collections.differences import Differences, States
from devmem.collections.sqlite import rows
from devmem.collections.sqlite.integrity import DamagedRows
from devmem.collections.sqlite.pending import items_of_run
from devmem.collections.sqlite.runs import TOUCHED, SqliteRuns
from devmem.collections.sqlite.view import COLUMNS, items_as_of
from devmem.model.items import MemoryItem

_NOW: Final = f"SELECT {COLUMNS}, recorded_from FROM main.items"
_DIFFERING: Final = (
    "WITH earlier AS ({before}), later AS ({after}) "
    "SELECT earlier.row, later.row FROM earlier LEFT JOIN later USING (id) WHERE later.row IS NOT earlier.row "
    "UNION ALL SELECT NULL, later.row FROM later LEFT JOIN earlier USING (id) WHERE earlier.row IS NULL"
)


class SqliteDifferences(Differences):
    """Compares states of a file within one transaction."""

    def __init__(self, runs: SqliteRuns, damaged: DamagedRows) -> None:
        """Take the runs of the file, whose connection is used, and where damaged rows are recorded."""
        super().__init__(runs)
        self._connection, self._damaged = runs.connection, damaged

    def _current(self) -> str:
        return _NOW

    def _nothing(self) -> str:
        return f"{_NOW} WHERE false"

    def _as_of(self, at: int) -> str:
        return items_as_of(at)

    def _of_run(self, run: str) -> str:
        return items_of_run(run)

    def _touched_by(self, run: str, items: str) -> str:
        return f"SELECT * FROM ({items}) WHERE id IN ({TOUCHED.format(run=rows.text_sql(run))})"

    def _differing(self, states: States) -> list[tuple[int | None, int | None]]:
        return self._connection.execute(_DIFFERING.format(before=states[0], after=states[1])).fetchall()

    def _items(self, numbers: Sequence[int]) -> dict[int, MemoryItem]:
        found = ((row, self._item(row)) for row in numbers)
        return {row: item for row, item in found if item is not None}

    def _item(self, row: int) -> MemoryItem | None:
        query = "SELECT row, CAST(body AS BLOB), body_checksum FROM {} WHERE row = ?"
        for table in ("main.items", "main.versions"):
            if (found := self._connection.execute(query.format(table), (row,)).fetchone()) is not None:
                return rows.item_from_row(self._damaged, *found)
        return None
