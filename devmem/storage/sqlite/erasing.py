"""Erasing items from a SQLite file: from its tables, its log, its index snapshot and its folder of attachments.

Each erasure is recorded before its first change (`ErasePlan`, in the table `pending`), and the record goes when it is
done: whoever opens the file after a crash finishes it.
"""

from __future__ import annotations

import json
import logging
import sqlite3
from abc import abstractmethod
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Final, TypeVar
from uuid import uuid4

from devmem.model.items import MemoryItem, load_item_json
from devmem.storage.attachments import stored_names
from devmem.storage.erasure import (
    FOREVER,
    ErasePlan,
    EraseRequest,
    EraseResult,
    Residue,
    descendants,
    search_files,
)
from devmem.storage.sidecar_db import empty_log, rewrite_pages
from devmem.storage.sql import Sql
from devmem.storage.sqlite import database
from devmem.storage.sqlite.database import is_named
from devmem.storage.sqlite.follower import erasures_of
from devmem.storage.sqlite.reader import SqliteReader
from devmem.storage.sqlite.runs import Runs
from devmem.storage.sqlite.schema import NOW
from devmem.text.files import WorkMarker, is_at_work

T = TypeVar("T")

_LOG: Final = logging.getLogger(__name__)
_PLAN: Final = "erasure"
"""Kind of pending work."""


def read_plans(connection: sqlite3.Connection) -> list[ErasePlan]:
    """Return the plans that a database records."""
    found = connection.execute("SELECT key, payload FROM pending WHERE kind = ? ORDER BY number", (_PLAN,)).fetchall()
    return [_plan_of(key, json.loads(payload)) for key, payload in found]


def _plan_of(key: str, plan: Mapping[str, Any]) -> ErasePlan:
    ids, rows, attachments = (tuple(plan[name]) for name in ("ids", "rows", "attachments"))
    return ErasePlan(id=key, ids=ids, rows=rows, attachments=attachments, items=plan["items"])


def write_plan(connection: sqlite3.Connection, plan: ErasePlan) -> None:
    """Record a plan."""
    payload = {"ids": plan.ids, "rows": plan.rows, "attachments": plan.attachments, "items": plan.items}
    statement = "INSERT OR REPLACE INTO pending(kind, key, payload) VALUES (?, ?, ?)"
    connection.execute(statement, (_PLAN, plan.id, json.dumps(payload)))


def end_plan(connection: sqlite3.Connection, plan: ErasePlan) -> None:
    """Forget a plan."""
    connection.execute("DELETE FROM pending WHERE kind = ? AND key = ?", (_PLAN, plan.id))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Found:
    """A stored version."""

    row: int
    item: MemoryItem
    is_current: bool


