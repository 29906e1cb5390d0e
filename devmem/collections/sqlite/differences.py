"""The difference between two states of a database."""

from __future__ import annotations

import sqlite3
from typing import Final

from devmem.collections.recorded import recorded
from devmem.collections.sqlite import rows, runs
from devmem.collections.sqlite.integrity import DamagedRows
from devmem.collections.sqlite.pending import items_of_run
from devmem.collections.sqlite.view import COLUMNS, items_as_of
from devmem.collections.sqlite.written_runs import TOUCHED, name_sql, span
from devmem.model.items import MemoryItem
from devmem.model.version_hash import version_hash
from devmem.model.versions import ItemDifference, RunState

_NOW: Final = f"SELECT {COLUMNS}, recorded_from FROM main.items"
_NOTHING: Final = f"{_NOW} WHERE false"
_DIFFERING: Final = (
    "WITH earlier AS ({before}), later AS ({after}) "
    "SELECT earlier.row, later.row FROM earlier LEFT JOIN later USING (id) WHERE later.row IS NOT earlier.row "
    "UNION ALL SELECT NULL, later.row FROM later LEFT JOIN earlier USING (id) WHERE earlier.row IS NULL"
)


def read_differences(
    connection: sqlite3.Connection, location: str, before: float | str, after: float | str | None, damaged: DamagedRows
) -> list[ItemDifference]:
    """Return the items that differ between two states, in the order of their ids.

    Args:
        connection: in a transaction.
        location: of the collection, for errors.
        before: a time in seconds since the epoch, or a run: the state that it left.
        after: likewise; None is the current state after a time, and what the run changed after a run.
        damaged: records the rows that are left out.

    Raises:
        RunStateError: there is no such run, or it was discarded.
    """
    if isinstance(before, str) and after is None:
        states = _around(connection, location, before)
    else:
        states = _state(connection, location, before), _NOW if after is None else _state(connection, location, after)
    found = connection.execute(_DIFFERING.format(before=states[0], after=states[1])).fetchall()
    changed = (
        ItemDifference(before=_item(connection, one, damaged), after=_item(connection, other, damaged))
        for one, other in found
    )
    return sorted((each for each in changed if _differs(each)), key=lambda each: each.item_id)


def _differs(change: ItemDifference) -> bool:
    """Whether the two versions tell apart: one that was restored has another row."""
    before, after = change.before, change.after
    if before is None or after is None:
        return before is not after
    return version_hash(before) != version_hash(after)


def _state(connection: sqlite3.Connection, location: str, point: float | str) -> str:
    """Return the query of the items at a time, or after a run."""
    if isinstance(point, str):
        return _left_by(connection, location, point)
    return items_as_of(recorded(point))


def _left_by(connection: sqlite3.Connection, location: str, run: str) -> str:
    """Return the query of the items as a run left them."""
    info = runs.read_run(connection, location, run)
    if info.state is RunState.PENDING:
        return items_of_run(run)
    runs.require(location, info, RunState.COMMITTED, RunState.REVERTED)
    found = connection.execute("SELECT committed_at FROM runs WHERE run = ?", (rows.sql_text(run),)).fetchone()
    times = (found[0], found[0]) if found is not None else span(connection, run)
    return _NOTHING if times is None else items_as_of(times[1])


def _around(connection: sqlite3.Connection, location: str, run: str) -> tuple[str, str]:
    """Return the queries of the items that a run changed, before it and after it."""
    info = runs.read_run(connection, location, run)
    if info.state is RunState.PENDING:
        return _NOW, items_of_run(run)
    runs.require(location, info, RunState.COMMITTED, RunState.REVERTED)
    times = span(connection, run)
    if times is None:
        return _NOTHING, _NOTHING
    # Where the changes of the run were seen at once, others may have changed other items between them.
    touched = TOUCHED.format(run=name_sql(run))
    before, after = (f"SELECT * FROM ({items_as_of(at)}) WHERE id IN ({touched})" for at in (times[0] - 1, times[1]))
    return before, after


def _item(connection: sqlite3.Connection, row: int | None, damaged: DamagedRows) -> MemoryItem | None:
    if row is None:
        return None
    query = "SELECT row, CAST(body AS BLOB), body_checksum FROM {} WHERE row = ?"
    for table in ("main.items", "main.versions"):
        if (found := connection.execute(query.format(table), (row,)).fetchone()) is not None:
            return rows.item_from_row(damaged, *found)
    return None
