"""Versions of a SQLite collection: histories, earlier states, runs and the archive."""

from __future__ import annotations

import json
import sqlite3
import threading
from abc import abstractmethod
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final, TypeVar

from devmem.model.caller import current_actor
from devmem.model.items import MemoryItem, load_item_json, version_hash
from devmem.model.results import ERASED_BEFORE, NOT_ARCHIVED, WriteOutcome, WriteStatus
from devmem.model.versions import Change, ItemDifference, ItemVersion, Operation, RunInfo, RunState
from devmem.models.embedder import EmbeddingRefusal, PassageEmbeddings
from devmem.storage.runs import author_of
from devmem.storage.sql import ReadOnly
from devmem.storage.sqlite import rows, writes
from devmem.storage.sqlite.follower import SqliteFollower
from devmem.storage.sqlite.reader import SqliteReader
from devmem.storage.sqlite.runs import TOUCHED, Runs
from devmem.storage.sqlite.schema import ARCHIVED, CURRENT, State, as_of, of_run, text_sql
from devmem.storage.sqlite.tombstones import SqliteTombstones
from devmem.storage.sqlite.writes import CurrentVersionWriter, RunVersionWriter, SqliteItemChanges, erased_among
from devmem.storage.versions import undoing
from devmem.storage.writing import (
    HistoryLimit,
    ItemChanges,
    WritingCollection,
    recorded,
    seconds,
    stored_outcome,
)

T = TypeVar("T")

_MOST_STATES: Final = 4
"""Number of states whose indexes are kept for the next search."""


class SqliteView(ReadOnly, SqliteReader):
    """A state of a collection that is read only; `Collection` documents the methods."""

    def __init__(self, of: SqliteVersions, state: State, shown: str, *, clock: Callable[[], float]) -> None:
        """Take what the view reads.

        Args:
            of: the collection.
            state: the versions that are shown.
            shown: the state, for messages.
            clock: time of the view: what has expired by it is not there; seconds since the epoch.
        """
        super().__init__(
            replace(of._opened, clock=clock),  # noqa: SLF001 - this module's own classes share them
            follower=of._follower_of(state),  # noqa: SLF001
            statement_lock=of._statement_lock,  # noqa: SLF001
            state=state,
        )
        self._collection, self._state = of, shown

    def _read_shared(self, operation: Callable[[sqlite3.Connection], T]) -> T:
        return self._collection._read_shared(operation)  # noqa: SLF001 - see above

    def _model_name(self) -> str | None:
        return self._collection._model_name()  # noqa: SLF001 - see above

    def close(self) -> None:
        """Do nothing: the collection, which stays open, keeps the indexes for the next view."""


class SqliteRunView(WritingCollection, SqliteView):
    """The items that a pending run sees; what it writes is seen by others from its commit on.

    What others commit meanwhile is seen at once, except for items that the run has changed itself.
    """

    def __init__(self, of: SqliteVersions, run: str, actor: str | None) -> None:
        """Take the collection and the run; nothing is written yet."""
        super().__init__(of, of_run(run), f"run {run!r} is pending", clock=of._opened.clock)  # noqa: SLF001 - see above
        self._run, self._actor = run, actor

    def _adding(self, operation: Callable[[ItemChanges], T]) -> T:
        """Run an operation in a write transaction, on the items of the run.

        Raises:
            RunStateError: the run has ended.
        """

        def change(connection: sqlite3.Connection) -> T:
            runs = Runs(connection, self._attachments, self.location)
            runs.begin(self._run, self._actor, recorded(self._now()))
            version_writer = RunVersionWriter(connection, self._attachments, self._run)
            model = self._model_name()
            return operation(SqliteItemChanges(version_writer, self._opened, model=model, has_model=model is not None))

        return self._collection._write(change)  # noqa: SLF001 - see above

    def set_embeddings(self, embeddings: Mapping[str, PassageEmbeddings | EmbeddingRefusal]) -> int:
        """Store the embeddings of waiting items, which everybody sees where the items are not the run's own."""

        def store(connection: sqlite3.Connection) -> int:
            writes.check_embeddings(connection, self.location, self._model_name(), embeddings.values())
            return writes.set_embeddings(connection, embeddings, self._viewed.shown)

        return self._collection._write(store)  # noqa: SLF001 - see above


_HISTORY: Final = (
    "SELECT operation, change_run, began, change_actor, ended, end_operation, end_run, end_actor, CAST(body AS BLOB) "
    "FROM items WHERE id = ? AND began IS NOT NULL ORDER BY began, row"
)
_DIFFERING: Final = (
    "WITH earlier AS ({before}), later AS ({after}) SELECT earlier.row, later.row FROM earlier "
    "LEFT JOIN later ON later.id = earlier.id WHERE later.row IS NOT earlier.row "
    "UNION ALL SELECT NULL, later.row FROM later LEFT JOIN earlier ON earlier.id = later.id WHERE earlier.row IS NULL"
)


