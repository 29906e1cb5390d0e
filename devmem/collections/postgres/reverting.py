"""The changes that runs of a PostgreSQL store made, as its versions tell."""

from __future__ import annotations

from typing import Final
from uuid import UUID

from devmem.collections.postgres import rows
from devmem.collections.postgres.erasing import PARENTS
from devmem.collections.postgres.runs import PostgresRuns
from devmem.collections.postgres.shown import RECORDED_FROM
from devmem.collections.postgres.texts import read_text, stored_text
from devmem.collections.reverting import RunChanges

_OF_KEY: Final = "store = %(store)s AND id_key = %(key)s"
_FIRST: Final = f"""
SELECT operation, recorded_from FROM (
    SELECT operation, {RECORDED_FROM} AS recorded_from FROM items WHERE {_OF_KEY} AND change_run = %(run)s
    UNION ALL SELECT operation, recorded_from FROM versions
    WHERE {_OF_KEY} AND change_run = %(run)s AND recorded_until IS NOT NULL
) AS changes ORDER BY recorded_from LIMIT 1
"""
_LAST_ENDED: Final = (
    f"SELECT end_operation, end_run FROM versions WHERE {_OF_KEY} "
    "AND recorded_until <= %(before)s ORDER BY recorded_until DESC LIMIT 1"
)
_WAS_REPLACED: Final = (
    f"SELECT 1 FROM versions WHERE {_OF_KEY} AND change_run = %(run)s "
    "AND recorded_until IS NOT NULL AND end_run IS DISTINCT FROM %(run)s"
)
_REPLACED: Final = (
    f"SELECT row FROM versions WHERE {_OF_KEY} AND end_run = %(run)s "
    "AND change_run IS DISTINCT FROM %(run)s ORDER BY recorded_until LIMIT 2"
)
_NAME: Final = f"SELECT id FROM items WHERE {_OF_KEY} UNION SELECT id FROM versions WHERE {_OF_KEY} LIMIT 1"
_WITH_PARENTS: Final = (
    "SELECT body FROM items WHERE store = %(store)s AND change_run IS DISTINCT FROM %(run)s "
    "AND strpos(body, %(parents)s) > 0"
)


class PostgresRunChanges(RunChanges[UUID]):
    """The changes that a run made; an item is known by its key."""

    def __init__(self, runs: PostgresRuns) -> None:
        """Take the runs of the store, whose connection is used."""
        super().__init__(runs)
        self._runs = runs

    def _touched(self, run: str) -> list[UUID]:
        return self._runs.touched(run)

    def _derived(self, run: str) -> set[str]:
        name = stored_text(run)
        written = self._runs.fetch("SELECT id FROM items WHERE store = %(store)s AND change_run = %(run)s", run=name)
        ids = {read_text(each) for (each,) in written}
        if not ids:
            return set()
        found = (rows.item_from(body) for (body,) in self._runs.fetch(_WITH_PARENTS, run=name, parents=PARENTS))
        return {item.id for item in found if not ids.isdisjoint(item.provenance.parents)}

    def _name_of(self, key: UUID) -> str:
        ((name,),) = self._runs.fetch(_NAME, key=key)
        return read_text(name) or ""

    def _current(self, key: UUID) -> tuple[int, str | None] | None:
        found = self._runs.fetch(f"SELECT row, change_run FROM items WHERE {_OF_KEY}", key=key)
        return (found[0][0], read_text(found[0][1])) if found else None

    def _last_ended(self, key: UUID, before: int) -> tuple[str, str | None] | None:
        found = self._runs.fetch(_LAST_ENDED, key=key, before=before)
        return (found[0][0], read_text(found[0][1])) if found else None

    def _first(self, key: UUID, run: str) -> tuple[str | None, int] | None:
        found = self._runs.fetch(_FIRST, key=key, run=stored_text(run))
        return (found[0][0], found[0][1]) if found else None

    def _replaced(self, key: UUID, run: str) -> list[int]:
        return [row for (row,) in self._runs.fetch(_REPLACED, key=key, run=stored_text(run))]

    def _was_replaced(self, key: UUID, run: str) -> bool:
        return bool(self._runs.fetch(_WAS_REPLACED, key=key, run=stored_text(run)))
