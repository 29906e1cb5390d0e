"""Versions of items in the database: recording when one ends, listing them, and removing them for good."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from devmem.collections.recorded import MICROSECONDS, Ending, author_of, recorded, seconds
from devmem.collections.sqlite import database, rows
from devmem.collections.sqlite.integrity import CHANGE_CHECKSUMS, DamagedRows, ended_checksum
from devmem.model.versions import Change, ItemVersion, Operation

SWEPT_AT_ONCE: Final = 200
"""Maximum number of items, and of versions, that one write removes because they expired or are too old."""
RECORDED_FROM: Final = f"COALESCE(recorded_from, CAST(created_at * {MICROSECONDS} AS INTEGER))"
"""Items of a file of format 3 have no recorded time; when they were made is the best that is known."""
_BEGAN: Final = (f"COALESCE(operation, '{Operation.ADD.value}')", "change_run", RECORDED_FROM, "change_actor")
_CHANGE: Final = ", ".join(_BEGAN)
_KEEP: Final = (
    f"INSERT INTO versions({rows.ITEM_COLUMNS}, operation, change_run, recorded_from, change_actor, "
    "recorded_until, end_operation, end_run, end_actor, change_checksum) "
    f"SELECT {rows.ITEM_COLUMNS}, {_CHANGE}, ?1, ?2, ?3, ?4, {ended_checksum(_BEGAN, ('?1', '?2', '?3', '?4'))} "
    "FROM items WHERE "
)
_READ: Final = (
    "SELECT change_checksum IS NULL OR change_checksum IS {checksum}, '{table}', "
    f"row, CAST(body AS BLOB), body_checksum, {_CHANGE}"
)
_HISTORY: Final = (
    f"{_READ.format(table='versions', checksum=CHANGE_CHECKSUMS['versions'])}, recorded_until, end_operation, end_run, "
    "end_actor FROM versions WHERE id = ?1 AND recorded_until IS NOT NULL UNION ALL "
    f"{_READ.format(table='items', checksum=CHANGE_CHECKSUMS['items'])}, NULL, NULL, NULL, NULL "
    "FROM items WHERE id = ?1 ORDER BY 8, row"
)


def tick(connection: sqlite3.Connection, now: float) -> int:
    """Return the recorded time of the connection's write transaction, later than that of every one before.

    `now` is in seconds since the epoch; where the clock was set back, the last recorded time counts on.
    """
    found = connection.execute("SELECT value FROM meta WHERE key = 'recorded'").fetchone()
    time = max(recorded(now), 0 if found is None else int(found[0]) + 1)
    database.set_meta(connection, "recorded", time)
    return time


def keep(connection: sqlite3.Connection, condition: str, values: Sequence[object], ending: Ending, at: int) -> None:
    """Copy the current items that match a condition to the versions; the caller deletes them afterwards."""
    ended = (at, ending.operation.value, rows.sql_text(ending.run), rows.sql_text(ending.actor))
    connection.execute(_KEEP + condition, (*ended, *values))


def any_expired(connection: sqlite3.Connection, now: float) -> bool:
    """Whether an item is past its `expires_at` at `now` (seconds since the epoch)."""
    return connection.execute("SELECT 1 FROM items WHERE expires_at <= ? LIMIT 1", (now,)).fetchone() is not None


def read_history(connection: sqlite3.Connection, item_id: str, damaged: DamagedRows) -> list[ItemVersion]:
    """Return the committed versions of an item, oldest first; damaged ones are left out."""
    found = connection.execute(_HISTORY, (rows.sql_text(item_id),)).fetchall()
    actors = _actors(connection, {run for each in found for run in (each[6], each[11]) if run is not None})
    return list(_versions(found, actors, damaged))


def _actors(connection: sqlite3.Connection, runs: set[str]) -> dict[str, str | None]:
    query = "SELECT run, actor FROM runs WHERE run = ?"
    return dict(row for run in runs for row in connection.execute(query, (run,)))


def _versions(
    found: Sequence[tuple[Any, ...]], actors: Mapping[str, str | None], damaged: DamagedRows
) -> Iterator[ItemVersion]:
    for intact, table, row, body, checksum, operation, run, at, actor, until, *ending in found:
        item = rows.item_from_row(damaged, row, body, checksum)
        if not intact:
            damaged.add(table, row)
        if item is None or not intact:
            continue
        ended = None if until is None else _change(ending[0], until, ending[1], ending[2] or actors.get(ending[1]))
        by = actors.get(run)
        # Who wrote a new item is known best from itself: a command, or an import, acts for somebody else.
        known = by or author_of(item) or actor if operation == Operation.ADD.value else actor or by or author_of(item)
        yield ItemVersion(item=item, began=_change(operation, at, run, known), ended=ended)


def _change(operation: str, at: int, run: str | None, actor: str | None) -> Change:
    return Change(operation=Operation(operation), at=seconds(at), run=run, actor=actor)
