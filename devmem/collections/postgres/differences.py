"""The difference between two states of a store."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from devmem.collections.postgres import rows, runs
from devmem.collections.postgres.database import Connection, composed
from devmem.collections.postgres.shown import current_items, items_as_of, items_of_run, text_sql
from devmem.collections.postgres.texts import stored_text
from devmem.collections.postgres.written_runs import TOUCHED, span
from devmem.collections.recorded import recorded
from devmem.model.items import MemoryItem
from devmem.model.version_hash import version_hash
from devmem.model.versions import ItemDifference, RunState

_DIFFERING: Final = (
    "WITH earlier AS ({before}), later AS ({after}) SELECT earlier.row, later.row FROM earlier "
    "FULL JOIN later USING (id_key) WHERE earlier.row IS DISTINCT FROM later.row"
)


class Differences:
    """Compares states of a store within one transaction."""

    def __init__(self, connection: Connection, store: int, location: str, schema: str) -> None:
        """Take the connection and the store, whose `location` is for errors and whose tables are in `schema`."""
        self._connection, self._store, self._location, self._schema = connection, store, location, schema

    def read(self, before: float | str, after: float | str | None) -> list[ItemDifference]:
        """Return the items that differ between two states, in the order of their ids.

        Args:
            before: a time in seconds since the epoch, or a run: the state that it left.
            after: likewise; None is the current state after a time, and what the run changed after a run.

        Raises:
            RunStateError: there is no such run, or it was discarded.
        """
        if isinstance(before, str) and after is None:
            states = self._around(before)
        else:
            states = self._state(before), self._current() if after is None else self._state(after)
        query = composed(_DIFFERING.format(before=states[0], after=states[1]))
        found = self._connection.execute(query).fetchall()
        items = self._items([row for pair in found for row in pair if row is not None])
        changed = (
            ItemDifference(before=items.get(one) if one else None, after=items.get(other) if other else None)
            for one, other in found
        )
        return sorted((each for each in changed if _differs(each)), key=lambda each: each.item_id)

    def _current(self) -> str:
        return current_items(self._schema, self._store)

    def _nothing(self) -> str:
        return f"{self._current()} AND false"

    def _as_of(self, at: int) -> str:
        return items_as_of(self._schema, self._store, at)

    def _of_run(self, run: str) -> str:
        return items_of_run(self._schema, self._store, run)

    def _state(self, point: float | str) -> str:
        """Return the query of the items at a time, or after a run."""
        return self._left_by(point) if isinstance(point, str) else self._as_of(recorded(point))

    def _left_by(self, run: str) -> str:
        """Return the query of the items as a run left them."""
        info = runs.read_run(self._connection, self._store, self._location, run)
        if info.state is RunState.PENDING:
            return self._of_run(run)
        runs.require(self._location, info, RunState.COMMITTED, RunState.REVERTED)
        query = "SELECT committed_at FROM runs WHERE store = %s AND run = %s"
        found = self._connection.execute(query, (self._store, stored_text(run))).fetchone()
        times = (found[0], found[0]) if found is not None else span(self._connection, self._store, run)
        return self._nothing() if times is None else self._as_of(times[1])

    def _around(self, run: str) -> tuple[str, str]:
        """Return the queries of the items that a run changed, before it and after it."""
        info = runs.read_run(self._connection, self._store, self._location, run)
        if info.state is RunState.PENDING:
            return self._current(), self._of_run(run)
        runs.require(self._location, info, RunState.COMMITTED, RunState.REVERTED)
        times = span(self._connection, self._store, run)
        if times is None:
            return self._nothing(), self._nothing()
        # Where the changes of the run were seen at once, others may have changed other items between them.
        touched = TOUCHED % {"store": self._store, "run": text_sql(run)}
        before, after = (
            f"SELECT * FROM ({self._as_of(at)}) AS state WHERE id_key IN ({touched})" for at in (times[0] - 1, times[1])
        )
        return before, after

    def _items(self, wanted: Sequence[int]) -> dict[int, MemoryItem]:
        found: dict[int, MemoryItem] = {}
        for table in ("items", "versions"):
            query = composed(f"SELECT row, body FROM {table} WHERE store = %s AND row = ANY(%s)")
            rows_of_table = self._connection.execute(query, (self._store, list(wanted))).fetchall()
            found |= {row: rows.item_from(body) for row, body in rows_of_table}
        return found


def _differs(change: ItemDifference) -> bool:
    """Whether the two versions tell apart: one that was restored has another row."""
    before, after = change.before, change.after
    if before is None or after is None:
        return before is not after
    return version_hash(before) != version_hash(after)
