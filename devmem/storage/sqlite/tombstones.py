"""Tombstones of a SQLite file: a table within it, and a file beside it that outlives a backup put in its place."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Final, TypeVar

from devmem.errors import CollectionUnwritableError
from devmem.storage.erasing import insert_marks, set_keys, write_plan
from devmem.storage.erasure import ErasePlan, EraseRequest, EraseResult
from devmem.storage.sqlite.erasing import SqliteEraser
from devmem.storage.tables import StoreTables
from devmem.storage.tombstones import (
    SUFFIX,
    Mark,
    StoredMark,
    TombstoneFile,
    new_state,
    read_tombstone_file,
)

T = TypeVar("T")

_STATE: Final = "tombstone_state"
_ALL: Final = "SELECT digest, owner, whole, erasure, erased_at FROM tombstones ORDER BY erased_at, digest"


class SqliteTombstones(SqliteEraser):
    """The methods of `TombstoneCollection`."""

    _read_only: bool

    @property
    def _beside(self) -> Path | None:
        """The file beside the database; None in memory."""
        return Path(f"{self.location}{SUFFIX}") if self._in_file else None

    def _change_tombstones(self, change: Callable[[StoreTables], T]) -> T:
        """Change tombstones in the database, then in the file beside it."""

        def changed(tables: StoreTables) -> tuple[T, TombstoneFile]:
            result = change(tables)
            tables.set_property(_STATE, new_state())
            return result, _content(tables)

        result, content = self._writing(changed)
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

    def apply_tombstones(self) -> EraseResult:
        """Erase what came back with another database file in the place of this one."""
        path = self._beside
        if path is None or self._read_only or not path.exists():
            return EraseResult()
        beside = read_tombstone_file(path)
        if beside is None or beside.state == self._reading(lambda tables: tables.property(_STATE)):
            return EraseResult()

        def merge(tables: StoreTables) -> ErasePlan | None:
            insert_marks(tables, beside.marks)
            set_keys(tables, tuple(dict.fromkeys((*beside.keys, *tables.tombstone_keys()))))
            plan = self._erased_before(tables)
            if plan is not None:
                write_plan(tables, plan)
            return plan

        plan = self._change_tombstones(merge)
        return EraseResult() if plan is None else self.finish_erasure(plan)

    def _erased_before(self, tables: StoreTables) -> ErasePlan | None:
        """Return what is to be erased of a database that knew nothing of the tombstones; None where nothing is."""
        gone: set[str] = set()
        rows: dict[int, str] = {}
        for found in self._versions(tables, ("true", [])):
            if not tables.erased_among([found.item]):
                continue
            if found.is_current:
                gone.add(found.item.id)
            else:
                rows[found.row] = found.item.id
        left = tuple(row for row, name in rows.items() if name not in gone)
        if not gone and not left:
            return None
        plan = self._plan(tables, EraseRequest(ids=tuple(sorted(gone))), ())
        return replace(plan, rows=(*plan.rows, *left))


def _content(tables: StoreTables) -> TombstoneFile:
    return TombstoneFile(
        state=str(tables.property(_STATE)),
        keys=tables.tombstone_keys(),
        marks=tuple(
            StoredMark(
                mark=Mark(digest=bytes.fromhex(digest), owner=bytes.fromhex(owner), is_whole=bool(whole)),
                erasure=erasure,
                erased_at=erased_at,
            )
            for digest, owner, whole, erasure, erased_at in tables.execute(_ALL)
        ),
    )
