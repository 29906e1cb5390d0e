"""Tombstones of a SQLite file: a table within it, and a file beside it that outlives a backup put in its place."""

from __future__ import annotations

import json
import sqlite3
from abc import abstractmethod
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Final, TypeVar
from uuid import uuid4

from devmem.errors import CollectionUnwritableError
from devmem.model.items import MemoryItem
from devmem.storage import tombstones
from devmem.storage.erasure import ErasePlan, EraseRequest, EraseResult
from devmem.storage.sqlite import database
from devmem.storage.sqlite.erasing import SqliteEraser, write_plan
from devmem.storage.sqlite.writes import TOMBSTONE_KEYS, erased_among, find_tombstones, tombstone_keys
from devmem.storage.tombstones import (
    SUFFIX,
    Mark,
    StoredMark,
    Tombstone,
    TombstoneFile,
    marks_of,
    new_key,
    new_state,
    owner_of,
    read_tombstone_file,
)

T = TypeVar("T")

_INSERT: Final = "INSERT OR REPLACE INTO tombstones(digest, owner, whole, erasure, erased_at) VALUES (?, ?, ?, ?, ?)"
_STATE: Final = "tombstone_state"
_ALL: Final = "SELECT digest, owner, whole, erasure, erased_at FROM tombstones ORDER BY erased_at, digest"
_COUNTS: Final = "SELECT erasure, min(erased_at), whole, count(*) FROM tombstones WHERE {where} GROUP BY erasure, whole"


