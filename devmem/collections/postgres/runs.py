"""The states of runs: beginning, committing, discarding and listing them."""

from __future__ import annotations

from typing import Any, Final

from devmem.collections.postgres.database import Connection, composed
from devmem.collections.postgres.inserting import Origin
from devmem.collections.postgres.locks import lock
from devmem.collections.postgres.pending import OF_RUN
from devmem.collections.postgres.putting_back import put_back
from devmem.collections.postgres.recorder import CurrentRecorder, check_run, remove_versions
from devmem.collections.postgres.texts import read_text, stored_text
from devmem.collections.postgres.written_runs import never_pending, span, touched
from devmem.collections.recorded import Ending, recorded, seconds
from devmem.errors import RunConflictError, RunStateError
from devmem.model.versions import Operation, RunInfo, RunState

_CONFLICTS: Final = (
    "SELECT own.id FROM versions AS own LEFT JOIN items ON items.store = own.store AND items.id_key = own.id_key "
    "WHERE own.store = %s AND own.change_run = %s AND own.recorded_until IS NULL "
    "AND items.row IS DISTINCT FROM own.base "
    f"AND NOT (own.operation = '{Operation.FORGET.value}' AND items.row IS NULL) ORDER BY own.row"
)
"""Selects what others changed since the run did; what both deleted is in no conflict."""
_KNOWN: Final = "SELECT run, state, actor, started_at, ended_at FROM runs WHERE store = %s "


def lock_run(connection: Connection, store: int, run: str) -> None:
    """Let no other transaction write in a run, or end it, until this one ends."""
    lock(connection, "run", store, run)


def state_of(connection: Connection, store: int, run: str) -> RunState | None:
    """Return the state of a run; None when it has not written anything as a run."""
    query = "SELECT state FROM runs WHERE store = %s AND run = %s"
    found = connection.execute(query, (store, stored_text(run))).fetchone()
    return None if found is None else RunState(found[0])


def begin(connection: Connection, store: int, location: str, run: str, actor: str | None, now: float) -> None:
    """Record a run as pending, unless it is already, and lock it; `now` is in seconds since the epoch.

    Raises:
        RunStateError: it has ended.
        ValueError: its id is too long.
    """
    check_run(run)
    lock_run(connection, store, run)
    state = state_of(connection, store, run)
    if state is None:
        connection.execute(
            "INSERT INTO runs(store, run, state, actor, started_at) VALUES (%s, %s, %s, %s, %s)",
            (store, stored_text(run), RunState.PENDING.value, stored_text(actor), recorded(now)),
        )
    elif state is not RunState.PENDING:
        raise RunStateError(location, run, state.value, "nothing can be written in it; use another id")


def record(connection: Connection, store: int, info: RunInfo) -> None:
    """Record a committed run that was never pending, unless it is recorded already."""
    started, ended = (recorded(each or 0.0) for each in (info.started_at, info.ended_at))
    connection.execute(
        "INSERT INTO runs(store, run, state, started_at, committed_at, ended_at) VALUES (%s, %s, %s, %s, %s, %s) "
        "ON CONFLICT DO NOTHING",
        (store, stored_text(info.run), info.state.value, started, ended, ended),
    )


def conflicts(connection: Connection, store: int, run: str) -> list[str]:
    """Return the ids of the items that others changed since a pending run did."""
    found = connection.execute(composed(_CONFLICTS), (store, stored_text(run))).fetchall()
    return [read_text(name) or "" for (name,) in found]


