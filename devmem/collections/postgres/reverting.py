"""Reverting a committed run: its changes are undone by changes that follow them."""

from __future__ import annotations

from typing import Any, Final
from uuid import UUID

from devmem.collections.postgres import rows, runs
from devmem.collections.postgres.database import Connection, composed
from devmem.collections.postgres.erasing import PARENTS
from devmem.collections.postgres.inserting import Origin
from devmem.collections.postgres.putting_back import put_back
from devmem.collections.postgres.recorder import CurrentRecorder
from devmem.collections.postgres.shown import RECORDED_FROM
from devmem.collections.postgres.texts import read_text, stored_text
from devmem.collections.postgres.written_runs import TOUCHED, span
from devmem.collections.recorded import Ending, seconds
from devmem.collections.reverting import RunChange, check_revertible, undoing
from devmem.errors import RunStateError
from devmem.model.acting import current_actor
from devmem.model.versions import Operation, RunInfo, RunState

_OF_ITEM: Final = f"""
SELECT operation, recorded_from FROM (
    SELECT operation, {RECORDED_FROM} AS recorded_from FROM items
    WHERE store = %(store)s AND id_key = %(key)s AND change_run = %(run)s
    UNION ALL SELECT operation, recorded_from FROM versions
    WHERE store = %(store)s AND id_key = %(key)s AND change_run = %(run)s AND recorded_until IS NOT NULL
) AS changes ORDER BY recorded_from LIMIT 1
"""
"""Selects the first change that a run made to an item."""
_LAST: Final = (
    "SELECT end_operation, end_run FROM versions WHERE store = %(store)s AND id_key = %(key)s "
    "AND recorded_until <= %(before)s ORDER BY recorded_until DESC LIMIT 1"
)
_ENDED_BY_OTHERS: Final = (
    "SELECT 1 FROM versions WHERE store = %(store)s AND id_key = %(key)s AND change_run = %(run)s "
    "AND recorded_until IS NOT NULL AND end_run IS DISTINCT FROM %(run)s"
)
_REPLACED: Final = (
    "SELECT row FROM versions WHERE store = %(store)s AND id_key = %(key)s AND end_run = %(run)s "
    "AND change_run IS DISTINCT FROM %(run)s ORDER BY recorded_until LIMIT 2"
)
"""Selects the versions of others that the run replaced; a second one shows that they wrote in between."""
_WITH_PARENTS: Final = (
    "SELECT body FROM items WHERE store = %s AND change_run IS DISTINCT FROM %s AND strpos(body, %s) > 0"
)
_FOREVER: Final = 1 << 62
"""Later than every recorded time."""


def conflicts(connection: Connection, store: int, location: str, info: RunInfo) -> list[str]:
    """Return the ids of the items that build on what a committed run wrote.

    Raises:
        RunStateError: the run is not committed, or what it replaced is not kept any more.
    """
    return _plan(connection, store, location, info)[1]


def _plan(connection: Connection, store: int, location: str, info: RunInfo) -> tuple[list[RunChange], list[str]]:
    """Return what a committed run did, and the ids of the items that build on it."""
    runs.require(location, info, RunState.COMMITTED)
    changes: list[RunChange] = []
    found = _derived(connection, store, info.run)
    for key in _touched(connection, store, info.run):
        change = _change(connection, store, location, key, info.run)
        if change is None:
            found.add(_name_of(connection, store, key))
        else:
            changes.append(change)
    return changes, sorted(found)


def _touched(connection: Connection, store: int, run: str) -> list[UUID]:
    found = connection.execute(TOUCHED, {"store": store, "run": stored_text(run)}).fetchall()
    return [key for (key,) in found]


def _name_of(connection: Connection, store: int, key: UUID) -> str:
    query = (
        "SELECT id FROM items WHERE store = %(store)s AND id_key = %(key)s "
        "UNION SELECT id FROM versions WHERE store = %(store)s AND id_key = %(key)s LIMIT 1"
    )
    ((name,),) = connection.execute(query, {"store": store, "key": key}).fetchall()
    return read_text(name) or ""


