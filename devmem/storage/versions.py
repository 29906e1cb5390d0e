"""Versions of a collection: committing and reverting runs, comparing states, histories, in every database alike."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import zip_longest
from typing import Any, Final, Generic, Protocol, TypeAlias, TypeVar

from devmem.errors import RunConflictError, RunStateError
from devmem.model.caller import current_actor
from devmem.model.items import PARENT_HASH, MemoryItem, is_fact, version_hash
from devmem.model.results import ERASED_BEFORE, NOT_ARCHIVED, WriteOutcome, WriteStatus
from devmem.model.versions import GONE, Change, ItemDifference, ItemVersion, Operation, RunInfo, RunState
from devmem.storage.runs import TOUCHED, Runs, VersionTables, author_of
from devmem.storage.sql import PARENTS
from devmem.storage.writing import VersionEnd, WritingCollection, recorded, seconds, stored_outcome


class CommitWriter(Protocol):
    """Changes the current items of a collection within one write transaction."""

    @property
    def at(self) -> int:
        """Recorded time of the transaction."""
        ...

    def end(self, condition: str, values: Sequence[object], ending: VersionEnd) -> int:
        """Delete the items that match a condition, which stay as versions where these are kept."""
        ...

    def stamp(self, now: float) -> None:
        """Let the recorded time be `now` (seconds since the epoch), if it is later."""
        ...

    def keeps_since(self, at: int) -> bool:
        """Whether every version that ended at a recorded time, or later, is still kept."""
        ...


W = TypeVar("W", bound=CommitWriter)


class Committer(ABC, Generic[W]):
    """Changes the current items by versions, within a transaction in which a run is committed or reverted."""

    def __init__(self, writer: W, runs: Runs) -> None:
        """Take the writer and the runs of the transaction."""
        self.writer, self.runs = writer, runs

    def hold(self, run: str) -> None:
        """Let no other transaction change the items that a run changed until this one ends."""
        self.hold_items(self.runs.touched(run))

    @abstractmethod
    def hold_items(self, keys: Sequence[Any]) -> None:
        """Let no other transaction change the items with some keys until this one ends."""

    def stamp(self, run: str, now: float) -> None:  # noqa: ARG002 - of a subclass
        """Record what a run changed as of `now`, where that took long: no one sees it before the commit."""
        self.writer.stamp(now)

    @abstractmethod
    def restore_version(self, version: int, operation: Operation, *, run: str | None, actor: str | None) -> None:
        """Insert the item of a version as a current one, stored last, with all that belongs to it.

        Args:
            version: row of the version.
            operation: begins the current version.
            run: writes it; None where that is not a run's.
            actor: wrote it, as far as it is known.

        Raises:
            CollectionDamagedError: it cannot be read.
        """

    def end(self, row: int, ending: VersionEnd) -> None:
        """Delete a current item, which stays as a version where these are kept; one that is gone stays gone."""
        self.writer.end(f"row = {self.runs.tables.dialect.mark}", [row], ending)


def commit(committer: Committer[Any], run: str, clock: Callable[[], float]) -> None:
    """Make what a pending run wrote the current items; one that is committed stays so.

    `clock` returns seconds since the epoch.

    Raises:
        RunConflictError: others changed the same items since; nothing was committed.
        RunStateError: the run was discarded or reverted, or there is none.
        CollectionDamagedError: what it wrote cannot be read.
    """
    runs = committer.runs
    runs.lock(run)
    if not runs.is_to_end(run, RunState.COMMITTED):
        return
    committer.hold(run)
    if found := runs.conflicts(run):
        raise RunConflictError(runs.location, run, found)
    # Locks may have been waited for.
    committer.writer.stamp(clock())
    for version in runs.pending(run):
        is_gone = version.operation in GONE
        if version.base is not None:
            ended_by = version.operation if is_gone else Operation.UPDATE
            committer.end(version.base, VersionEnd(operation=ended_by, run=run, actor=version.actor))
        if not is_gone:
            committer.restore_version(version.row, version.operation, run=run, actor=version.actor)
    runs.remove_pending(run)
    committer.stamp(run, clock())
    runs.end(run, RunState.COMMITTED, committer.writer.at)


def discard(runs: Runs, run: str, now: float) -> None:
    """Drop what a pending run wrote; one that is discarded stays so. `now` is in seconds since the epoch.

    Raises:
        RunStateError: the run was committed, or there is none.
    """
    runs.lock(run)
    if runs.is_to_end(run, RunState.DISCARDED):
        runs.remove_pending(run)
        runs.end(run, RunState.DISCARDED, recorded(now))


_FOREVER: Final = 1 << 62
"""Later than every recorded time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunChange:
    """A run's change of one item."""

    left: int | None
    """Row of the current item, which the run wrote; None where it deleted the item."""
    replaced: int | None
    """Row of the version that was the current one before; None where there was none, or where it is back already."""