class SqliteEraser(SqliteReader):
    """The methods of `ErasableCollection`."""

    _in_file: bool
    _markers: dict[str, WorkMarker]
    """Of the erasures that this collection is at work on, by their ids."""

    @abstractmethod
    def _delete(self, operation: Callable[[sqlite3.Connection], T]) -> T:
        """Run an operation that deletes in a write transaction, on a full disk too."""

    @abstractmethod
    def _with_writer(self, operation: Callable[[sqlite3.Connection], T]) -> T:
        """Run an operation with the connection for writing, which no other thread uses meanwhile."""

    def select_erasable(self, request: EraseRequest) -> list[MemoryItem]:
        """Return the selected items, expired ones included, and one version of those that are no longer there."""

        def select(connection: sqlite3.Connection) -> list[MemoryItem]:
            chosen: dict[str, MemoryItem] = {}
            current: set[str] = set()
            for found in self._find_erasable(connection, request):
                item_id = found.item.id
                current |= {item_id} if found.is_current else set()
                # Of what is gone, or in the archive, the last version.
                if found.is_current or item_id not in current:
                    chosen[item_id] = found.item
            return [self._resolved(item) for item in chosen.values()]

        return self._read(select)

    def derived_from(self, ids: Sequence[str]) -> list[MemoryItem]:
        """Return the items that were derived from some items, or from such items."""

        def derive(connection: sqlite3.Connection) -> list[MemoryItem]:
            clause: Sql = ("derived = 1", [])
            return descendants([found.item for found in self._versions(connection, clause)], ids)

        return self._read(derive)

    def begin_erasure(self, request: EraseRequest, derived: Sequence[str] = ()) -> ErasePlan:
        """Record durably what is erased from now on."""
        # Before the plan, which would else be another process's to finish at once.
        plan_id = self._begin_work()

        def begin(connection: sqlite3.Connection) -> ErasePlan:
            plan = replace(self._plan(connection, request, derived), id=plan_id)
            write_plan(connection, plan)
            return plan

        try:
            return self._delete(begin)
        except BaseException:
            self._end_work(plan_id)
            raise

    def _begin_work(self) -> str:
        """Return the id of a new plan, and show other processes that this one is at work on it."""
        try:
            marker = WorkMarker(Path(self.location)) if self._in_file else None
        except OSError as error:
            # Where no file can be made, as on a full disk, another process may do the same work a second time.
            _LOG.debug("%s: an erasure is not marked as begun: %s", self.location, error)
            marker = None
        if marker is None:
            return uuid4().hex
        self._markers[marker.name] = marker
        return marker.name

    def _end_work(self, plan_id: str) -> None:
        """Leave a plan, if it has not ended, to whoever opens the store."""
        if (marker := self._markers.pop(plan_id, None)) is not None:
            marker.remove()

    def _plan(self, connection: sqlite3.Connection, request: EraseRequest, derived: Sequence[str]) -> ErasePlan:
        found = list(self._find_erasable(connection, request))
        current = _ids_among(connection, {each.item.id for each in found}, NOW)
        # What stays as the current version keeps those that do not match.
        stays = current - {each.item.id for each in found if each.is_current}
        ids = tuple(dict.fromkeys((*(each.item.id for each in found if each.item.id not in stays), *derived)))
        numbers = tuple(each.row for each in found if each.item.id in stays)
        named = [json.dumps(ids), json.dumps(numbers)]
        bodies = connection.execute(f"SELECT body FROM items WHERE instr(body, '.files/') AND ({_PLANNED})", named)
        files = {name for (body,) in bodies for name in stored_names(body)}
        # An item that two erasures plan at once is counted by the first of them, unless its process has died.
        plans = [plan for plan in read_plans(connection) if not self._in_file or self._is_executed(plan)]
        counted = {one for plan in plans for one in plan.ids}
        items = _ids_among(connection, set(ids) - counted, f"(+{NOW} OR +archived = 1)")
        return ErasePlan(ids=ids, rows=numbers, attachments=tuple(sorted(files)), items=len(items))

    def planned_erasures(self) -> list[ErasePlan]:
        """Return the erasures that have begun and not ended."""
        return [replace(plan, is_executed=self._is_executed(plan)) for plan in self._read(read_plans)]

    def _is_executed(self, plan: ErasePlan) -> bool:
        return self._in_file and bool(plan.id) and is_at_work(Path(self.location), plan.id)

    def withdraw_erasure(self, plan: ErasePlan) -> None:
        """Forget a plan of which nothing was done."""
        try:
            self._delete(lambda connection: end_plan(connection, plan))
        finally:
            self._end_work(plan.id)

    def finish_erasure(self, plan: ErasePlan, words: Sequence[str] = (), *, vacuum: bool = False) -> EraseResult:
        """Remove what is planned, with every version, from the database, its log and its index snapshot."""
        try:
            return self._finish(plan, words, vacuum=vacuum)
        finally:
            self._end_work(plan.id)

    def _finish(self, plan: ErasePlan, words: Sequence[str], *, vacuum: bool) -> EraseResult:
        done = self._delete(lambda connection: self._erase_planned(connection, plan))
        if not self._in_file:
            self._delete(lambda connection: end_plan(connection, done))
            return EraseResult(items=plan.items)

        def is_kept(writer: sqlite3.Connection, word: str) -> bool:
            return _is_kept(writer, word, plan)

        reached, residues = self._with_writer(
            lambda writer: self._clean_files(writer, words, partial(is_kept, writer), vacuum=vacuum)
        )
        residues = [*self._attachments_left(done), *residues]
        if not residues:
            self._delete(lambda connection: end_plan(connection, done))
            self._with_writer(lambda writer: empty_log(writer, self.location))
        return EraseResult(items=plan.items, reached=tuple(reached), residues=tuple(residues))

    def _attachments_left(self, plan: ErasePlan) -> list[Residue]:
        """Return the attachments that no item needs any more, and that could not be removed."""
        attachments = self._attachments
        if attachments is None:
            return []
        there = [name for name in plan.attachments if (attachments.folder / name).exists()]
        left = self._read(lambda connection: [name for name in there if not is_named(connection, name)])
        reason = "the attachment could not be removed"
        return [Residue(place=str(attachments.folder / name), reason=reason) for name in left]

    def _find_erasable(self, connection: sqlite3.Connection, request: EraseRequest) -> Iterator[_Found]:
        """Find the selected versions, current ones first."""
        condition, values = self._filters.where(request.where, FOREVER)
        if request.run is not None:
            condition = f"({condition}) AND (run = ? OR change_run = ?)"
            values = [*values, request.run, request.run]
        if request.ids is not None:
            condition = f"id IN (SELECT value FROM json_each(?)) AND {condition}"
            values = [json.dumps(request.ids), *values]
        for found in self._versions(connection, (condition, values)):
            if request.text is None or request.contains_text(found.item):
                yield found

    def _versions(self, connection: sqlite3.Connection, clause: Sql) -> Iterator[_Found]:
        condition, values = clause
        query = f"SELECT row, slot, CAST(body AS BLOB) FROM items WHERE {condition} ORDER BY slot <> 'now', row"
        for row, slot, body in connection.execute(query, values).fetchall():
            yield _Found(row=row, item=load_item_json(body), is_current=slot == "now")

    def _erase_planned(self, connection: sqlite3.Connection, plan: ErasePlan) -> ErasePlan:
        """Erase from the tables, and record what is left to do then: the files."""
        runs = Runs(connection, self._attachments, self.location)
        runs.erase_versions(_PLANNED, [json.dumps(plan.ids), json.dumps(plan.rows)])
        covered = [other for other in read_plans(connection) if other.id != plan.id and plan.covers(other)]
        for other in covered:
            end_plan(connection, other)
        files = {name for each in (plan, *covered) for name in each.attachments}
        if self._attachments is not None:
            self._attachments.released |= files
        database.set_meta(connection, "erasures", erasures_of(database.read_meta(connection)) + 1)
        database.set_meta(connection, "snapshot", None)
        done = ErasePlan(id=plan.id, attachments=tuple(sorted(files)))
        write_plan(connection, done)
        return done

    def _clean_files(
        self, writer: sqlite3.Connection, words: Sequence[str], is_kept: Callable[[str], bool], *, vacuum: bool
    ) -> tuple[list[str], list[Residue]]:
        """Remove the index snapshot, empty the log, and look for words; return what was reached, and what was not."""
        residues = _remove(Path(f"{self.location}.faiss"))
        if vacuum:
            residues += rewrite_pages(writer, self.location)
        residues += empty_log(writer, self.location)
        places = [Path(f"{self.location}{suffix}") for suffix in ("", "-wal", ".faiss")] if words else []
        reached, left = search_files(places, words, is_kept)
        if any(one.place == self.location for one in left) and not vacuum:
            # Pages that were freed before the file was one with secure deletion.
            residues += rewrite_pages(writer, self.location) or empty_log(writer, self.location)
            reached, left = search_files(places, words, is_kept)
        return reached, [*residues, *left]