def _derived(connection: Connection, store: int, run: str) -> set[str]:
    """Return the ids of the items that were derived, by others, from what the run wrote."""
    name = stored_text(run)
    written = connection.execute("SELECT id FROM items WHERE store = %s AND change_run = %s", (store, name)).fetchall()
    ids = {read_text(each) for (each,) in written}
    if not ids:
        return set()
    found = (rows.item_from(body) for (body,) in connection.execute(_WITH_PARENTS, (store, name, PARENTS)))
    return {item.id for item in found if not ids.isdisjoint(item.provenance.parents)}


def revert(recorder: CurrentRecorder, location: str, run: str) -> None:
    """Undo a run within the recorder's transaction.

    Raises:
        RunConflictError: later versions build on what the run wrote; nothing was changed.
        RunStateError: the run is not committed, or what it replaced is not kept any more.
    """
    connection, store = recorder.connection, recorder.store
    runs.lock_run(connection, store, run)
    keys = _touched(connection, store, run)
    # Nobody changes them from here on; who adds one of the ids first is found by its unique index.
    locked = "SELECT row FROM items WHERE store = %s AND id_key = ANY(%s) ORDER BY row FOR UPDATE"
    connection.execute(locked, (store, keys))
    info = runs.read_run(connection, store, location, run)
    changes, conflicts = _plan(connection, store, location, info)
    times = span(connection, store, run)
    is_kept = times is None or recorder.keeps_since(times[0])
    check_revertible(location, info, conflicts, is_kept=is_kept)
    recorder.tick(keys)
    runs.record(connection, store, info)
    runs.begin(connection, store, location, undoing(run), current_actor().name, seconds(recorder.at))
    for change in changes:
        _undo(recorder, change, undoing(run))
    runs.end(connection, store, run, RunState.REVERTED, recorder.at)
    runs.end(connection, store, undoing(run), RunState.COMMITTED, recorder.at)


def _change(connection: Connection, store: int, location: str, key: UUID, run: str) -> RunChange | None:
    """Return what a run did to an item; None where others changed it since.

    Raises:
        RunStateError: what the run replaced is not kept any more.
    """
    values: dict[str, Any] = {"store": store, "key": key, "run": stored_text(run), "before": _FOREVER}
    query = "SELECT row, change_run FROM items WHERE store = %(store)s AND id_key = %(key)s"
    current = connection.execute(query, values).fetchone()
    last = connection.execute(_LAST, values).fetchone()
    if (current or last or (None, None))[1] != values["run"]:
        return None
    replaced = connection.execute(_REPLACED, values).fetchall()
    if len(replaced) > 1 or connection.execute(_ENDED_BY_OTHERS, values).fetchone() is not None:
        return None
    if not replaced and _lost(connection, values):
        name = _name_of(connection, store, key)
        raise RunStateError(
            location, run, "committed", f"the version of {name!r} that it replaced is not kept any more"
        )
    return RunChange(
        left=None if current is None else current[0],
        replaced=replaced[0][0] if replaced else None,
    )


def _lost(connection: Connection, values: dict[str, Any]) -> bool:
    """Whether a run's first change of an item replaced a version, although none is kept."""
    first = connection.execute(composed(_OF_ITEM), values).fetchone()
    if first is None or first[0] in (None, Operation.ADD.value):
        return False
    # What was restored had been deleted before, or replaced what is not kept.
    before = connection.execute(_LAST, values | {"before": first[1]}).fetchone()
    return before is None or before[0] != Operation.FORGET.value


def _undo(recorder: CurrentRecorder, change: RunChange, run: str) -> None:
    if change.left is not None:
        operation = Operation.FORGET if change.replaced is None else Operation.RESTORE
        recorder.end("row = %s", [change.left], Ending(operation=operation, run=run))
    if change.replaced is not None:
        put_back(recorder, change.replaced, Origin(Operation.RESTORE.value, run, current_actor().name, recorder.at))
