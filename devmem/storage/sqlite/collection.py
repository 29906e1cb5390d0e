"""The SQLite collection: rows, full text and embeddings in one file, written in one transaction.

Several processes may use the file at once (WAL). The search indexes are a cache in memory (`follower.py`). Erasing
reaches the log and the index snapshot too.
"""

from __future__ import annotations

import json
import logging
import os
import sqlite3
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Final, TypeVar, Unpack
from uuid import uuid4

from pydantic import TypeAdapter

from devmem.encryption.files import connect
from devmem.errors import CollectionError, CollectionUnwritableError
from devmem.forks import follow_forks
from devmem.storage.connections import empty_log, rewrite_pages, write_transaction
from devmem.storage.erasing import end_plan, erase_planned, insert_marks, set_keys, write_plan
from devmem.storage.erasure import ErasePlan, EraseRequest, EraseResult, Residue, search_files, words_of
from devmem.storage.opening import CollectionOptions, path_of
from devmem.storage.protocol import MOST_EXPORTS, ExportRecord
from devmem.storage.runs import planned
from devmem.storage.sqlite.database import MEMORY, translate_errors
from devmem.storage.sqlite.predicates import SqliteDialect
from devmem.storage.sqlite.transactions import SqliteDatabase
from devmem.storage.tables import StoreTables
from devmem.storage.tombstones import SUFFIX, Mark, TombstoneFile, new_state, read_tombstone_file
from devmem.storage.versions import VersionedCollection
from devmem.text.files import WorkMarker, is_at_work

T = TypeVar("T")

_LOG: Final = logging.getLogger(__name__)
_MOST_SOUGHT: Final = 256
"""Items whose words are looked for, and words that are; where there are more, the file is rewritten instead."""
_PRUNE: Final = "DELETE FROM exports WHERE number <= (SELECT max(number) FROM exports) - ?"


def record_backup(path: Path, backup: Path, *, items: int, made_at: float) -> None:
    """Record, in a collection's file, that a backup was made of it.

    Args:
        path: the collection's file.
        backup: the backup.
        items: number of items in it.
        made_at: seconds since the epoch.

    Raises:
        CollectionError: the file cannot be written.
    """
    record = ExportRecord(kind="backup", place=str(backup.absolute()), made_at=made_at, items=items)
    with translate_errors(str(path)), closing(connect(path, timeout=30.0, isolation_level=None)) as connection:
        write_transaction(connection, lambda _: _record(connection.execute, record))


def _record(execute: Callable[[str, Sequence[object]], object], export: ExportRecord) -> None:
    execute("INSERT INTO exports(body) VALUES (?)", (json.dumps(export.to_json()),))
    execute(_PRUNE, (MOST_EXPORTS,))


