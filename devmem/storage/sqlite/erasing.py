"""Erasing items from a SQLite file: from its tables, its log, its index snapshot and its folder of attachments.

What is erased is recorded before the first change (`ErasePlan`, in the table `meta`), and the record goes when
everything is done: whoever opens the file after a crash finishes it.
"""

from __future__ import annotations

import json
import sqlite3
from abc import abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final, TypeVar

from devmem.model.items import MemoryItem
from devmem.storage.attachments import stored_names
from devmem.storage.erasure import FOREVER, EraseRequest, EraseResult, Residue, descendants, search_files
from devmem.storage.runs import HistoryLimit
from devmem.storage.sql import Sql
from devmem.storage.sqlite import database, predicates, rows
from devmem.storage.sqlite.follower import erasures_of
from devmem.storage.sqlite.reader import SqliteReader
from devmem.storage.sqlite.runs import forget_runs, runs_of_items, runs_of_versions
from devmem.storage.sqlite.version_writer import CurrentVersionWriter, remove_versions
from devmem.storage.sqlite.writes import is_named

T = TypeVar("T")

_PLAN: Final = "erasing"
_PARENTS: Final = '"parents":['
_PATIENCE_MS: Final = 2000
"""Milliseconds to wait for readers of an older state before the log is left to them."""
_OTHER_READERS: Final = "others read an older state: it is emptied when the store is next opened or forgotten from"


@dataclass(frozen=True, slots=True, kw_only=True)
class ErasePlan:
    """Versions and attachments that are still to be erased."""

    ids: tuple[str, ...] = ()
    rows: tuple[int, ...] = ()
    """Versions of items that stay."""
    attachments: tuple[str, ...] = ()

    @staticmethod
    def read(connection: sqlite3.Connection) -> ErasePlan | None:
        """Return the plan that a database records; None where nothing is to be done."""
        found = connection.execute("SELECT value FROM meta WHERE key = ?", (_PLAN,)).fetchone()
        return None if found is None else ErasePlan(**{key: tuple(part) for key, part in json.loads(found[0]).items()})

    def write(self, connection: sqlite3.Connection) -> None:
        """Record the plan in the place of an earlier one."""
        database.set_meta(connection, _PLAN, json.dumps(asdict(self)))

    def joined(self, other: ErasePlan | None) -> ErasePlan:
        """Return a plan of both."""
        if other is None:
            return self
        return ErasePlan(
            ids=_distinct(self.ids, other.ids),
            rows=_distinct(self.rows, other.rows),
            attachments=_distinct(self.attachments, other.attachments),
        )


def _distinct(first: tuple[T, ...], second: tuple[T, ...]) -> tuple[T, ...]:
    return tuple(dict.fromkeys((*first, *second)))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Found:
    """A stored version."""

    row: int
    id: str
    body: bytes
    item: MemoryItem | None
    """None where it is damaged."""
    is_current: bool


