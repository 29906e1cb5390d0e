"""The changes that runs of a SQLite file made, as its versions tell."""

from __future__ import annotations

from typing import Final

from devmem.collections.reverting import RunChanges
from devmem.collections.sqlite.rows import read_text, sql_text
from devmem.collections.sqlite.runs import TOUCHED, SqliteRuns

_FIRST: Final = (
    "SELECT operation, recorded_from FROM (SELECT id, operation, recorded_from, change_run FROM items UNION ALL "
    "SELECT id, operation, recorded_from, change_run FROM versions WHERE recorded_until IS NOT NULL) "
    "WHERE id = ?1 AND change_run = ?2 ORDER BY recorded_from LIMIT 1"
)
_LAST_ENDED: Final = (
    "SELECT end_operation, end_run FROM versions WHERE id = ? AND recorded_until IS NOT NULL AND recorded_until <= ? "
    "ORDER BY recorded_until DESC LIMIT 1"
)
_WAS_REPLACED: Final = (
    "SELECT 1 FROM versions WHERE id = ?1 AND change_run = ?2 AND recorded_until IS NOT NULL AND end_run IS NOT ?2"
)
_REPLACED: Final = (
    "SELECT row FROM versions WHERE id = ?1 AND end_run = ?2 AND change_run IS NOT ?2 ORDER BY recorded_until LIMIT 2"
)
_DERIVED: Final = (
    "SELECT DISTINCT items.id FROM items, json_each(CASE WHEN json_valid(body) THEN body ELSE '{}' END, "
    "'$.provenance.parents') AS parent WHERE items.change_run IS NOT ?1 AND parent.atom IN ("
    "SELECT id FROM items WHERE change_run = ?1)"
)


class SqliteRunChanges(RunChanges[str]):
    """The changes that a run made; an item is known by its id as the tables have it."""

    def __init__(self, runs: SqliteRuns) -> None:
        """Take the runs of the file, whose connection is used."""
        super().__init__(runs)
        self._connection = runs.connection

    def _touched(self, run: str) -> list[str]:
        found = self._connection.execute(TOUCHED.format(run="?1"), (sql_text(run),)).fetchall()
        return [key for (key,) in found]

    def _derived(self, run: str) -> set[str]:
        return {self._name_of(key) for (key,) in self._connection.execute(_DERIVED, (sql_text(run),))}

    def _name_of(self, key: str) -> str:
        return read_text(key) or ""

    def _current(self, key: str) -> tuple[int, str | None] | None:
        found = self._connection.execute("SELECT row, change_run FROM items WHERE id = ?", (key,)).fetchone()
        return None if found is None else (found[0], read_text(found[1]))

    def _last_ended(self, key: str, before: int) -> tuple[str, str | None] | None:
        found = self._connection.execute(_LAST_ENDED, (key, before)).fetchone()
        return None if found is None else (found[0], read_text(found[1]))

    def _first(self, key: str, run: str) -> tuple[str | None, int] | None:
        found: tuple[str | None, int] | None = self._connection.execute(_FIRST, (key, sql_text(run))).fetchone()
        return found

    def _replaced(self, key: str, run: str) -> list[int]:
        return [row for (row,) in self._connection.execute(_REPLACED, (key, sql_text(run)))]

    def _was_replaced(self, key: str, run: str) -> bool:
        return self._connection.execute(_WAS_REPLACED, (key, sql_text(run))).fetchone() is not None
