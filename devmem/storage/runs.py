"""The runs of a store: beginning, ending, committing and undoing them, within one transaction."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from typing import Any, Final

from devmem.errors import RunConflictError, RunStateError
from devmem.model.caller import current_actor
from devmem.model.items import PARENT_HASH, MemoryItem, is_fact
from devmem.model.versions import GONE, Operation, RunInfo, RunState
from devmem.storage.changes import CurrentVersionWriter
from devmem.storage.sql import Dialect
from devmem.storage.tables import GONE_SQL, NOW, StoreTables, slot_of
from devmem.storage.writing import VersionEnd, recorded, seconds

_COLUMNS: Final = "run, state, actor, started_at, ended_at, committed_at"
_FOREVER: Final = 1 << 62
"""Later than every recorded time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Undo:
    """The versions by which a run's change of one item is undone."""

    left: int | None
    """Row of the current item, which the run wrote; None where it deleted the item."""
    replaced: int | None
    """Row of the version that was the current one before; None where there was none, or where it is back already."""


class Runs:
    """The runs of a store within one transaction."""

    def __init__(self, tables: StoreTables) -> None:
        """Take the tables of the store."""
        self._tables, self._of, self.location = tables, tables.of, tables.location

    def touched(self, run: str) -> str:
        """Return the query of the ids of the items that a run changed, or is about to; `run` is an expression."""
        ids = f"SELECT id FROM items WHERE {self._of} AND"
        return f"{ids} change_run = {run} UNION {ids} end_run = {run}"

    def _changes(self, which: str) -> str:
        """Return the query of run and recorded time of the committed changes of some runs."""
        return (
            f"SELECT change_run AS run, began AS at FROM items WHERE {self._of} AND change_run {which} "
            f"AND began IS NOT NULL UNION ALL SELECT end_run, ended FROM items WHERE {self._of} AND end_run {which}"
        )

    def find(self, run: str) -> RunInfo | None:
        """Return what is known of a run; None when it has written nothing."""
        found = self._one(f"SELECT {_COLUMNS} FROM runs WHERE {self._of} AND run = ?", run)
        if found is not None:
            return self._info(*found)
        times = self.span(run)
        return None if times is None else self._seen_at_once(run, *times)

    def read(self, run: str) -> RunInfo:
        """Return what is known of a run.

        Raises:
            RunStateError: it has written nothing.
        """
        found = self.find(run)
        if found is None:
            raise RunStateError(self.location, run, "unknown", "no run of this id has written anything here")
        return found

    def newest(self, limit: int) -> list[RunInfo]:
        """Return the runs that began last, newest first, at most `limit`."""
        query = f"SELECT {_COLUMNS} FROM runs WHERE {self._of} ORDER BY started_at DESC, run LIMIT ?"
        found = [self._info(*row) for row in self._tables.execute(query, (limit,))]
        never_pending = (
            f"SELECT run, min(at), max(at) FROM ({self._changes('IS NOT NULL')}) AS changes "
            f"WHERE run NOT IN (SELECT run FROM runs WHERE {self._of}) GROUP BY run ORDER BY 2 DESC, run LIMIT ?"
        )
        found += [self._seen_at_once(*each) for each in self._tables.execute(never_pending, (limit,))]
        return sorted(found, key=lambda info: (-info.started_at, info.run))[:limit]

    def _info(
        self, run: str, state: str, actor: str | None, started: int, ended: int | None, _committed: int | None
    ) -> RunInfo:
        ((changes,),) = self._tables.execute(f"SELECT count(*) FROM ({self.touched('?')}) AS touched", (run, run))
        return RunInfo(
            run=run,
            state=RunState(state),
            actor=actor,
            started_at=seconds(started),
            ended_at=None if ended is None else seconds(ended),
            changes=changes,
        )

    def _seen_at_once(self, run: str, first: int, last: int) -> RunInfo:
        """Return a run whose changes were seen by all at once, and of which only they tell."""
        return self._info(run, RunState.COMMITTED, None, first, last, last)

    def span(self, run: str) -> tuple[int, int] | None:
        """Return the recorded times of a run's first and last committed change; None when no change of it is kept."""
        query = f"SELECT min(at), max(at) FROM ({self._changes('= ?')}) AS changes"
        ((first, last),) = self._tables.execute(query, (run, run))
        return None if first is None else (first, last)

    def committed_at(self, run: str) -> int | None:
        """Return the recorded time from which on everybody sees what a run wrote; None when none of it is kept."""
        found = self._one(f"SELECT committed_at FROM runs WHERE {self._of} AND run = ?", run)
        if found is not None:
            return None if found[0] is None else int(found[0])
        times = self.span(run)
        return None if times is None else times[1]

    def check_open(self, run: str) -> None:
        """Refuse a run that has ended.

        Raises:
            RunStateError: it has.
        """
        found = self._one(f"SELECT state FROM runs WHERE {self._of} AND run = ?", run)
        if found is not None and found[0] != RunState.PENDING:
            raise RunStateError(self.location, run, found[0], "nothing can be written in it; use another id")

    def begin(self, run: str, actor: str | None, at: int) -> None:
        """Record a run as pending since a recorded time, unless it is already.

        Raises:
            RunStateError: it has ended.
        """
        self.check_open(run)
        self._insert(run, RunState.PENDING, actor, at)

    def _insert(self, run: str, state: RunState, actor: str | None, started: int, ended: int | None = None) -> None:
        dialect = self._tables.dialect
        inserted = (
            f"INSERT INTO runs({dialect.into}{_COLUMNS}) VALUES ({dialect.own}?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING"
        )
        self._tables.execute(inserted, (run, state.value, actor, started, ended, ended))

    def _end(self, run: str, state: RunState, at: int) -> None:
        committed = ", committed_at = ?" if state is RunState.COMMITTED else ""
        statement = f"UPDATE runs SET state = ?, ended_at = ?{committed} WHERE {self._of} AND run = ?"
        self._tables.execute(statement, (state.value, at, *([at] if committed else []), run))

    def conflicts(self, run: str) -> list[str]:
        """Return the ids of the items that keep a pending run from being committed, or a committed one from revert.

        Raises:
            RunStateError: the run is neither, or what it replaced is not kept any more.
        """
        info = self.find(run)
        if info is None or info.state is RunState.PENDING:
            return self._changed_by_others(run)
        return self._undoing(info)[1]

    def _changed_by_others(self, run: str) -> list[str]:
        """Return the items that others changed since a pending run did; what both deleted is in none."""
        query = (
            f"SELECT own.id FROM items AS own LEFT JOIN (SELECT id, row FROM items WHERE {self._of} AND {NOW}) AS now "
            f"ON now.id = own.id WHERE {self._of} AND own.began IS NULL AND own.slot = ? "
            f"AND COALESCE(now.row, 0) <> COALESCE(own.base, 0) AND NOT (own.operation IN ({GONE_SQL}) "
            "AND now.row IS NULL) ORDER BY own.row"
        )
        return [item_id for (item_id,) in self._tables.execute(query, (slot_of(run),))]

    def _is_to_end(self, run: str, wanted: RunState) -> bool:
        """Whether a run is pending, and not in the wanted state already.

        Raises:
            RunStateError: it ended otherwise, or there is none.
        """
        state = self.read(run).state
        if state not in (RunState.PENDING, wanted):
            raise RunStateError(self.location, run, state.value, f"it cannot be {wanted.value} any more")
        return state is RunState.PENDING

    def require(self, info: RunInfo, *states: RunState) -> None:
        """Refuse a run that is in none of some states.

        Raises:
            RunStateError: it is in another one.
        """
        if info.state not in states:
            raise RunStateError(self.location, info.run, info.state.value, f"this needs one that is {states[0].value}")

    def commit(self, run: str, writer: CurrentVersionWriter, clock: Callable[[], float]) -> None:
        """Make what a pending run wrote the current items, but for texts that a tombstone keeps out.

        `clock` returns seconds since the epoch.

        Raises:
            RunConflictError: others changed the same items since; nothing was committed.
            RunStateError: the run was discarded or reverted, or there is none.
        """
        if not self._is_to_end(run, RunState.COMMITTED):
            return
        if found := self._changed_by_others(run):
            raise RunConflictError(self.location, run, found)
        columns = f"row, operation, base, change_actor, {self._tables.dialect.body}"
        query = f"SELECT {columns} FROM items WHERE {self._of} AND began IS NULL AND slot = ? ORDER BY row"
        pending = self._tables.execute(query, (slot_of(run),))
        items = {row: self._tables.load(row, body) for row, operation, *_, body in pending if operation not in GONE}
        erased = self._tables.erased_among(items.values())
        for row, operation, base, actor, _ in pending:
            if base is not None:
                ended_by = Operation(operation) if operation in GONE else Operation.UPDATE
                writer.end("row = ?", [base], VersionEnd(operation=ended_by, run=run, actor=actor))
            if row in items and items[row].id not in erased:
                self._tables.copy(row, writer.origin(Operation(operation), run, actor))
        self._remove_pending(run)
        writer.stamp(clock())
        self._end(run, RunState.COMMITTED, writer.at)

    def discard(self, run: str, at: int) -> None:
        """Drop what a pending run wrote, as of a recorded time; one that is discarded stays so.

        Raises:
            RunStateError: the run was committed, or there is none.
        """
        if self._is_to_end(run, RunState.DISCARDED):
            self._remove_pending(run)
            self._end(run, RunState.DISCARDED, at)

    def _remove_pending(self, run: str) -> None:
        self._tables.delete("began IS NULL AND slot = ?", [slot_of(run)])

    def revert(self, run: str, writer: CurrentVersionWriter, clock: Callable[[], float]) -> None:
        """Undo a run; a text that a tombstone keeps out stays away. `clock` returns seconds since the epoch.

        Raises:
            RunConflictError: later versions build on what the run wrote; nothing was changed.
            RunStateError: the run is not committed, or what it replaced is not kept any more.
        """
        inverse, actor = undoing(run), current_actor().name
        info = self.read(run)
        changes, conflicts = self._undoing(info)
        times = self.span(run)
        if times is not None and not writer.keeps_since(times[0]):
            # What it deleted would stay deleted without a word.
            reason = "versions of its time are not kept any more (`history` of the store), so it cannot be undone"
            raise RunStateError(self.location, run, info.state.value, f"{reason} as a whole")
        if conflicts:
            raise RunConflictError(self.location, run, conflicts)
        started, ended = (recorded(each or 0.0) for each in (info.started_at, info.ended_at))
        self._insert(run, info.state, None, started, ended)
        self.begin(inverse, actor, writer.at)
        replaced = self._tables.fetch_items(each.replaced for each in changes if each.replaced is not None)
        erased = self._tables.erased_among(replaced.values())
        for change in changes:
            if change.left is not None:
                operation = Operation.FORGET if change.replaced is None else Operation.RESTORE
                writer.end("row = ?", [change.left], VersionEnd(operation=operation, run=inverse, actor=actor))
            if change.replaced is not None and replaced[change.replaced].id not in erased:
                self._tables.copy(change.replaced, writer.origin(Operation.RESTORE, inverse, actor))
        writer.stamp(clock())
        self._end(run, RunState.REVERTED, writer.at)
        self._end(inverse, RunState.COMMITTED, writer.at)

    def _undoing(self, info: RunInfo) -> tuple[list[_Undo], list[str]]:
        """Return what undoes a committed run, and the ids of the items that build on it.

        Raises:
            RunStateError: the run is not committed, or what it replaced is not kept any more.
        """
        self.require(info, RunState.COMMITTED)
        derived = self._derived(info.run)
        # A fact is deleted with its turn: it was extracted in the background, and nothing else was derived from it.
        changes = [_Undo(left=row, replaced=None) for row, item in derived.items() if is_fact(item)]
        conflicts = {item.id for item in derived.values() if not is_fact(item)}
        for (item_id,) in self._tables.execute(self.touched("?"), (info.run, info.run)):
            change = self._undo(item_id, info.run)
            if change is None:
                conflicts.add(item_id)
            else:
                changes.append(change)
        return changes, sorted(conflicts)

    def _derived(self, run: str) -> dict[int, MemoryItem]:
        """Return the items that were derived, by others, from what the run wrote, by their rows."""
        written = f"SELECT id, content_hash FROM items WHERE {self._of} AND {NOW} AND change_run = ?"
        says = dict(self._tables.execute(written, (run,)))
        if not says:
            return {}
        with_parents = (
            f"SELECT row FROM items WHERE {self._of} AND {NOW} AND derived AND COALESCE(change_run <> ?, true)"
        )
        items = self._tables.fetch_items(row for (row,) in self._tables.execute(with_parents, (run,)))
        return {
            row: item
            for row, item in items.items()
            if any(_is_derived_from(item, parent, content_hash) for parent, content_hash in says.items())
        }

    def _undo(self, item_id: str, run: str) -> _Undo | None:
        """Return what undoes a run's change of an item; None where others changed it since."""
        of_item = f"FROM items WHERE {self._of} AND id = ?"
        current = self._one(f"SELECT row, change_run {of_item} AND {NOW}", item_id)
        newest = current or self._last_ended(item_id, _FOREVER)
        if newest is None or newest[1] != run:
            # The change of an item that was taken out of the archive next is undone already.
            archived = f"SELECT max(ended) {of_item} AND end_run = ? AND end_operation = '{Operation.ARCHIVE.value}'"
            begun = f"SELECT operation, change_run {of_item} AND began >= ({archived}) ORDER BY began LIMIT 1"
            restored = self._one(begun, item_id, item_id, run) == (Operation.RESTORE, None)
            return _Undo(left=None, replaced=None) if restored else None
        by_others = "end_run = ? AND COALESCE(change_run <> ?, true) ORDER BY ended LIMIT 2"
        replaced = self._tables.execute(f"SELECT row {of_item} AND {by_others}", (item_id, run, run))
        ended_by_others = "change_run = ? AND ended IS NOT NULL AND COALESCE(end_run <> ?, true) LIMIT 1"
        # A second one shows that others wrote in between.
        if len(replaced) > 1 or self._one(f"SELECT 1 {of_item} AND {ended_by_others}", item_id, run, run):
            return None
        if not replaced and self._lost(item_id, run):
            reason = f"the version of {item_id!r} that it replaced is not kept any more"
            raise RunStateError(self.location, run, RunState.COMMITTED.value, reason)
        return _Undo(left=None if current is None else current[0], replaced=replaced[0][0] if replaced else None)

    def _last_ended(self, item_id: str, before: int) -> tuple[Any, ...] | None:
        """Return the operation and the run that ended the last version that had ended by a recorded time."""
        ended = f"FROM items WHERE {self._of} AND id = ? AND ended <= ? ORDER BY ended DESC LIMIT 1"
        return self._one(f"SELECT end_operation, end_run {ended}", item_id, before)

    def _lost(self, item_id: str, run: str) -> bool:
        """Whether a run's first change of an item replaced a version, although none is kept."""
        begun = (
            f"FROM items WHERE {self._of} AND id = ? AND change_run = ? AND began IS NOT NULL ORDER BY began LIMIT 1"
        )
        first = self._one(f"SELECT operation, began {begun}", item_id, run)
        if first is None or first[0] == Operation.ADD:
            return False
        # What was restored had been deleted before, or replaced what is not kept.
        before = self._last_ended(item_id, first[1])
        return before is None or before[0] not in GONE

    def _one(self, query: str, *values: object) -> tuple[Any, ...] | None:
        return next(iter(self._tables.execute(query, values)), None)

    def erase_versions(self, condition: str, values: Sequence[object]) -> int:
        """Delete the versions that match a condition permanently, and the runs of which no change is left.

        Name and actor of a run tell who was there. A pending one begins again with what it writes next. Return the
        number of versions.
        """
        where = f"FROM items WHERE {self._of} AND ({condition})"
        query = f"SELECT change_run {where} UNION SELECT end_run {where}"
        named = [run for (run,) in self._tables.execute(query, [*values, *values]) if run is not None]
        deleted = self._tables.delete(condition, values)
        self._forget(named)
        return deleted

    def _forget(self, runs: Iterable[str]) -> None:
        among, values = self._tables.dialect.among("run", sorted(set(runs)))
        touched = self.touched("runs.run")
        self._tables.execute(f"DELETE FROM runs WHERE {self._of} AND {among} AND NOT EXISTS ({touched})", values)


def _is_derived_from(item: MemoryItem, parent: str, content_hash: str) -> bool:
    """Whether an item was derived from another one with this content, as far as it knows what that said."""
    known = dict(zip_longest(item.provenance.parents, item.provenance.parent_hashes))
    return parent in known and known[parent] in (None, "", content_hash[:PARENT_HASH])


def undoing(run: str) -> str:
    """Return the id of the run that undoes another one."""
    return f"revert of {run}"


def ids_among(tables: StoreTables, ids: Collection[str], condition: str) -> set[str]:
    """Return those of some ids of which a version matches a condition."""
    among, values = tables.dialect.among("id", sorted(ids))
    found = tables.execute(f"SELECT id FROM items WHERE {tables.of} AND {among} AND {condition}", values)
    return {item_id for (item_id,) in found}


def planned(dialect: Dialect, ids: Sequence[str], rows: Sequence[int]) -> tuple[str, list[object]]:
    """Return the condition of all versions of some items, and of some versions."""
    of_items, names = dialect.among("id", ids)
    if not rows:
        # SQLite would read every item for the sake of a list that is empty.
        return of_items, names
    of_rows, numbers = dialect.among("row", rows)
    return f"{of_items} OR {of_rows}", [*names, *numbers]