class SqliteEraser(SqliteReader):
    """The methods of `ErasableCollection`."""

    _in_file: bool
    _writer: sqlite3.Connection

    @abstractmethod
    def _delete(self, operation: Callable[[sqlite3.Connection], T]) -> T:
        """Run an operation that deletes in a write transaction, on a full disk too."""

    @abstractmethod
    def _with_writer(self, operation: Callable[[sqlite3.Connection], T]) -> T:
        """Run an operation with the connection for writing, which no other thread uses meanwhile."""

    def select_erasable(self, erasing: EraseRequest) -> list[MemoryItem]:
        """Return the selected items, expired ones included, and one version of those that are no longer there."""

        def select(connection: sqlite3.Connection) -> list[MemoryItem]:
            chosen: dict[str, MemoryItem] = {}
            for found in self._find_erasable(connection, erasing):
                if found.item is not None and (found.is_current or found.id not in chosen):
                    chosen[found.id] = found.item
            return [self._resolved(item) for item in chosen.values()]

        return self._read(select)

    def derived_from(self, ids: Sequence[str]) -> list[MemoryItem]:
        """Return the items that were derived from some items, or from such items."""

        def derive(connection: sqlite3.Connection) -> list[MemoryItem]:
            clause: Sql = ("instr(body, ?)", [_PARENTS])
            with_parents = [found.item for found in self._versions(connection, clause) if found.item is not None]
            return descendants(with_parents, ids)

        return self._read(derive)

    def begin_erasure(self, erasing: EraseRequest, derived: Sequence[str] = ()) -> list[str]:
        """Record durably what is erased from now on, and return its ids."""

        def begin(connection: sqlite3.Connection) -> list[str]:
            found = list(self._find_erasable(connection, erasing))
            current = {each.id for each in found if each.is_current}
            gone = {each.id for each in found if not each.is_current and not _is_there(connection, each.id)}
            ids = _distinct(tuple(each.id for each in found if each.id in current | gone), tuple(derived))
            versions = tuple(each.row for each in found if each.id not in ids)
            whole = [each for one in ids for each in self._versions(connection, ("id = ?", [rows.sql_text(one)]))]
            files = {name for each in (*found, *whole) for name in stored_names(each.body.decode(errors="replace"))}
            plan = ErasePlan(ids=ids, rows=versions, attachments=tuple(sorted(files)))
            plan.joined(ErasePlan.read(connection)).write(connection)
            return list(ids)

        return self._delete(begin)

    def planned_erasure(self) -> list[str] | None:
        """Return the ids of an erasure that has begun and not ended; None without one."""
        plan = self._read(ErasePlan.read)
        return None if plan is None else list(plan.ids)

    def finish_erasure(self, words: Sequence[str] = (), *, vacuum: bool = False) -> EraseResult:
        """Remove what is planned, with every version, from the database, its log and its index snapshot."""
        items = self._delete(self._erase_planned)
        if not self._in_file:
            self._delete(_end)
            return EraseResult(items=items)
        reached, unreached = self._with_writer(lambda writer: self._clean_files(writer, words, vacuum=vacuum))
        unreached = [*self._attachments_left(), *unreached]
        if not unreached:
            self._delete(_end)
            self._with_writer(_empty_log)
        return EraseResult(items=items, reached=tuple(reached), unreached=tuple(unreached))

    def _attachments_left(self) -> list[Residue]:
        """Return the attachments that no item needs any more, and that could not be removed."""
        plan, attachments = self._read(ErasePlan.read), self._attachments
        if plan is None or attachments is None:
            return []
        there = [name for name in plan.attachments if (attachments.folder / name).exists()]
        left = self._read(lambda connection: [name for name in there if not is_named(connection, name)])
        reason = "the attachment could not be removed"
        return [Residue(place=str(attachments.folder / name), reason=reason) for name in left]

    def _find_erasable(self, connection: sqlite3.Connection, erasing: EraseRequest) -> Iterator[_Found]:
        """Find the selected versions, current ones first."""
        condition, values = predicates.where_sql(erasing.where, FOREVER, self._indexed)
        if erasing.run is not None:
            condition = f"({condition}) AND (run = ? OR change_run = ?)"
            values = [*values, *[rows.sql_text(erasing.run)] * 2]
        clauses = [(condition, values)]
        if erasing.ids is not None:
            clauses = [(f"id = ? AND {condition}", [rows.sql_text(one), *values]) for one in erasing.ids]
        for clause in clauses:
            for found in self._versions(connection, clause):
                if erasing.text is None or (found.item is not None and erasing.contains_text(found.item)):
                    yield found

    def _versions(self, connection: sqlite3.Connection, clause: Sql) -> Iterator[_Found]:
        condition, values = clause
        for table in ("items", "versions"):
            query = f"SELECT row, id, CAST(body AS BLOB), body_checksum FROM {table} WHERE {condition} ORDER BY row"
            for row, name, body, checksum in connection.execute(query, values).fetchall():
                item = rows.item_from_row(self._damaged, row, body, checksum)
                found_id = name if item is None else item.id
                yield _Found(row=row, id=found_id, body=body or b"", item=item, is_current=table == "items")

    def _erase_planned(self, connection: sqlite3.Connection) -> int:
        plan = ErasePlan.read(connection) or ErasePlan()
        version_writer = CurrentVersionWriter(
            connection, self._attachments, limit=HistoryLimit(days=None), now=self._clock()
        )
        items = 0
        runs: set[str] = set()
        for one in map(rows.sql_text, plan.ids):
            runs |= runs_of_items(connection, "id = ?", [one]) | runs_of_versions(connection, "id = ?", [one])
            items += version_writer.remove("id = ?", [one])
            remove_versions(connection, self._attachments, "id = ?", [one])
        for row in plan.rows:
            runs |= runs_of_versions(connection, "row = ?", [row])
            remove_versions(connection, self._attachments, "row = ?", [row])
        forget_runs(connection, runs)
        if self._attachments is not None:
            self._attachments.released |= set(plan.attachments)
        database.set_meta(connection, "erasures", erasures_of(database.read_meta(connection)) + 1)
        database.set_meta(connection, "snapshot", None)
        ErasePlan(attachments=plan.attachments).write(connection)
        return items

    def _clean_files(
        self, writer: sqlite3.Connection, words: Sequence[str], *, vacuum: bool
    ) -> tuple[list[str], list[Residue]]:
        """Remove the index snapshot, empty the log, and look for words; return what was reached, and what was not."""
        unreached = _remove(Path(f"{self.location}.faiss"))
        if vacuum:
            unreached += _vacuum(writer, self.location)
        unreached += _log_left(writer, self.location)
        reached, left = self._search_files(writer, words)
        if any(one.place == self.location for one in left) and not vacuum:
            # Pages that were freed before the file was one with secure deletion.
            unreached += _vacuum(writer, self.location) or _log_left(writer, self.location)
            reached, left = self._search_files(writer, words)
        return reached, [*unreached, *left]

    def _search_files(self, writer: sqlite3.Connection, words: Sequence[str]) -> tuple[list[str], list[Residue]]:
        places = [Path(f"{self.location}{suffix}") for suffix in ("", "-wal", ".faiss")]
        return search_files(places, words, lambda word: _is_kept(writer, word)) if words else ([], [])


