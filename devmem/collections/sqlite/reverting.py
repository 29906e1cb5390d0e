"""Reverting a committed run: its changes are undone by changes that follow them."""

from __future__ import annotations

import sqlite3
from dataclasses import dataclass
from typing import Final

from devmem.collections.sqlite import history, rows, runs
from devmem.collections.sqlite.history import Ending
from devmem.collections.sqlite.integrity import DamagedRows
from devmem.collections.sqlite.recorder import CurrentRecorder
from devmem.errors import RunConflictError, RunStateError
from devmem.model.versions import Operation, RunState

_TOUCHED: Final = (
    "SELECT id FROM items WHERE change_run = ?1 UNION SELECT id FROM versions WHERE change_run = ?1 "
    "UNION SELECT id FROM versions WHERE end_run = ?1"
)
_DERIVED: Final = (
    "SELECT DISTINCT items.id FROM items, json_each(CASE WHEN json_valid(body) THEN body ELSE '{}' END, "
    "'$.provenance.parents') AS parent WHERE items.change_run IS NOT ?1 AND parent.atom IN ("
    "SELECT id FROM items WHERE change_run = ?1)"
)
"""Selects the items that were derived, by others, from what the run wrote."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Change:
    """A run's change of one item."""

    item_id: str
    left: int | None
    """Row of the current item, which the run wrote; None where it deleted the item."""
    replaced: int | None
    """Row of the version that was the current one before; None where there was none."""


def undoing(run: str) -> str:
    """Return the id of the run that undoes another one."""
    return f"revert of {run}"


def revert(recorder: CurrentRecorder, location: str, run: str, damaged: DamagedRows) -> None:
    """Undo a run within the recorder's transaction.

    Raises:
        RunConflictError: later versions build on what the run wrote; nothing was changed.
        RunStateError: the run is not committed, or what it replaced is not kept any more.
        CollectionDamagedError: what it replaced cannot be read.
    """
    connection = recorder.connection
    info = runs.read_run(connection, location, run)
    runs.require(location, info, RunState.COMMITTED)
    name = rows.sql_text(run)
    touched = [found for (found,) in connection.execute(_TOUCHED, (name,)).fetchall()]
    changes = [_change(connection, location, item_id, run) for item_id in touched]
    conflicts = [item_id for item_id, change in zip(touched, changes, strict=True) if change is None]
    conflicts += [found for (found,) in connection.execute(_DERIVED, (name,))]
    if conflicts:
        raise RunConflictError(location, run, sorted(set(conflicts)))
    runs.begin(connection, location, undoing(run), None, history.seconds(recorder.at))
    for change in changes:
        if change is not None:
            _undo(recorder, location, change, undoing(run), damaged)
    runs.end(connection, run, RunState.REVERTED, recorder.at)
    runs.end(connection, undoing(run), RunState.COMMITTED, recorder.at)


def _change(connection: sqlite3.Connection, location: str, item_id: str, run: str) -> _Change | None:
    """Return what a run did to an item; None where others changed it since.

    Raises:
        RunStateError: what the run replaced is not kept any more.
    """
    name = rows.sql_text(run)
    current = connection.execute("SELECT row, change_run FROM items WHERE id = ?", (item_id,)).fetchone()
    last = connection.execute(
        "SELECT end_run FROM versions WHERE id = ? AND recorded_until IS NOT NULL ORDER BY recorded_until DESC LIMIT 1",
        (item_id,),
    ).fetchone()
    if (current is not None and current[1] != name) or (current is None and (last is None or last[0] != name)):
        return None
    replaced = connection.execute(
        "SELECT row FROM versions WHERE id = ? AND end_run = ? ORDER BY recorded_until LIMIT 1", (item_id, name)
    ).fetchone()
    operation = connection.execute("SELECT operation FROM items WHERE id = ?", (item_id,)).fetchone()
    if replaced is None and operation is not None and operation[0] != Operation.ADD.value:
        raise RunStateError(
            location, run, "committed", f"the version of {item_id!r} that it replaced is not kept any more"
        )
    return _Change(
        item_id=item_id,
        left=None if current is None else current[0],
        replaced=None if replaced is None else replaced[0],
    )


def _undo(recorder: CurrentRecorder, location: str, change: _Change, run: str, damaged: DamagedRows) -> None:
    if change.left is not None:
        operation = Operation.FORGET if change.replaced is None else Operation.RESTORE
        recorder.end("row = ?", [change.left], Ending(operation=operation, run=run))
    if change.replaced is not None:
        runs.put_back(recorder, location, change.replaced, Operation.RESTORE, damaged)
