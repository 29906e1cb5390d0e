"""Reverting a committed run: its changes are undone by changes that follow them."""

from __future__ import annotations

import sqlite3
from typing import Final

from devmem.collections.recorded import Ending, seconds
from devmem.collections.reverting import RunChange, check_revertible, undoing
from devmem.collections.sqlite import rows, runs
from devmem.collections.sqlite.integrity import DamagedRows
from devmem.collections.sqlite.recorder import CurrentRecorder
from devmem.collections.sqlite.written_runs import TOUCHED, span
from devmem.errors import RunStateError
from devmem.model.acting import current_actor
from devmem.model.versions import Operation, RunInfo, RunState

_OF_ITEM: Final = (
    "SELECT operation, recorded_from FROM (SELECT id, operation, recorded_from, change_run FROM items UNION ALL "
    "SELECT id, operation, recorded_from, change_run FROM versions WHERE recorded_until IS NOT NULL) "
    "WHERE id = ?1 AND change_run = ?2 ORDER BY recorded_from LIMIT 1"
)
"""Selects the first change that a run made to an item."""
_LAST: Final = (
    "SELECT end_operation, end_run FROM versions WHERE id = ? AND recorded_until IS NOT NULL AND recorded_until <= ? "
    "ORDER BY recorded_until DESC LIMIT 1"
)
_ENDED_BY_OTHERS: Final = (
    "SELECT 1 FROM versions WHERE id = ?1 AND change_run = ?2 AND recorded_until IS NOT NULL AND end_run IS NOT ?2"
)
_REPLACED: Final = (
    "SELECT row FROM versions WHERE id = ?1 AND end_run = ?2 AND change_run IS NOT ?2 ORDER BY recorded_until LIMIT 2"
)
"""Selects the versions of others that the run replaced; a second one shows that they wrote in between."""
_DERIVED: Final = (
    "SELECT DISTINCT items.id FROM items, json_each(CASE WHEN json_valid(body) THEN body ELSE '{}' END, "
    "'$.provenance.parents') AS parent WHERE items.change_run IS NOT ?1 AND parent.atom IN ("
    "SELECT id FROM items WHERE change_run = ?1)"
)
"""Selects the items that were derived, by others, from what the run wrote."""
_FOREVER: Final = 1 << 62
"""Later than every recorded time."""


def conflicts(connection: sqlite3.Connection, location: str, info: RunInfo) -> list[str]:
    """Return the ids of the items that build on what a committed run wrote.

    Raises:
        RunStateError: the run is not committed, or what it replaced is not kept any more.
    """
    return _plan(connection, location, info)[1]


def _plan(connection: sqlite3.Connection, location: str, info: RunInfo) -> tuple[list[RunChange], list[str]]:
    """Return what a committed run did, and the ids of the items that build on it."""
    runs.require(location, info, RunState.COMMITTED)
    name = rows.sql_text(info.run)
    touched = connection.execute(TOUCHED.format(run="?1"), (name,)).fetchall()
    changes = {item_id: _change(connection, location, item_id, info.run) for (item_id,) in touched}
    found = {item_id for item_id, change in changes.items() if change is None}
    found |= {item_id for (item_id,) in connection.execute(_DERIVED, (name,))}
    return [change for change in changes.values() if change is not None], sorted(found)


def revert(recorder: CurrentRecorder, location: str, run: str, damaged: DamagedRows) -> None:
    """Undo a run within the recorder's transaction.

    Raises:
        RunConflictError: later versions build on what the run wrote; nothing was changed.
        RunStateError: the run is not committed, or what it replaced is not kept any more.
        CollectionDamagedError: what it replaced cannot be read.
    """
    connection = recorder.connection
    info = runs.read_run(connection, location, run)
    changes, conflicts = _plan(connection, location, info)
    times = span(connection, run)
    is_kept = times is None or recorder.keeps_since(times[0])
    check_revertible(location, info, conflicts, is_kept=is_kept)
    runs.record(connection, info)
    runs.begin(connection, location, undoing(run), current_actor().name, seconds(recorder.at))
    for change in changes:
        _undo(recorder, location, change, undoing(run), damaged)
    runs.end(connection, run, RunState.REVERTED, recorder.at)
    runs.end(connection, undoing(run), RunState.COMMITTED, recorder.at)


def _change(connection: sqlite3.Connection, location: str, item_id: str, run: str) -> RunChange | None:
    """Return what a run did to an item; None where others changed it since.

    Raises:
        RunStateError: what the run replaced is not kept any more.
    """
    name = rows.sql_text(run)
    current = connection.execute("SELECT row, change_run FROM items WHERE id = ?", (item_id,)).fetchone()
    last = connection.execute(_LAST, (item_id, _FOREVER)).fetchone()
    if (current is not None and current[1] != name) or (current is None and (last is None or last[1] != name)):
        return None
    replaced = connection.execute(_REPLACED, (item_id, name)).fetchall()
    if len(replaced) > 1 or connection.execute(_ENDED_BY_OTHERS, (item_id, name)).fetchone() is not None:
        return None
    if not replaced and _lost(connection, item_id, name):
        raise RunStateError(
            location, run, "committed", f"the version of {item_id!r} that it replaced is not kept any more"
        )
    return RunChange(
        left=None if current is None else current[0],
        replaced=replaced[0][0] if replaced else None,
    )


def _lost(connection: sqlite3.Connection, item_id: str, run: str | None) -> bool:
    """Whether a run's first change of an item replaced a version, although none is kept."""
    first = connection.execute(_OF_ITEM, (item_id, run)).fetchone()
    if first is None or first[0] in (None, Operation.ADD.value):
        return False
    # What was restored had been deleted before, or replaced what is not kept.
    before = connection.execute(_LAST, (item_id, first[1])).fetchone()
    return before is None or before[0] != Operation.FORGET.value


def _undo(recorder: CurrentRecorder, location: str, change: RunChange, run: str, damaged: DamagedRows) -> None:
    if change.left is not None:
        operation = Operation.FORGET if change.replaced is None else Operation.RESTORE
        recorder.end("row = ?", [change.left], Ending(operation=operation, run=run))
    if change.replaced is not None:
        runs.put_back(recorder, location, change.replaced, Operation.RESTORE, damaged)