_BEGUN: Final = (
    "(SELECT operation, change_run, {began} AS at FROM items WHERE {of}{key} = :key UNION ALL SELECT operation, "
    "change_run, recorded_from FROM versions WHERE {of}{key} = :key AND recorded_until IS NOT NULL) AS changes"
)
_FIRST: Final = f"SELECT operation, at FROM {_BEGUN} WHERE change_run = :run ORDER BY at LIMIT 1"
_AFTER_ARCHIVE: Final = (
    f"SELECT operation, change_run FROM {_BEGUN} WHERE at >= (SELECT max(recorded_until) FROM versions WHERE "
    f"{{of}}{{key}} = :key AND end_run = :run AND end_operation = '{Operation.ARCHIVE.value}') ORDER BY at LIMIT 1"
)
_LAST_ENDED: Final = (
    "SELECT end_operation, end_run FROM versions WHERE {of}{key} = :key AND recorded_until <= :before "
    "ORDER BY recorded_until DESC LIMIT 1"
)
_WAS_REPLACED: Final = (
    "SELECT 1 FROM versions WHERE {of}{key} = :key AND change_run = :run AND recorded_until IS NOT NULL "
    "AND end_run {differs} :run LIMIT 1"
)
_REPLACED: Final = (
    "SELECT row FROM versions WHERE {of}{key} = :key AND end_run = :run AND change_run {differs} :run "
    "ORDER BY recorded_until LIMIT 2"
)
_NAME: Final = (
    "SELECT id FROM items WHERE {of}{key} = :key UNION SELECT id FROM versions WHERE {of}{key} = :key LIMIT 1"
)
_WITH_PARENTS: Final = "SELECT row FROM items WHERE {of}change_run {differs} :run AND {position}(body, :parents) > 0"