class SqliteCollection(VersionedCollection):
    """Items in a SQLite file, or in memory; `Collection` documents the methods.

    Tombstones are a table of the database, and a file beside it that outlives a backup put in its place.
    """

    database: SqliteDatabase

    def __init__(self, location: str | Path = MEMORY, **options: Unpack[CollectionOptions]) -> None:
        """Open the collection, or create it; `location` is the path of the file, or `:memory:`.

        Raises:
            CollectionDamagedError, CollectionUnwritableError, CollectionBusyError: the file cannot be used.
            CollectionInUseError, EmbeddingMismatchError: it holds items of another store type, or of another model.
            TypeError: the location is not a path.
        """
        super().__init__(SqliteDatabase(os.fspath(location), **options))
        self._markers: dict[str, WorkMarker] = {}
        """Of the erasures that this collection is at work on, by their ids."""
        self._words: dict[str, list[str]] = {}
        """Words of what these erase."""
        self._unsearched: ErasePlan | None = None
        """An erasure that is done but for the search of the files, with which it waits for the closing."""
        self._unsearched_words: list[str] | None = []
        """Words of this erasure and of later ones; None where they are too many."""
        follow_forks(self)

    def restart_in_child(self) -> None:
        """Leave the erasures to the parent."""
        self._markers, self._words, self._unsearched = {}, {}, None

    def close(self) -> None:
        """Look for what was erased, write the index snapshot and release the files."""
        try:
            self._search_erased()
        finally:
            super().close()
            for plan_id in list(self._markers):
                self._end_work(plan_id)

    def record_export(self, export: ExportRecord) -> None:
        """Remember an export, durably."""
        self.database.write(lambda tables: _record(tables.execute, export))

    def exports(self) -> list[ExportRecord]:
        """Return the exports that were made, the oldest first."""
        read = TypeAdapter(ExportRecord).validate_json
        return [read(body) for (body,) in self._fetch("SELECT body FROM exports ORDER BY number")]

    def _begin_work(self) -> str:
        """Return the id of a new plan, and show other processes that this one is at work on it."""
        try:
            marker = WorkMarker(Path(self.location)) if self.database.in_file else None
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

    def _is_executed(self, plan: ErasePlan) -> bool:
        # No other process works on a database in memory.
        return not self.database.in_file or (bool(plan.id) and is_at_work(Path(self.location), plan.id))

    def begin_erasure(self, request: EraseRequest, derived: Sequence[str] = ()) -> ErasePlan:
        """Record durably what is erased from now on; `planned_erasures` returns it until the end."""
        plan = super().begin_erasure(request, derived)
        if self.database.in_file and len(plan.ids) + len(plan.rows) <= _MOST_SOUGHT:
            condition = planned(self.database.dialect, plan.ids, plan.rows)
            versions = self.database.read(lambda tables: list(self._versions(tables, condition)))
            self._words[plan.id] = words_of([found.item for found in versions])
        return plan

    def finish_erasure(self, plan: ErasePlan, words: Sequence[str] = (), *, vacuum: bool = False) -> EraseResult:
        """Remove what is planned, with every version, from the database, its log and its index snapshot.

        What SQLite deletes it overwrites, but it leaves copies where it rebuilt a page. Without `words` and
        `vacuum` these are looked for when the collection is closed.
        """
        try:
            return self._finish(plan, words, vacuum=vacuum)
        finally:
            self._words.pop(plan.id, None)
            if self._unsearched is None or self._unsearched.id != plan.id:
                self._end_work(plan.id)

    def _finish(self, plan: ErasePlan, words: Sequence[str], *, vacuum: bool) -> EraseResult:
        done = self.database.remove(lambda tables: self._erase_planned(tables, plan))
        if not self.database.in_file:
            self.database.remove(lambda tables: end_plan(tables, done))
            return EraseResult(items=plan.items)

        known = self._words.get(plan.id)
        sought = list(dict.fromkeys((*words, *(known or ())))) if words else ()
        residues = _remove(Path(f"{self.location}.faiss"))
        reached, left = self._clean_files(plan, sought, vacuum=vacuum)
        residues += left
        if not residues and (words or vacuum or not self._search_later(done, known)):
            self._end_plan(done)
        return EraseResult(items=plan.items, reached=tuple(reached), residues=tuple(residues))

    def _end_plan(self, plan: ErasePlan) -> None:
        self.database.remove(lambda tables: end_plan(tables, plan))
        self.database.with_writer(lambda writer: empty_log(writer, self.location))

    def _search_later(self, done: ErasePlan, words: Sequence[str] | None) -> bool:
        """Look for words when the collection is closed; return whether the plan stays until then.

        That of the first erasure does, so that, if this process dies, another one rewrites the file instead.
        """
        if words == []:
            return False
        before = self._unsearched_words
        self._unsearched_words = None if words is None or before is None else [*before, *words]
        if self._unsearched is None:
            self._unsearched = done
        return self._unsearched is done

    def _search_erased(self) -> None:
        """Look for what was erased and not looked for; rewrite the file where some of it is left, or it was much."""
        plan, words = self._unsearched, self._unsearched_words
        self._unsearched, self._unsearched_words = None, []
        if plan is None:
            return
        if words is not None and len(words) > _MOST_SOUGHT:
            words = None
        try:
            _, residues = self._clean_files(plan, words or (), vacuum=words is None)
            if not residues:
                self._end_plan(plan)
        except (CollectionError, OSError) as error:
            # The plan stays, by which the next opening does it.
            _LOG.warning("%s: it was not searched for what was erased: %s", self.location, error)

    def _erase_planned(self, tables: StoreTables, plan: ErasePlan) -> ErasePlan:
        """Erase from the tables, and record what is left to do then: the files."""
        erase_planned(tables, plan)
        tables.set_property("erasures", int(tables.property("erasures") or 0) + 1)
        tables.set_property("snapshot", None)
        done = ErasePlan(id=plan.id)
        write_plan(tables, done)
        return done

    def _clean_files(self, plan: ErasePlan, words: Sequence[str], *, vacuum: bool) -> tuple[list[str], list[Residue]]:
        """Empty the log, and look for words; return what was reached, and what was not."""

        def clean(writer: sqlite3.Connection) -> tuple[list[str], list[Residue]]:
            is_kept = partial(_is_kept, writer, plan)
            residues = rewrite_pages(writer, self.location) if vacuum else []
            residues += empty_log(writer, self.location)
            places = [Path(f"{self.location}{suffix}") for suffix in ("", "-wal", ".faiss")] if words else []
            reached, left = search_files(places, words, is_kept)
            if any(one.place == self.location for one in left) and not vacuum:
                # In copies that SQLite left in unused parts of its pages.
                residues += rewrite_pages(writer, self.location) or empty_log(writer, self.location)
                reached, left = search_files(places, words, is_kept)
            return reached, [*residues, *left]

        return self.database.with_writer(clean)

    @property
    def _beside(self) -> Path | None:
        """The file beside the database; None in memory."""
        return Path(f"{self.location}{SUFFIX}") if self.database.in_file else None

    def _change_tombstones(self, change: Callable[[StoreTables], T]) -> T:
        """Change tombstones in the database, then in the file beside it."""

        def changed(tables: StoreTables) -> tuple[T, TombstoneFile]:
            result = change(tables)
            tables.set_property(_STATE, new_state())
            return result, _content(tables)

        result, content = self.database.write(changed)
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
        if path is None or self.database.read_only or not path.exists():
            return EraseResult()
        beside = read_tombstone_file(path)
        if beside is None or beside.state == self.database.read(lambda tables: tables.property(_STATE)):
            return EraseResult()

        def merge(tables: StoreTables) -> ErasePlan | None:
            insert_marks(tables, beside.marks)
            set_keys(tables, tuple(dict.fromkeys((*beside.keys, *tables.tombstone_keys()))))
            plan = self._erased_before(tables)
            if plan is not None:
                write_plan(tables, plan)
            return plan

        plan = self._change_tombstones(merge)
        return EraseResult() if plan is None else self.finish_erasure(plan, vacuum=True)

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