def _is_there(connection: sqlite3.Connection, item_id: str) -> bool:
    found = connection.execute("SELECT 1 FROM items WHERE id = ?", (rows.sql_text(item_id),)).fetchone()
    return found is not None


def _is_kept(connection: sqlite3.Connection, word: str) -> bool:
    """Whether a word is in what the database still holds."""
    places = (
        ("items", "body"),
        ("versions", "body"),
        *((table, "COALESCE(change_run, '') || ' ' || COALESCE(change_actor, '')") for table in ("items", "versions")),
        ("versions", "COALESCE(end_run, '') || ' ' || COALESCE(end_actor, '')"),
        ("runs", "run || ' ' || COALESCE(actor, '')"),
        ("meta", "value"),
        ("sqlite_master", "sql"),
    )
    queries = (f"SELECT 1 FROM {table} WHERE instr({column}, ?) LIMIT 1" for table, column in places)
    return any(connection.execute(query, (word,)).fetchone() for query in queries)


def _end(connection: sqlite3.Connection) -> None:
    connection.execute("DELETE FROM meta WHERE key = ?", (_PLAN,))


def _remove(file: Path) -> list[Residue]:
    try:
        file.unlink(missing_ok=True)
    except OSError as error:
        return [Residue(place=str(file), reason=f"it cannot be removed: {error}", failed=True)]
    return []


def _vacuum(writer: sqlite3.Connection, location: str) -> list[Residue]:
    try:
        writer.execute("VACUUM")
    except sqlite3.Error as error:
        return [Residue(place=location, reason=f"it could not be rewritten: {error}", failed=True)]
    return []


def _log_left(writer: sqlite3.Connection, location: str) -> list[Residue]:
    return [] if _empty_log(writer) else [Residue(place=f"{location}-wal", reason=_OTHER_READERS)]


def _empty_log(writer: sqlite3.Connection) -> bool:
    """Move the log into the database and truncate it; return whether nothing of it is left."""
    (patience,) = writer.execute("PRAGMA busy_timeout").fetchone()
    writer.execute(f"PRAGMA busy_timeout = {min(patience, _PATIENCE_MS)}")
    try:
        is_busy, _, _ = writer.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
    except sqlite3.OperationalError:
        # Locked by another process's checkpoint; whoever asks reports the log as not reached.
        return False
    finally:
        writer.execute(f"PRAGMA busy_timeout = {patience}")
    return not is_busy