class RunChanges:
    """The changes that a committed run made to items, which are known by their keys."""

    def __init__(self, runs: Runs) -> None:
        """Take the runs of the collection."""
        self.runs, self._tables = runs, runs.tables

    def _derived(self, run: str) -> dict[int, MemoryItem]:
        """Return the items that were derived, by others, from what the run wrote, by their rows."""
        name, read_text = self._tables.text(run), self._tables.read_text
        written = self._tables.fetch("SELECT id, content_hash FROM items WHERE {of}change_run = :run", run=name)
        says = {read_text(found): content_hash for found, content_hash in written}
        if not says:
            return {}
        rows = self._tables.fetch(_WITH_PARENTS, run=name, parents=PARENTS)
        items = self._tables.items(row for (row,) in rows).items()
        return {row: item for row, item in items if any(is_derived_from(item, parent, says[parent]) for parent in says)}

    def _name_of(self, key: object) -> str:
        """Return the id of an item."""
        ((name,),) = self._tables.fetch(_NAME, key=key)
        return self._tables.read_text(name) or ""

    def _current(self, key: object) -> tuple[int, str | None] | None:
        """Return the row of the current item and the run that wrote it."""
        found = self._tables.fetch("SELECT row, change_run FROM items WHERE {of}{key} = :key", key=key)
        return (found[0][0], self._tables.read_text(found[0][1])) if found else None

    def _last_ended(self, key: object, before: int) -> tuple[str, str | None] | None:
        """Return the operation and the run that ended the last version that had ended by a recorded time."""
        found = self._tables.fetch(_LAST_ENDED, key=key, before=before)
        return (found[0][0], self._tables.read_text(found[0][1])) if found else None

    def _of(self, statement: str, key: object, run: str) -> list[tuple[Any, ...]]:
        return self._tables.fetch(statement, key=key, run=self._tables.text(run))

    def conflicts(self, info: RunInfo) -> list[str]:
        """Return the ids of the items that build on what a committed run wrote.

        Raises:
            RunStateError: the run is not committed, or what it replaced is not kept any more.
        """
        return self.read(info)[1]

    def read(self, info: RunInfo) -> tuple[list[RunChange], list[str]]:
        """Return what a committed run did, and the ids of the items that build on it; raises as `conflicts` does."""
        self.runs.require(info, RunState.COMMITTED)
        derived = self._derived(info.run)
        # A fact is deleted with its turn: it was extracted in the background, and nothing else was derived from it.
        changes = [RunChange(left=row, replaced=None) for row, item in derived.items() if is_fact(item)]
        conflicts = {item.id for item in derived.values() if not is_fact(item)}
        for key in self.runs.touched(info.run):
            change = self._change(key, info.run)
            if change is None:
                conflicts.add(self._name_of(key))
            else:
                changes.append(change)
        return changes, sorted(conflicts)

    def _change(self, key: object, run: str) -> RunChange | None:
        """Return what a run did to an item; None where others changed it since."""
        current = self._current(key)
        newest = current or self._last_ended(key, _FOREVER)
        if newest is None or newest[1] != run:
            # The change of an item that was taken out of the archive next is undone already.
            is_restored = self._of(_AFTER_ARCHIVE, key, run) == [(Operation.RESTORE, None)]
            return RunChange(left=None, replaced=None) if is_restored else None
        # A second one shows that others wrote in between.
        replaced = [row for (row,) in self._of(_REPLACED, key, run)]
        if len(replaced) > 1 or self._of(_WAS_REPLACED, key, run):
            return None
        if not replaced and self._lost(key, run):
            reason = f"the version of {self._name_of(key)!r} that it replaced is not kept any more"
            raise RunStateError(self.runs.location, run, RunState.COMMITTED.value, reason)
        return RunChange(
            left=None if current is None else current[0],
            replaced=replaced[0] if replaced else None,
        )

    def _lost(self, key: object, run: str) -> bool:
        """Whether a run's first change of an item replaced a version, although none is kept."""
        first = self._of(_FIRST, key, run)
        if not first or first[0][0] in (None, Operation.ADD.value):
            return False
        # What was restored had been deleted before, or replaced what is not kept.
        before = self._last_ended(key, first[0][1])
        return before is None or before[0] not in GONE


def is_derived_from(item: MemoryItem, parent: str | None, content_hash: str) -> bool:
    """Whether an item was derived from another one with this content, as far as it knows what that said."""
    known = dict(zip_longest(item.provenance.parents, item.provenance.parent_hashes))
    return parent in known and known[parent] in (None, "", content_hash[:PARENT_HASH])


def undoing(run: str) -> str:
    """Return the id of the run that undoes another one."""
    return f"revert of {run}"


def revert(committer: Committer[Any], run: str, clock: Callable[[], float]) -> None:
    """Undo a run within the committer's transaction; `clock` returns seconds since the epoch.

    Raises:
        RunConflictError: later versions build on what the run wrote; nothing was changed.
        RunStateError: the run is not committed, or what it replaced is not kept any more.
        CollectionDamagedError: what it replaced cannot be read.
    """
    runs, inverse, actor = committer.runs, undoing(run), current_actor().name
    runs.lock(run)
    committer.hold(run)
    info = runs.read(run)
    changes, conflicts = RunChanges(runs).read(info)
    _check(runs, committer, info, conflicts)
    runs.record(info)
    committer.writer.stamp(clock())
    runs.begin(inverse, actor, seconds(committer.writer.at))
    for change in changes:
        if change.left is not None:
            operation = Operation.FORGET if change.replaced is None else Operation.RESTORE
            committer.end(change.left, VersionEnd(operation=operation, run=inverse, actor=actor))
        if change.replaced is not None:
            committer.restore_version(change.replaced, Operation.RESTORE, run=inverse, actor=actor)
    committer.stamp(inverse, clock())
    runs.end(run, RunState.REVERTED, committer.writer.at)
    runs.end(inverse, RunState.COMMITTED, committer.writer.at)