class SqliteTombstones(SqliteEraser):
    """The methods of `TombstoneCollection`."""

    _read_only: bool

    @abstractmethod
    def _write(self, operation: Callable[[sqlite3.Connection], T]) -> T:
        """Run an operation in a write transaction."""

    @property
    def _beside(self) -> Path | None:
        """The file beside the database; None in memory."""
        return Path(f"{self.location}{SUFFIX}") if self._in_file else None

    def keep_tombstones(self, items: Sequence[MemoryItem], *, wholes: Collection[str] = ()) -> str:
        """Record durably that some items are erased; return the id of the erasure."""
        erasure, at = uuid4().hex, self._clock()

        def keep(connection: sqlite3.Connection) -> None:
            keys = tombstone_keys(connection) or (new_key(),)
            marks = [mark for item in items for mark in marks_of(keys[0], item, whole_only=item.id in wholes)]
            _insert(connection, [StoredMark(mark=mark, erasure=erasure, erased_at=at) for mark in marks])
            _set_keys(connection, keys)

        self._change_tombstones(keep)
        return erasure

    def _change_tombstones(self, change: Callable[[sqlite3.Connection], T]) -> T:
        """Change tombstones in the database, then in the file beside it."""

        def changed(connection: sqlite3.Connection) -> tuple[T, TombstoneFile]:
            result = change(connection)
            database.set_meta(connection, _STATE, new_state())
            return result, _content(connection)

        result, content = self._write(changed)
        self._write_beside(content)
        return result

    def _write_beside(self, content: TombstoneFile) -> None:
        path = self._beside
        if path is None:
            return
        try:
            if content.keys:
                content.write(path)
            else:
                path.unlink(missing_ok=True)
        except OSError as error:
            reason = "the tombstones beside it cannot be written: a backup that is put in its place would undo them"
            raise CollectionUnwritableError(self.location, f"{reason} ({error}).") from error

    def tombstones(self, user: str | None = None, *, everybody: bool = True) -> list[Tombstone]:
        """Return the tombstones, oldest first."""

        def read(connection: sqlite3.Connection) -> list[Tombstone]:
            keys = tombstone_keys(connection)
            if not keys:
                return []
            where, values = _owned(keys, user, everybody=everybody)
            return tombstones.listed(connection.execute(_COUNTS.format(where=where), values))

        return self._read(read)

    def remove_tombstones(
        self, erasures: Sequence[str] | None = None, user: str | None = None, *, everybody: bool = True
    ) -> int:
        """Remove the tombstones of some erasures, or all; return the number of texts that may be stored again."""
        if not self._read(tombstone_keys):
            return 0

        def remove(connection: sqlite3.Connection) -> int:
            where, values = _owned(tombstone_keys(connection), user, everybody=everybody)
            if erasures is not None:
                where += " AND erasure IN (SELECT value FROM json_each(?))"
                values = [*values, json.dumps(list(erasures))]
            query = f"SELECT count(*) FROM tombstones WHERE {where} AND whole"
            (texts,) = connection.execute(query, values).fetchone()
            connection.execute(f"DELETE FROM tombstones WHERE {where}", values)
            if not connection.execute("SELECT 1 FROM tombstones LIMIT 1").fetchone():
                _set_keys(connection, ())
            return int(texts)

        return self._change_tombstones(remove)

    def without_erased(self, text: str, user: str | None) -> str:
        """Return a text without the sentences that a tombstone of the user stands for."""

        def read(connection: sqlite3.Connection) -> str:
            keys = tombstone_keys(connection)
            return tombstones.without_erased(keys, text, user, partial(find_tombstones, connection)) if keys else text

        return self._read(read)

    def apply_tombstones(self) -> EraseResult:
        """Erase what came back with another database file in the place of this one."""
        path = self._beside
        if path is None or self._read_only or not path.exists():
            return EraseResult()
        beside = read_tombstone_file(path)
        if beside is None or beside.state == self._read(database.read_meta).get(_STATE):
            return EraseResult()

        def merge(connection: sqlite3.Connection) -> ErasePlan | None:
            _insert(connection, beside.marks)
            _set_keys(connection, tuple(dict.fromkeys((*beside.keys, *tombstone_keys(connection)))))
            plan = self._erased_before(connection)
            if plan is not None:
                write_plan(connection, plan)
            return plan

        plan = self._change_tombstones(merge)
        return EraseResult() if plan is None else self.finish_erasure(plan)

    def _erased_before(self, connection: sqlite3.Connection) -> ErasePlan | None:
        """Return what is to be erased of a database that knew nothing of the tombstones; None where nothing is."""
        gone: set[str] = set()
        rows: dict[int, str] = {}
        for found in self._versions(connection, ("1", [])):
            if not erased_among(connection, [found.item]):
                continue
            if found.is_current:
                gone.add(found.item.id)
            else:
                rows[found.row] = found.item.id
        left = tuple(row for row, name in rows.items() if name not in gone)
        if not gone and not left:
            return None
        plan = self._plan(connection, EraseRequest(ids=tuple(sorted(gone))), ())
        return replace(plan, rows=(*plan.rows, *left))


def _insert(connection: sqlite3.Connection, marks: Iterable[StoredMark]) -> None:
    values = (
        (each.mark.digest.hex(), each.mark.owner, each.mark.is_whole, each.erasure, each.erased_at) for each in marks
    )
    connection.executemany(_INSERT, values)


def _set_keys(connection: sqlite3.Connection, keys: Sequence[bytes]) -> None:
    database.set_meta(connection, TOMBSTONE_KEYS, json.dumps([key.hex() for key in keys]) if keys else None)


def _content(connection: sqlite3.Connection) -> TombstoneFile:
    (state,) = connection.execute("SELECT value FROM meta WHERE key = ?", (_STATE,)).fetchone()
    return TombstoneFile(state=state, keys=tombstone_keys(connection), marks=_marks(connection))


def _marks(connection: sqlite3.Connection) -> tuple[StoredMark, ...]:
    return tuple(
        StoredMark(
            mark=Mark(digest=bytes.fromhex(digest), owner=owner, is_whole=bool(whole)),
            erasure=erasure,
            erased_at=erased_at,
        )
        for digest, owner, whole, erasure, erased_at in connection.execute(_ALL)
    )


def _owned(keys: Sequence[bytes], user: str | None, *, everybody: bool) -> tuple[str, list[object]]:
    if everybody:
        return "1", []
    owners = [owner_of(key, user) for key in keys]
    return f"owner IN ({', '.join('?' * len(owners))})", [*owners]
