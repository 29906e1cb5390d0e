"""The states of runs: beginning, committing, discarding and listing them."""

from __future__ import annotations

import sqlite3
from typing import Final, TypeAlias

from devmem.collections.attachments import AttachmentFiles
from devmem.collections.prepared import PreparedItem
from devmem.collections.recorded import Ending, recorded, seconds
from devmem.collections.sqlite import rows
from devmem.collections.sqlite.integrity import DamagedRows
from devmem.collections.sqlite.pending import OF_RUN
from devmem.collections.sqlite.recorder import CurrentRecorder, remove_versions
from devmem.collections.sqlite.written_runs import TOUCHED, never_pending, span
from devmem.errors import CollectionDamagedError, RunConflictError, RunStateError
from devmem.model.versions import Operation, RunInfo, RunState

_Columns: TypeAlias = tuple[str, str, str | None, int, int | None]
"""Run, state, actor, and when it started and ended."""
_CHANGED: Final = f"SELECT count(*) FROM ({TOUCHED.format(run='?1')})"
_CONFLICTS: Final = (
    "SELECT own.id FROM versions AS own LEFT JOIN items ON items.id = own.id "
    "WHERE own.change_run = ? AND own.recorded_until IS NULL AND items.row IS NOT own.base "
    f"AND NOT (own.operation = '{Operation.FORGET.value}' AND items.row IS NULL) ORDER BY own.row"
)
"""Selects what others changed since the run did; what both deleted is in no conflict."""


def state_of(connection: sqlite3.Connection, run: str) -> RunState | None:
    """Return the state of a run; None when it has not written anything as a run."""
    found = connection.execute("SELECT state FROM runs WHERE run = ?", (rows.sql_text(run),)).fetchone()
    return None if found is None else RunState(found[0])


def begin(connection: sqlite3.Connection, location: str, run: str, actor: str | None, now: float) -> None:
    """Record a run as pending, unless it is already; `now` is in seconds since the epoch.

    Raises:
        RunStateError: it has ended.
    """
    state = state_of(connection, run)
    if state is None:
        values = (rows.sql_text(run), RunState.PENDING.value, rows.sql_text(actor), recorded(now))
        connection.execute("INSERT INTO runs(run, state, actor, started_at) VALUES (?, ?, ?, ?)", values)
    elif state is not RunState.PENDING:
        raise RunStateError(location, run, state.value, "nothing can be written in it; use another id")


def record(connection: sqlite3.Connection, info: RunInfo) -> None:
    """Record a committed run that was never pending, unless it is recorded already."""
    started, ended = (recorded(each or 0.0) for each in (info.started_at, info.ended_at))
    connection.execute(
        "INSERT OR IGNORE INTO runs(run, state, started_at, committed_at, ended_at) VALUES (?, ?, ?, ?, ?)",
        (rows.sql_text(info.run), info.state.value, started, ended, ended),
    )


def conflicts(connection: sqlite3.Connection, run: str) -> list[str]:
    """Return the ids of the items that others changed since a pending run did."""
    return [found for (found,) in connection.execute(_CONFLICTS, (rows.sql_text(run),))]


def commit(recorder: CurrentRecorder, location: str, run: str, damaged: DamagedRows) -> None:
    """Make what a pending run wrote the current items; one that is committed stays so.

    Raises:
        RunConflictError: others changed the same items since; nothing was committed.
        RunStateError: the run was discarded or reverted, or there is none.
        CollectionDamagedError: what it wrote cannot be read.
    """
    connection, name = recorder.connection, rows.sql_text(run)
    if not _is_to_end(connection, location, run, RunState.COMMITTED):
        return
    if found := conflicts(connection, run):
        raise RunConflictError(location, run, found)
    query = f"SELECT row, operation, base, change_actor FROM versions WHERE {OF_RUN} ORDER BY row"
    for row, operation, base, actor in connection.execute(query, (name,)).fetchall():
        is_deletion = operation == Operation.FORGET.value
        ended_by = Operation.FORGET if is_deletion else Operation.UPDATE
        recorder.end("row = ?", [base], Ending(operation=ended_by, run=run, actor=actor))
        if not is_deletion:
            put_back(recorder, location, row, Operation(operation), damaged, actor=actor)
    connection.execute(f"DELETE FROM versions WHERE {OF_RUN}", (name,))
    end(connection, run, RunState.COMMITTED, recorder.at)