def _check(runs: Runs, committer: Committer[Any], info: RunInfo, conflicts: Sequence[str]) -> None:
    """Refuse to revert a run that something builds on, or that cannot be undone as a whole."""
    times = runs.span(info.run)
    if times is not None and not committer.writer.keeps_since(times[0]):
        # What it deleted would stay deleted without a word.
        reason = (
            "versions of its time are not kept any more (`history` of the store), so it cannot be undone as a whole"
        )
        raise RunStateError(runs.location, info.run, info.state.value, reason)
    if conflicts:
        raise RunConflictError(runs.location, info.run, list(conflicts))


States: TypeAlias = tuple[str, str]
"""Queries of the items of two states, the earlier one first."""


_DIFFERING: Final = (
    "WITH earlier AS ({before}), later AS ({after}) SELECT earlier.row, later.row FROM earlier "
    "LEFT JOIN later ON later.{key} = earlier.{key} WHERE later.row {differs} earlier.row "
    "UNION ALL SELECT NULL, later.row FROM later LEFT JOIN earlier ON earlier.{key} = later.{key} "
    "WHERE earlier.row IS NULL"
)


class Differences:
    """Compares states of a collection within one transaction."""

    def __init__(self, runs: Runs) -> None:
        """Take the runs of the collection."""
        self._runs, self._dialect = runs, runs.tables.dialect

    def _nothing(self) -> str:
        """Return a query of items that finds none."""
        return f"{self._dialect.current()} AND false"

    def _touched_by(self, run: str, items: str) -> str:
        """Return the query of those items of another query that a run changed."""
        touched = self._dialect.statement(TOUCHED.format(run=self._dialect.literal(run)))
        return f"SELECT * FROM ({items}) AS state WHERE {self._dialect.key} IN ({touched})"

    def _differing(self, states: States) -> list[tuple[int | None, int | None]]:
        """Return the rows of an item in both states where they differ; None where there is none."""
        key, differs = self._dialect.key, self._dialect.differs
        statement = _DIFFERING.format(before=states[0], after=states[1], key=key, differs=differs)
        return [(before, after) for before, after in self._runs.tables.execute(statement, ())]

    def read(self, before: float | str, after: float | str | None) -> list[ItemDifference]:
        """Return the items that differ between two states, in the order of their ids.

        Args:
            before: a time in seconds since the epoch, or a run: the state that it left.
            after: likewise; None is the current state after a time, and what the run changed after a run.

        Raises:
            RunStateError: there is no such run, or it was discarded.
        """
        if isinstance(before, str) and after is None:
            states = self._around(before)
        else:
            states = self._state(before), self._dialect.current() if after is None else self._state(after)
        found = self._differing(states)
        items = self._runs.tables.items(row for pair in found for row in pair if row is not None)
        changed = (
            ItemDifference(before=items.get(one) if one else None, after=items.get(other) if other else None)
            for one, other in found
        )
        return sorted((each for each in changed if _differs(each)), key=lambda each: each.item_id)

    def _state(self, point: float | str) -> str:
        """Return the query of the items at a time, or after a run."""
        return self._left_by(point) if isinstance(point, str) else self._dialect.as_of(recorded(point))

    def _left_by(self, run: str) -> str:
        """Return the query of the items as a run left them."""
        if self._is_pending(run):
            return self._dialect.of_run(run)
        at = self._runs.committed_at(run)
        return self._nothing() if at is None else self._dialect.as_of(at)

    def _around(self, run: str) -> States:
        """Return the queries of the items that a run changed, before it and after it."""
        if self._is_pending(run):
            return self._dialect.current(), self._dialect.of_run(run)
        times = self._runs.span(run)
        if times is None:
            return self._nothing(), self._nothing()
        # Where the changes of the run were seen at once, others may have changed other items between them.
        return self._touched_by(run, self._dialect.as_of(times[0] - 1)), self._touched_by(
            run, self._dialect.as_of(times[1])
        )

    def _is_pending(self, run: str) -> bool:
        """Whether a run is pending; it is refused where it is neither that nor was ever committed."""
        info = self._runs.read(run)
        if info.state is RunState.PENDING:
            return True
        self._runs.require(info, RunState.COMMITTED, RunState.REVERTED)
        return False