_PEOPLE: Final = ("change_run", "change_actor", "end_run", "end_actor")
_PLANNED: Final = "id IN (SELECT value FROM json_each(?)) OR row IN (SELECT value FROM json_each(?))"


def _ids_among(connection: sqlite3.Connection, ids: Collection[str], condition: str) -> set[str]:
    """Return those of some ids of which a version matches a condition."""
    query = f"SELECT id FROM items WHERE id IN (SELECT value FROM json_each(?)) AND {condition}"
    return {found for (found,) in connection.execute(query, (json.dumps(sorted(ids)),))}


def _is_kept(connection: sqlite3.Connection, word: str, plan: ErasePlan) -> bool:
    """Whether a word is in what the database still holds, in other places than the versions that are to be gone."""
    kept = f"SELECT 1 FROM items WHERE instr(body, ?) AND NOT ({_PLANNED}) LIMIT 1"
    if connection.execute(kept, (word, json.dumps(plan.ids), json.dumps(plan.rows))).fetchone():
        return True
    places = (
        ("items", " || ' ' || ".join(f"COALESCE({each}, '')" for each in _PEOPLE)),
        ("runs", "run || ' ' || COALESCE(actor, '')"),
        ("meta", "value"),
        ("states", "name || ' ' || value"),
        ("sqlite_master", "sql"),
    )
    queries = (f"SELECT 1 FROM {table} WHERE instr({column}, ?) LIMIT 1" for table, column in places)
    return any(connection.execute(query, (word,)).fetchone() for query in queries)


def _remove(file: Path) -> list[Residue]:
    try:
        file.unlink(missing_ok=True)
    except OSError as error:
        return [Residue(place=str(file), reason=f"it cannot be removed: {error}", failed=True)]
    return []