_STATE: Final = "tombstone_state"


def _content(tables: StoreTables) -> TombstoneFile:
    found = tables.execute(f"SELECT {', '.join(Mark._fields)} FROM tombstones ORDER BY erased_at, digest")
    marks = tuple(map(Mark._make, found))
    return TombstoneFile(state=str(tables.property(_STATE)), keys=tables.tombstone_keys(), marks=marks)


_PEOPLE: Final = ("change_run", "change_actor", "end_run", "end_actor")


def _is_kept(connection: sqlite3.Connection, plan: ErasePlan, word: str) -> bool:
    """Whether a word is in what the database still holds, in other places than the versions that are to be gone."""
    gone, values = planned(SqliteDialect(), plan.ids, plan.rows)
    kept = f"SELECT 1 FROM items WHERE instr(body, ?) AND NOT ({gone}) LIMIT 1"
    if connection.execute(kept, (word, *values)).fetchone():
        return True
    places = (
        ("items", " || ' ' || ".join(f"COALESCE({each}, '')" for each in _PEOPLE)),
        ("runs", "run || ' ' || COALESCE(actor, '')"),
        ("meta", "value"),
        ("states", "name || ' ' || value"),
        ("attachments", "content"),
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


def open_sqlite(location: str, _name: str | None, /, **options: Unpack[CollectionOptions]) -> SqliteCollection:
    """Open the SQLite file at a path, at `sqlite:///relative.db` or at `sqlite:////absolute.db`.

    Raises:
        CollectionError: it cannot be opened.
    """
    return SqliteCollection(path_of(location), **options)