def _differs(change: ItemDifference) -> bool:
    """Whether the two versions tell apart: one that was restored has another row."""
    before, after = change.before, change.after
    if before is None or after is None:
        return before is not after
    return version_hash(before) != version_hash(after)


_BEGAN: Final = f"COALESCE(operation, '{Operation.ADD.value}'), change_run, {{began}}, change_actor"
_HISTORY: Final = (
    f"SELECT {_BEGAN}, recorded_until, end_operation, end_run, end_actor, {{body}} "
    "FROM versions WHERE {of}{key} = :key AND recorded_until IS NOT NULL UNION ALL "
    f"SELECT {_BEGAN}, NULL, NULL, NULL, NULL, {{body}} "
    "FROM items WHERE {of}{key} = :key ORDER BY 3, row"
)


def read_history(tables: VersionTables, item_id: str) -> list[ItemVersion]:
    """Return the committed versions of an item, oldest first, without large attachments."""
    found = tables.fetch(_HISTORY, key=tables.key_of(item_id))
    named = sorted({run for each in found for run in (each[1], each[6]) if run is not None})
    query = f"SELECT run, actor FROM runs WHERE {{of}}{tables.among('run', 'runs')}"
    actors = dict(tables.fetch(query, runs=tables.many(named))) if named else {}
    return list(_versions(tables, found, actors))


def _versions(
    tables: VersionTables, found: Sequence[tuple[Any, ...]], actors: Mapping[str, str | None]
) -> Iterator[ItemVersion]:
    for operation, run, at, actor, until, end_operation, end_run, end_actor, row, *body in found:
        item = tables.item_of(row, *body)
        ended_by = tables.read_text(end_actor or actors.get(end_run))
        ended = None if until is None else _change(tables, end_operation, until, end_run, ended_by)
        stored, by = tables.read_text(actor), tables.read_text(actors.get(run))
        # Who wrote a new item is known best from itself: a command, or an import, acts for somebody else.
        is_new = operation == Operation.ADD.value
        known = by or author_of(item) or stored if is_new else stored or by or author_of(item)
        yield ItemVersion(item=item, began=_change(tables, operation, at, run, known), ended=ended)


def _change(tables: VersionTables, operation: str, at: int, run: str | None, actor: str | None) -> Change:
    return Change(operation=Operation(operation), at=seconds(at), run=tables.read_text(run), actor=actor)


_ARCHIVED: Final = "SELECT row, {key} FROM versions WHERE {of}archived AND {which} ORDER BY row"


def _restored(
    committer: Committer[Any],
    ids: Sequence[str],
    erased_among: Callable[[Sequence[MemoryItem]], Collection[str]],
) -> Iterator[WriteOutcome]:
    """Make archived items current ones again, within the committer's transaction; yield what becomes of each."""
    tables = committer.runs.tables
    keys = [tables.key_of(item_id) for item_id in ids]
    committer.hold_items(keys)
    statement = _ARCHIVED.replace("{which}", tables.among("{key}", "keys"))
    rows = {key: row for row, key in tables.fetch(statement, keys=tables.many(keys))}
    items = tables.items(rows.values())
    erased = erased_among(list(items.values()))
    for item_id, key in dict(zip(ids, keys, strict=True)).items():
        row = rows.get(key)
        if row is None:
            yield NOT_ARCHIVED
        elif item_id in erased:
            yield WriteOutcome(status=WriteStatus.SKIPPED, reason=ERASED_BEFORE)
        else:
            committer.restore_version(row, Operation.RESTORE, run=None, actor=current_actor().name)
            yield stored_outcome(item_id, replaced=None, waiting=False)


C = TypeVar("C")
"""A connection."""
T = TypeVar("T")