def commit(recorder: CurrentRecorder, location: str, run: str) -> None:
    """Make what a pending run wrote the current items; one that is committed stays so.

    Raises:
        RunConflictError: others changed the same items since; nothing was committed.
        RunStateError: the run was discarded or reverted, or there is none.
    """
    connection, store, name = recorder.connection, recorder.store, stored_text(run)
    lock_run(connection, store, run)
    if not _is_to_end(connection, store, location, run, RunState.COMMITTED):
        return
    query = composed(
        f"SELECT id_key, row, operation, base, change_actor FROM versions WHERE store = %s AND {OF_RUN} ORDER BY row"
    )
    written = connection.execute(query, (store, name)).fetchall()
    keys = [key for key, *_ in written]
    # Nobody changes them from here on; who adds one of the ids first is found by its unique index.
    locked = "SELECT row FROM items WHERE store = %s AND id_key = ANY(%s) ORDER BY row FOR UPDATE"
    connection.execute(locked, (store, keys))
    if found := conflicts(connection, store, run):
        raise RunConflictError(location, run, found)
    recorder.tick(keys)
    for _, row, operation, base, actor in written:
        is_deletion = operation == Operation.FORGET.value
        ended_by = Operation.FORGET if is_deletion else Operation.UPDATE
        by = read_text(actor)
        if base is not None:
            recorder.end("row = %s", [base], Ending(operation=ended_by, run=run, actor=by))
        if not is_deletion:
            put_back(recorder, row, Origin(operation, run, by, recorder.at))
    remove_versions(connection, store, OF_RUN, [name])
    end(connection, store, run, RunState.COMMITTED, recorder.at)


def discard(connection: Connection, store: int, location: str, run: str, now: float) -> None:
    """Drop what a pending run wrote; one that is discarded stays so. `now` is in seconds since the epoch.

    Raises:
        RunStateError: the run was committed, or there is none.
    """
    lock_run(connection, store, run)
    if _is_to_end(connection, store, location, run, RunState.DISCARDED):
        remove_versions(connection, store, OF_RUN, [stored_text(run)])
        end(connection, store, run, RunState.DISCARDED, recorded(now))


def _is_to_end(connection: Connection, store: int, location: str, run: str, wanted: RunState) -> bool:
    """Whether a run is pending, and not in the wanted state already."""
    state = read_run(connection, store, location, run).state
    if state not in (RunState.PENDING, wanted):
        raise RunStateError(location, run, state.value, f"it cannot be {wanted.value} any more")
    return state is RunState.PENDING


def end(connection: Connection, store: int, run: str, state: RunState, at: int) -> None:
    """Record that a run is in a state since a recorded time."""
    committed_at = at if state is RunState.COMMITTED else None
    connection.execute(
        "UPDATE runs SET state = %s, ended_at = %s, committed_at = COALESCE(%s, committed_at) "
        "WHERE store = %s AND run = %s",
        (state.value, at, committed_at, store, stored_text(run)),
    )


def require(location: str, info: RunInfo, *states: RunState) -> None:
    """Refuse a run that is in none of some states.

    Raises:
        RunStateError: it is in another one.
    """
    if info.state not in states:
        raise RunStateError(location, info.run, info.state.value, f"this needs one that is {states[0].value}")


def read_runs(connection: Connection, store: int, limit: int) -> list[RunInfo]:
    """Return the runs that began last, newest first, at most `limit`."""
    query = composed(f"{_KNOWN} ORDER BY started_at DESC, run LIMIT %s")
    known = connection.execute(query, (store, limit)).fetchall()
    others = [_written(*found) for found in never_pending(connection, store, limit)]
    newest = sorted([*known, *others], key=lambda found: (-found[3], found[0]))[:limit]
    return [_info(connection, store, *found) for found in newest]


def find_run(connection: Connection, store: int, run: str) -> RunInfo | None:
    """Return what is known of a run; None when it has written nothing."""
    found = connection.execute(composed(f"{_KNOWN} AND run = %s"), (store, stored_text(run))).fetchone()
    if found is None and (times := span(connection, store, run)) is not None:
        found = _written(stored_text(run) or "", *times)
    return None if found is None else _info(connection, store, *found)


def _written(run: str, first: int, last: int) -> tuple[Any, ...]:
    """Return the columns of a run whose changes were seen by all at once."""
    return run, RunState.COMMITTED.value, None, first, last


def read_run(connection: Connection, store: int, location: str, run: str) -> RunInfo:
    """Return what is known of a run.

    Raises:
        RunStateError: it has written nothing.
    """
    found = find_run(connection, store, run)
    if found is None:
        raise RunStateError(location, run, "unknown", "no run of this id has written anything here")
    return found


def _info(
    connection: Connection, store: int, run: str, state: str, actor: str | None, started: int, ended: int | None
) -> RunInfo:
    name = read_text(run) or ""
    return RunInfo(
        run=name,
        state=RunState(state),
        actor=read_text(actor),
        started_at=seconds(started),
        ended_at=None if ended is None else seconds(ended),
        changes=touched(connection, store, name),
    )