def discard(
    connection: sqlite3.Connection, attachments: AttachmentFiles | None, location: str, run: str, now: float
) -> None:
    """Drop what a pending run wrote; one that is discarded stays so. `now` is in seconds since the epoch.

    Raises:
        RunStateError: the run was committed, or there is none.
    """
    if _is_to_end(connection, location, run, RunState.DISCARDED):
        remove_versions(connection, attachments, OF_RUN, [rows.sql_text(run)])
        end(connection, run, RunState.DISCARDED, recorded(now))


def _is_to_end(connection: sqlite3.Connection, location: str, run: str, wanted: RunState) -> bool:
    """Whether a run is pending, and not in the wanted state already."""
    state = read_run(connection, location, run).state
    if state not in (RunState.PENDING, wanted):
        raise RunStateError(location, run, state.value, f"it cannot be {wanted.value} any more")
    return state is RunState.PENDING


def end(connection: sqlite3.Connection, run: str, state: RunState, at: int) -> None:
    """Record that a run is in a state since a recorded time."""
    committed_at = at if state is RunState.COMMITTED else None
    query = "UPDATE runs SET state = ?, ended_at = ?, committed_at = COALESCE(?, committed_at) WHERE run = ?"
    connection.execute(query, (state.value, at, committed_at, rows.sql_text(run)))


def require(location: str, info: RunInfo, *states: RunState) -> None:
    """Refuse a run that is in none of some states.

    Raises:
        RunStateError: it is in another one.
    """
    if info.state not in states:
        raise RunStateError(location, info.run, info.state.value, f"this needs one that is {states[0].value}")


def put_back(
    recorder: CurrentRecorder,
    location: str,
    row: int,
    operation: Operation,
    damaged: DamagedRows,
    *,
    actor: str | None = None,
) -> None:
    """Insert the item of a version as a current one, with its embeddings; `actor` wrote it, as far as it is known.

    Raises:
        CollectionDamagedError: it cannot be read.
    """
    connection = recorder.connection
    query = "SELECT row, CAST(body AS BLOB), body_checksum FROM versions WHERE row = ?"
    item = rows.item_from_row(damaged, *connection.execute(query, (row,)).fetchone())
    if item is None:
        raise CollectionDamagedError(location, f"version {row} is damaged; nothing was changed: restore a backup.")
    embeddings = rows.read_embeddings_of_row(connection, row, item.content_hash)
    prepared = PreparedItem.of(item)
    if embeddings is not None and len(embeddings.vectors) not in (1, len(prepared.passages)):
        # That of a passage is damaged: all are made again.
        embeddings = None
    waiting = embeddings is None and bool(item.content_summary.strip())
    passages = recorder.insert(prepared, item, waiting=waiting, operation=operation, actor=actor)
    if embeddings is not None:
        rows.insert_embeddings(connection, passages, embeddings)


def read_runs(connection: sqlite3.Connection, limit: int) -> list[RunInfo]:
    """Return the runs that began last, newest first, at most `limit`."""
    query = "SELECT run, state, actor, started_at, ended_at FROM runs ORDER BY started_at DESC, run LIMIT ?"
    known: list[_Columns] = connection.execute(query, (limit,)).fetchall()
    others = [_written(*found) for found in never_pending(connection, limit)]
    newest = sorted([*known, *others], key=lambda found: (-found[3], found[0]))[:limit]
    return [_info(connection, *found) for found in newest]


def find_run(connection: sqlite3.Connection, run: str) -> RunInfo | None:
    """Return what is known of a run; None when it has written nothing."""
    query = "SELECT run, state, actor, started_at, ended_at FROM runs WHERE run = ?"
    found: _Columns | None = connection.execute(query, (rows.sql_text(run),)).fetchone()
    if found is None and (times := span(connection, run)) is not None:
        found = _written(rows.sql_text(run) or "", *times)
    return None if found is None else _info(connection, *found)


def _written(run: str, first: int, last: int) -> _Columns:
    """Return the columns of a run whose changes were seen by all at once."""
    return run, RunState.COMMITTED.value, None, first, last


def read_run(connection: sqlite3.Connection, location: str, run: str) -> RunInfo:
    """Return what is known of a run.

    Raises:
        RunStateError: it has written nothing.
    """
    found = find_run(connection, run)
    if found is None:
        raise RunStateError(location, run, "unknown", "no run of this id has written anything here")
    return found


def _info(
    connection: sqlite3.Connection, run: str, state: str, actor: str | None, started: int, ended: int | None
) -> RunInfo:
    (changes,) = connection.execute(_CHANGED, (run,)).fetchone()
    return RunInfo(
        run=run,
        state=RunState(state),
        actor=actor,
        started_at=seconds(started),
        ended_at=None if ended is None else seconds(ended),
        changes=changes,
    )