class VersioningCollection(WritingCollection, Generic[C]):
    """History, runs and differences, on the transactions of a subclass."""

    _clock: Callable[[], float]

    @abstractmethod
    def _read(self, operation: Callable[[C], T]) -> T:
        """Run an operation that sees the database as of one commit."""

    @abstractmethod
    def _write(self, operation: Callable[[C], T]) -> T:
        """Run an operation in a write transaction."""

    @abstractmethod
    def _with_attachments(self, items: Sequence[MemoryItem]) -> list[MemoryItem]:
        """Return the items, in their order, with their attachments as they are read."""

    @abstractmethod
    def _tables(self, connection: C) -> VersionTables:
        """Return the tables of versions, within a transaction."""

    @abstractmethod
    def _committer(self, connection: C, run: str | None) -> Committer[Any]:
        """Return what changes the current items within a write transaction, as a run, or as who writes now."""

    @abstractmethod
    def _erased_among(self, connection: C, items: Sequence[MemoryItem]) -> Collection[str]:
        """Return the ids of those of some items that a tombstone keeps out."""

    def _runs(self, connection: C) -> Runs:
        return Runs(self._tables(connection))

    def history(self, item_id: str) -> list[ItemVersion]:
        """Return the versions of an item, oldest first."""
        found = self._read(lambda connection: read_history(self._tables(connection), item_id))
        items = self._with_attachments([version.item for version in found])
        return [replace(version, item=item) for version, item in zip(found, items, strict=True)]

    def runs(self, limit: int = 100) -> list[RunInfo]:
        """Return the runs that began last, newest first."""
        return self._read(lambda connection: self._runs(connection).newest(max(limit, 0)))

    def find_run(self, run: str) -> RunInfo | None:
        """Return what is known of a run; None when it has written nothing."""
        return self._read(lambda connection: self._runs(connection).find(run))

    def conflicts(self, run: str) -> list[str]:
        """Return the ids of the items that keep a run from being committed, or reverted."""

        def conflicts(connection: C) -> list[str]:
            runs = self._runs(connection)
            info = runs.find(run)
            if info is None or info.state is RunState.PENDING:
                return runs.conflicts(run)
            return RunChanges(runs).conflicts(info)

        return self._read(conflicts)

    def commit(self, run: str, *, then: Callable[[], object] | None = None) -> RunInfo:
        """Make what a pending run wrote the current items."""

        def commit_run(connection: C) -> RunInfo:
            committer = self._committer(connection, run)
            commit(committer, run, self._clock)
            return _ended(committer.runs, run, then)

        return self._noted(self._write(commit_run))

    def discard(self, run: str) -> RunInfo:
        """Drop what a pending run wrote."""

        def discard_run(connection: C) -> RunInfo:
            runs = self._runs(connection)
            discard(runs, run, self._clock())
            return runs.read(run)

        return self._write(discard_run)

    def revert(self, run: str, *, then: Callable[[], object] | None = None) -> RunInfo:
        """Undo a committed run by changes that follow it."""
        inverse = undoing(run)

        def revert_run(connection: C) -> RunInfo:
            committer = self._committer(connection, inverse)
            revert(committer, run, self._clock)
            return _ended(committer.runs, inverse, then)

        return self._noted(self._write(revert_run))

    def restore(self, ids: Sequence[str], *, then: Callable[[], object] | None = None) -> list[WriteOutcome]:
        """Make archived items current ones again."""

        def restore_items(connection: C) -> list[WriteOutcome]:
            done = list(_restored(self._committer(connection, None), ids, partial(self._erased_among, connection)))
            if then is not None:
                then()
            return done

        outcomes = self._write(restore_items)
        self._note(written=sum(map(bool, outcomes)))
        return outcomes

    def diff(self, before: float | str, after: float | str | None = None) -> list[ItemDifference]:
        """Return the items that differ between two states, or that a run changed."""
        found = self._read(lambda connection: Differences(self._runs(connection)).read(before, after))
        return [ItemDifference(before=self._whole(each.before), after=self._whole(each.after)) for each in found]

    def _whole(self, item: MemoryItem | None) -> MemoryItem | None:
        return None if item is None else self._with_attachments([item])[0]

    def _noted(self, info: RunInfo) -> RunInfo:
        self._note(written=info.changes, deleted=info.changes)
        return info


def _ended(runs: Runs, run: str, then: Callable[[], object] | None) -> RunInfo:
    """Return what is known of a run that was ended within this transaction, after the last thing that may refuse."""
    info = runs.read(run)
    if then is not None:
        then()
    return info
