"""Changing the current items of a database, so that what is replaced or deleted stays as a version."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from dataclasses import replace
from typing import Final, Protocol

from devmem.model.caller import Actor, current_actor
from devmem.model.items import MemoryItem
from devmem.model.versions import Operation
from devmem.storage.attachments import AttachmentFiles
from devmem.storage.runs import HistoryLimit, VersionEnd, recorded
from devmem.storage.sqlite import database, rows
from devmem.storage.sqlite.predicates import BEGAN, CHANGE
from devmem.storage.sqlite.rows import CHANGE_CHECKSUMS, end_checksum
from devmem.storage.writing import PreparedItem

_LONG: Final = 5_000
"""Microseconds for which a write takes the time at which it began for that of its commit."""
_STAMP: Final = tuple(
    f"UPDATE {table} SET {column} = ?1, change_checksum = {CHANGE_CHECKSUMS[table].replace(column, '?1')} WHERE {which}"
    for table, column, which in (
        ("items", "recorded_from", "row > ?3 AND recorded_from = ?2"),
        ("versions", "recorded_until", "recorded_until = ?2"),
        # What was replaced by the same write was never seen.
        ("versions", "recorded_from", "recorded_until = ?1 AND recorded_from = ?2"),
    )
)
_SWEEP_LIMIT: Final = 200
"""Maximum number of items, and of versions, that one write removes because they expired or are too old."""
_KEEP: Final = (
    f"INSERT INTO versions({rows.ITEM_COLUMNS}, operation, change_run, recorded_from, change_actor, "
    "recorded_until, end_operation, end_run, end_actor, change_checksum) "
    f"SELECT {rows.ITEM_COLUMNS}, {CHANGE}, ?1, ?2, ?3, ?4, {end_checksum(BEGAN, ('?1', '?2', '?3', '?4'))} "
    "FROM items WHERE "
)
_CHANGES_KEPT: Final = 20_000
"""A cache that missed more changes than about this number is rebuilt."""


class VersionWriter(Protocol):
    """Changes items within one write transaction; reading `items` by its connection shows what it changed."""

    connection: sqlite3.Connection
    attachments: AttachmentFiles | None

    def insert(self, prepared: PreparedItem, body: MemoryItem, *, waiting: bool, operation: Operation) -> list[int]:
        """Insert an item and the terms of its passages; return the passages' numbers.

        Args:
            prepared: the item.
            body: the item with its large attachments as references.
            waiting: whether its embeddings are still to be made.
            operation: begins this version.
        """
        ...

    def end(self, condition: str, values: Sequence[object], ending: VersionEnd) -> int:
        """Delete the items that match a condition, which stay as versions where these are kept; return their number."""
        ...

    def remove(self, condition: str, values: Sequence[object]) -> int:
        """Delete the items that match a condition permanently, as retention does; return their number."""
        ...

    def stamp(self, now: float) -> None:
        """Record what was changed as of `now` (seconds since the epoch); the commit comes next."""
        ...

    def count(self) -> int:
        """Return the number of items, expired ones that are still there included."""
        ...

    def prune(self) -> None:
        """Remove some of what retention removes, where that is due."""
        ...


class CurrentVersionWriter:
    """Changes the items that everybody sees; see `VersionWriter`."""

    def __init__(
        self,
        connection: sqlite3.Connection,
        attachments: AttachmentFiles | None,
        *,
        limit: HistoryLimit,
        now: float,
        run: str | None = None,
    ) -> None:
        """Prepare the changes of one write transaction.

        Args:
            connection: in a write transaction.
            attachments: files of the collection; None in memory.
            limit: how long versions are kept.
            now: seconds since the epoch.
            run: the run that is being committed or reverted; None takes that of each item's scope.
        """
        self.connection, self.attachments = connection, attachments
        self._limit, self._now = limit, now
        self._at: int | None = None
        # What a run writes on commit has the actors that wrote it.
        self._actor = Actor(run=run) if run is not None else current_actor()

    @property
    def at(self) -> int:
        """Recorded time of the transaction."""
        if self._at is None:
            self._at = self._next_time()
        return self._at

    def _next_time(self) -> int:
        (self._newest,) = self.connection.execute("SELECT COALESCE(max(row), 0) FROM items").fetchone()
        found = self.connection.execute("SELECT value FROM meta WHERE key = 'recorded'").fetchone()
        # Later than that of every one before: where the clock was set back, the last recorded time counts on.
        time = max(recorded(self._now), 0 if found is None else int(found[0]) + 1)
        database.set_meta(self.connection, "recorded", time)
        return time

    def stamp(self, now: float) -> None:
        """Record what was changed as of `now`, where it took long: nobody sees it before the commit."""
        before, until = self._at, recorded(now)
        if before is None or until - before < _LONG:
            return
        self._at = until
        for statement in _STAMP:
            self.connection.execute(statement, (until, before, self._newest)[: statement.count("?3") + 2])
        database.set_meta(self.connection, "recorded", until)

    def insert(
        self,
        prepared: PreparedItem,
        body: MemoryItem,
        *,
        waiting: bool,
        operation: Operation,
        actor: str | None = None,
    ) -> list[int]:
        """Insert a current item; `actor` wrote it, where that is not who changes items now."""
        run, by = self._actor.run or prepared.item.scope.run, actor or self._actor.name
        origin = (operation.value, rows.sql_text(run), self.at, rows.sql_text(by))
        values = rows.item_values(prepared, body, waiting=waiting)
        return rows.insert_item(self.connection, prepared, values, origin=origin)

    def end(self, condition: str, values: Sequence[object], ending: VersionEnd) -> int:
        """Move items to the versions; delete them where no versions are kept."""
        if not self._limit.keeps:
            return self.remove(condition, values)
        by = replace(ending, run=self._actor.run or ending.run, actor=ending.actor or self._actor.name)
        ended = (self.at, by.operation.value, rows.sql_text(by.run), rows.sql_text(by.actor))
        self.connection.execute(_KEEP + condition, (*ended, *values))
        return self._delete(condition, values)

    def remove(self, condition: str, values: Sequence[object]) -> int:
        """Delete items and release their attachments."""
        release(self.connection, self.attachments, "items", condition, values)
        return self._delete(condition, values)

    def _delete(self, condition: str, values: Sequence[object]) -> int:
        deleted = self.connection.execute(f"DELETE FROM items WHERE {condition}", tuple(values)).rowcount
        if deleted:
            prune_changes(self.connection)
        return deleted

    def keeps_since(self, at: int) -> bool:
        """Whether every version that ended at a recorded time, or later, is still kept."""
        return self._limit.keeps_since(at, self._now)

    def count(self) -> int:
        """Return the number of items, which the database keeps."""
        return int(database.read_meta(self.connection)["count"] or 0)

    def prune(self) -> None:
        """Remove some of what is past its `expires_at`, and of the versions that ended too long ago.

        At most `_SWEEP_LIMIT` of each go with one write, so that none is slow; what is left is not found meanwhile.
        """
        expired = "expires_at <= ?"
        if rows.any_expired(self.connection, self._now):
            part = f"SELECT row FROM items WHERE {expired} ORDER BY expires_at, row LIMIT {_SWEEP_LIMIT}"
            # What replaces an expired item is in no conflict with its expiry.
            based = f"recorded_until IS NULL AND base IN ({part})"
            self.connection.execute(f"UPDATE versions SET base = NULL WHERE {based}", (self._now,))
            self.remove(f"row IN ({part})", [self._now])
        self._prune_versions(f"{expired} AND recorded_until IS NOT NULL", [self._now])
        if (oldest := self._limit.oldest(self._now)) is not None:
            self._prune_versions("recorded_until < ?", [oldest])

    def _prune_versions(self, condition: str, values: Sequence[object]) -> None:
        """Remove some of the versions that match a condition: a write that does a little is never slow."""
        part = f"row IN (SELECT row FROM versions WHERE {condition} LIMIT {_SWEEP_LIMIT})"
        if self.connection.execute(f"SELECT 1 FROM versions WHERE {condition} LIMIT 1", tuple(values)).fetchone():
            remove_versions(self.connection, self.attachments, part, values)


def remove_versions(
    connection: sqlite3.Connection, attachments: AttachmentFiles | None, condition: str, values: Sequence[object]
) -> int:
    """Delete versions permanently and release their attachments; return their number."""
    release(connection, attachments, "versions", condition, values)
    deleted = connection.execute(f"DELETE FROM versions WHERE {condition}", tuple(values)).rowcount
    if deleted:
        prune_changes(connection)
    return deleted


def release(
    connection: sqlite3.Connection,
    attachments: AttachmentFiles | None,
    table: str,
    condition: str,
    values: Sequence[object],
) -> None:
    """Record the attachments of rows that are about to be deleted; the last of an attachment's rows takes its file."""
    if attachments is None:
        return
    query = f"SELECT CAST(body AS BLOB) FROM {table} WHERE ({condition}) AND instr(body, ?)"
    for (body,) in connection.execute(query, (*values, ".files/")).fetchall():
        attachments.release(body.decode(errors="replace"))


def prune_changes(connection: sqlite3.Connection) -> None:
    """Delete the oldest of the recorded changes where there are many."""
    # As two aggregates of one SELECT, SQLite would read the whole table.
    newest, oldest = connection.execute(
        "SELECT (SELECT max(number) FROM changes), (SELECT min(number) FROM changes)"
    ).fetchone()
    if newest is None or newest - oldest <= _CHANGES_KEPT:
        return
    floor = newest - _CHANGES_KEPT // 2
    connection.execute("DELETE FROM changes WHERE number <= ?", (floor,))
    database.set_meta(connection, "changes_floor", floor)