def _rows_of(condition: str) -> str:
    return f"SELECT row, id FROM items WHERE {condition}"


class SqliteVersions(SqliteTombstones, WritingCollection):
    """A collection with the versions of its items; a subclass opens the database."""

    _history: HistoryLimit
    _states: OrderedDict[State, SqliteFollower]
    """Followers of the states that were searched last."""
    _states_lock: threading.Lock

    @abstractmethod
    def _write(self, operation: Callable[[sqlite3.Connection], T]) -> T:
        """Run an operation in a write transaction."""

    def _follower_of(self, state: State) -> SqliteFollower:
        """Return what keeps the indexes of a state."""
        with self._states_lock:
            if state not in self._states:
                # The archive has nothing in common with the current items.
                current = None if state is ARCHIVED else self._follower
                self._states[state] = SqliteFollower(self._opened.index, state=state, current=current)
            self._states.move_to_end(state)
            while len(self._states) > _MOST_STATES:
                self._states.popitem(last=False)
            return self._states[state]

    def as_of(self, time: float) -> SqliteView:
        """Return the collection as it was at a time, read only."""
        shown = f"it is shown as of {time:.6f} (seconds since the epoch)"
        return SqliteView(self, as_of(recorded(time)), shown, clock=lambda: time)

    def archived(self) -> SqliteView:
        """Return the archived items, read only."""
        return SqliteView(self, ARCHIVED, "it shows what is archived", clock=self._opened.clock)

    def run(self, run: str, *, actor: str | None = None) -> SqliteRunView:
        """Return the collection as a pending run sees and changes it."""
        self._read(lambda connection: self._runs(connection).check_open(run))
        return SqliteRunView(self, run, actor)

    def _runs(self, connection: sqlite3.Connection) -> Runs:
        return Runs(connection, self._attachments, self.location)

    def _writer_of(self, connection: sqlite3.Connection, run: str | None = None) -> CurrentVersionWriter:
        """Return what changes the current items in a transaction, as a run, or as who writes now."""
        return CurrentVersionWriter(connection, self._attachments, limit=self._history, now=self._clock(), run=run)

    def runs(self, limit: int = 100) -> list[RunInfo]:
        """Return the runs that began last, newest first."""
        return self._read(lambda connection: self._runs(connection).newest(max(limit, 0)))

    def find_run(self, run: str) -> RunInfo | None:
        """Return what is known of a run; None when it has written nothing."""
        return self._read(lambda connection: self._runs(connection).find(run))

    def conflicts(self, run: str) -> list[str]:
        """Return the ids of the items that keep a run from being committed, or reverted."""
        return self._read(lambda connection: self._runs(connection).conflicts(run))

    def commit(self, run: str, *, then: Callable[[], object] | None = None) -> RunInfo:
        """Make what a pending run wrote the current items."""

        def commit_run(connection: sqlite3.Connection) -> RunInfo:
            self._runs(connection).commit(run, self._writer_of(connection, run), self._clock)
            return self._ended(connection, run, then)

        return self._write(commit_run)

    def discard(self, run: str) -> RunInfo:
        """Drop what a pending run wrote."""

        def discard_run(connection: sqlite3.Connection) -> RunInfo:
            self._runs(connection).discard(run, recorded(self._clock()))
            return self._runs(connection).read(run)

        return self._write(discard_run)

    def revert(self, run: str, *, then: Callable[[], object] | None = None) -> RunInfo:
        """Undo a committed run by changes that follow it."""
        inverse = undoing(run)

        def revert_run(connection: sqlite3.Connection) -> RunInfo:
            self._runs(connection).revert(run, self._writer_of(connection, inverse), self._clock)
            return self._ended(connection, inverse, then)

        return self._write(revert_run)

    def _ended(self, connection: sqlite3.Connection, run: str, then: Callable[[], object] | None) -> RunInfo:
        """Return what is known of a run that this transaction ended, after the last thing that may refuse."""
        info = self._runs(connection).read(run)
        if then is not None:
            then()
        return info

    def restore(self, ids: Sequence[str], *, then: Callable[[], object] | None = None) -> list[WriteOutcome]:
        """Make archived items current ones again."""

        def restore_items(connection: sqlite3.Connection) -> list[WriteOutcome]:
            done = list(self._restored(connection, ids))
            if then is not None:
                then()
            return done

        return self._write(restore_items)

    def _restored(self, connection: sqlite3.Connection, ids: Sequence[str]) -> Iterator[WriteOutcome]:
        """Make archived items current ones, in a write transaction; yield what becomes of each."""
        query = "SELECT id, row FROM items WHERE archived = 1 AND id IN (SELECT value FROM json_each(?))"
        found = dict(connection.execute(query, (json.dumps(list(ids)),)).fetchall())
        erased = erased_among(connection, rows.fetch_items(connection, list(found.values())).values())
        writer = self._writer_of(connection)
        for item_id in dict.fromkeys(ids):
            if item_id not in found:
                yield NOT_ARCHIVED
            elif item_id in erased:
                yield WriteOutcome(status=WriteStatus.SKIPPED, reason=ERASED_BEFORE)
            else:
                origin = writer.origin(Operation.RESTORE, None, current_actor().name)
                rows.copy_as_current(connection, found[item_id], origin)
                yield stored_outcome(item_id, replaced=None, waiting=False)

    def history(self, item_id: str) -> list[ItemVersion]:
        """Return the versions of an item, oldest first."""

        def read(connection: sqlite3.Connection) -> list[ItemVersion]:
            found = connection.execute(_HISTORY, (item_id,)).fetchall()
            named = json.dumps(sorted({run for each in found for run in (each[1], each[6]) if run is not None}))
            query = "SELECT run, actor FROM runs WHERE run IN (SELECT value FROM json_each(?))"
            actors = dict(connection.execute(query, (named,)).fetchall())
            return [_version(actors, *each) for each in found]

        return [replace(version, item=self._resolved(version.item)) for version in self._read(read)]

    def diff(self, before: float | str, after: float | str | None = None) -> list[ItemDifference]:
        """Return the items that differ between two states, or that a run changed."""

        def read(connection: sqlite3.Connection) -> list[ItemDifference]:
            runs = self._runs(connection)
            if isinstance(before, str) and after is None:
                states = self._around(runs, before)
            else:
                states = self._state_at(runs, before), CURRENT.shown if after is None else self._state_at(runs, after)
            query = _DIFFERING.format(before=_rows_of(states[0]), after=_rows_of(states[1]))
            found = connection.execute(query).fetchall()
            items = rows.fetch_items(connection, sorted({row for pair in found for row in pair if row is not None}))
            pairs = (tuple(None if row is None else self._resolved(items[row]) for row in pair) for pair in found)
            return [ItemDifference(before=one, after=other) for one, other in pairs if _differ(one, other)]

        return sorted(self._read(read), key=lambda each: each.item_id)

    def _state_at(self, runs: Runs, point: float | str) -> str:
        """Return the condition of the items at a time, or as a run left them."""
        if not isinstance(point, str):
            return as_of(recorded(point)).shown
        if self._is_pending(runs, point):
            return of_run(point).shown
        at = runs.committed_at(point)
        return "false" if at is None else as_of(at).shown

    def _around(self, runs: Runs, run: str) -> tuple[str, str]:
        """Return the conditions of the items that a run changed, before it and after it."""
        if self._is_pending(runs, run):
            return CURRENT.shown, of_run(run).shown
        times = runs.span(run)
        if times is None:
            return "false", "false"
        # Where the changes of the run were seen at once, others may have changed other items between them.
        touched = f"id IN ({TOUCHED.format(run=text_sql(run))})"
        return f"{as_of(times[0] - 1).shown} AND {touched}", f"{as_of(times[1]).shown} AND {touched}"

    def _is_pending(self, runs: Runs, run: str) -> bool:
        """Whether a run is pending; it is refused where it is neither that nor was ever committed."""
        info = runs.read(run)
        if info.state is RunState.PENDING:
            return True
        runs.require(info, RunState.COMMITTED, RunState.REVERTED)
        return False


def _differ(one: MemoryItem | None, other: MemoryItem | None) -> bool:
    """Whether two versions tell apart: one that was restored has another row."""
    if one is None or other is None:
        return one is not other
    return version_hash(one) != version_hash(other)


def _version(actors: Mapping[str, str | None], *columns: Any) -> ItemVersion:  # noqa: ANN401 - of the database
    operation, run, began, actor, ended, end_operation, end_run, end_actor, body = columns
    item, by = load_item_json(body), actors.get(run)
    # Who wrote a new item is known best from itself: a command, or an import, acts for somebody else.
    is_new = operation == Operation.ADD
    known = by or author_of(item) or actor if is_new else actor or by or author_of(item)
    begun = Change(operation=Operation(operation), at=seconds(began), run=run, actor=known)
    if ended is None:
        return ItemVersion(item=item, began=begun)
    ended_by = end_actor or actors.get(end_run)
    end = Change(operation=Operation(end_operation), at=seconds(ended), run=end_run, actor=ended_by)
    return ItemVersion(item=item, began=begun, ended=end)
