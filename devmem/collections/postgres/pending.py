"""Pending runs: what they write is kept with the versions, and seen by the run alone, until it is committed.

On the connections of a run's view `items` means what the run sees; see `shown.py`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final
from uuid import UUID

from devmem.collections.postgres import rows
from devmem.collections.postgres.database import Connection, composed
from devmem.collections.postgres.inserting import NewItem, Origin, insert_items
from devmem.collections.postgres.recorder import FORGOTTEN, remove_versions
from devmem.collections.postgres.rows import KEPT
from devmem.collections.postgres.texts import stored_text
from devmem.collections.recorded import Ending
from devmem.model.acting import current_actor
from devmem.model.versions import Operation

OF_RUN: Final = "change_run = %s AND recorded_until IS NULL"
"""Selects the versions of a pending run."""
_BASES: Final = f"SELECT id_key, row, base FROM versions WHERE store = %s AND {OF_RUN} AND "
_HIDE: Final = (
    f"INSERT INTO versions(store, row, {rows.ITEM_COLUMNS}, operation, change_run, change_actor, base) "
    f"SELECT store, nextval('row_numbers'), {rows.ITEM_COLUMNS}, '{Operation.FORGET.value}', %s, %s, row FROM items "
    "WHERE store = %s AND row = ANY(%s)"
)


class RunRecorder:
    """Changes the items that a pending run sees; see `Recorder`. Used on connections of the run's view."""

    def __init__(self, connection: Connection, store: int, run: str) -> None:
        self.connection, self.store, self.removed = connection, store, 0
        self._run, self._actor = run, current_actor().name

    def tick(self, keys: Sequence[UUID]) -> None:
        """Do nothing: what a run writes is recorded when it is committed."""

    def insert(self, new: Sequence[NewItem]) -> list[int]:
        """Insert versions of the run in the place of those that it has of the items."""
        keys = [rows.key_of(one.item.id) for one in new]
        bases = self._take_back("id_key = ANY(%s)", keys)
        return insert_items(self.connection, self.store, new, [self._origin(bases.get(key)) for key in keys], KEPT)

    def _origin(self, base: int | None) -> Origin:
        operation = Operation.ADD if base is None else Operation.UPDATE
        return Origin(operation.value, self._run, self._actor, base)

    def end(self, condition: str, values: Sequence[object], ending: Ending) -> int:  # noqa: ARG002 - decided on commit
        """Hide items from the run."""
        query = composed(f"SELECT row FROM items WHERE store = %s AND ({condition})")
        found = {row for (row,) in self.connection.execute(query, (self.store, *values))}
        if not found:
            return 0
        mine = f"SELECT row FROM versions WHERE store = %s AND {OF_RUN} AND row = ANY(%s)"
        own = {
            row for (row,) in self.connection.execute(composed(mine), (self.store, stored_text(self._run), list(found)))
        }
        bases = self._take_back("row = ANY(%s)", list(own)) if own else {}
        hidden = [*(found - own), *(base for base in bases.values() if base is not None)]
        names = stored_text(self._run), stored_text(self._actor)
        self.connection.execute(composed(_HIDE), (*names, self.store, hidden))
        self.connection.execute(
            "INSERT INTO changes(store, row, kind) SELECT %s, row, 'hidden' FROM unnest(%s::bigint[]) AS row",
            (self.store, hidden),
        )
        return len(found)

    def remove(self, condition: str, values: Sequence[object]) -> int:
        """Hide items from the run."""
        return self.end(condition, values, FORGOTTEN)

    def purge(self) -> None:
        """Do nothing: what others see is not the run's to remove."""

    def _take_back(self, condition: str, wanted: Sequence[object]) -> dict[UUID, int | None]:
        """Remove versions of the run; return the rows of the items that they replace, by their keys."""
        values = (self.store, stored_text(self._run), list(wanted))
        found = self.connection.execute(composed(_BASES + condition), values).fetchall()
        if found:
            remove_versions(self.connection, self.store, "row = ANY(%s)", [[row for _, row, _ in found]])
        return {key: base for key, _, base in found}
