"""Versions of a store: histories, earlier states, runs and the archive, on the transactions of a database."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from typing import Any, TypeVar

from devmem.model.caller import current_actor
from devmem.model.filters import NO_FILTER, Filter
from devmem.model.items import MemoryItem, SourceKind, version_hash
from devmem.model.results import ERASED_BEFORE, NOT_ARCHIVED, WriteOutcome, WriteStatus
from devmem.model.versions import Change, ItemDifference, ItemVersion, Operation, RunInfo, RunState
from devmem.models.embedder import EmbeddingRefusal, PassageEmbeddings
from devmem.storage.changes import CurrentVersionWriter, ItemChanges, RunVersionWriter, store_embeddings
from devmem.storage.properties import (
    lacks_words_only,
    record_fields,
    record_words_only,
    replace_fields,
    replace_model,
)
from devmem.storage.protocol import Collection as ItemCollection
from devmem.storage.protocol import StateKey
from devmem.storage.runs import Runs, undoing
from devmem.storage.tables import ARCHIVED, CURRENT, NOW, State, StoreTables, TransactionalStore, as_of, of_run
from devmem.storage.writing import HistoryLimit, WritingCollection, check_deletion, recorded, seconds, stored_outcome

T = TypeVar("T")


class RunView(WritingCollection, TransactionalStore):
    """The items that a pending run sees; what it writes is seen by others from its commit on.

    What others commit meanwhile is seen at once, except for items that the run has changed itself.
    """

    _run: str
    _actor: str | None
    _viewed: State

    def _adding(self, operation: Callable[[ItemChanges], T]) -> T:
        """Run an operation in a write transaction, on the items of the run.

        Raises:
            RunStateError: the run has ended.
        """

        def change(tables: StoreTables) -> T:
            Runs(tables).begin(self._run, self._actor, recorded(self._clock()))
            return operation(
                ItemChanges(RunVersionWriter(tables, self._run), model=self._model_name(), clock=self._clock)
            )

        return self._writing(change)

    def set_embeddings(self, embeddings: Mapping[str, PassageEmbeddings | EmbeddingRefusal]) -> int:
        """Store the embeddings of waiting items, which everybody sees where the items are not the run's own."""
        return self._writing(lambda tables: store_embeddings(tables, self._model_name(), embeddings, self._viewed))


class VersionedStore(WritingCollection, TransactionalStore):
    """The methods of `ArchivingCollection`, and the writing of current items."""

    _history: HistoryLimit
    _model: str | None
    """Name of the model that queries are embedded with; None when it is not known."""

    @abstractmethod
    def exclusive(self, purpose: str) -> AbstractContextManager[None]:
        """Exclude every other process that names the same purpose until the block ends."""

    @property
    def states(self) -> StoredStates:
        """Values of the store beside its items; see `StatefulCollection`."""
        return StoredStates(self)

    def _model_name(self) -> str | None:
        return self._model

    def replace_model(self, model: str, dimension: int | None) -> int:
        """Delete every embedding and record the model of the new ones."""
        waiting = self._writing(lambda tables: replace_model(tables, model, dimension))
        self._model = model
        return waiting

    def index_fields(self, fields: Sequence[str]) -> int:
        """Search the items by other fields of theirs."""
        return self._writing(lambda tables: replace_fields(tables, tuple(fields)))

    def record_fields(self, fields: Sequence[str]) -> None:
        """Record that items are written with other fields, too."""
        self._writing(lambda tables: record_fields(tables, tuple(fields)))

    def record_words_only(self) -> None:
        """Record that the store has no model on purpose."""
        if self._reading(lacks_words_only):
            self._writing(record_words_only)

    @abstractmethod
    def _view(self, state: State, shown: str, *, clock: Callable[[], float]) -> ItemCollection:
        """Return a state, read only; `shown` names it in messages, and what has expired by its clock is not there."""

    @abstractmethod
    def _run_view(self, run: str, actor: str | None) -> ItemCollection:
        """Return the collection as a pending run sees and changes it."""

    @property
    def keeps_versions(self) -> bool:
        """Whether versions are kept after another one took their place."""
        return self._history.keeps

    def read(self, operation: Callable[[StoreTables], T]) -> T:
        """Run an operation on the tables that sees the database as of one commit."""
        return self._reading(operation)

    def write(self, operation: Callable[[StoreTables], T]) -> T:
        """Run an operation on the tables in a write transaction."""
        return self._writing(operation)

    def as_of(self, time: float) -> ItemCollection:
        """Return the collection as it was at a time, read only."""
        shown = f"it is shown as of {time:.6f} (seconds since the epoch)"
        return self._view(as_of(recorded(time)), shown, clock=lambda: time)

    def archived(self) -> ItemCollection:
        """Return the archived items, read only."""
        return self._view(ARCHIVED, "it shows what is archived", clock=self._clock)

    def run(self, run: str, *, actor: str | None = None) -> ItemCollection:
        """Return the collection as a pending run sees and changes it."""
        self._reading(lambda tables: Runs(tables).check_open(run))
        return self._run_view(run, actor)

    def _version_writer(self, tables: StoreTables, run: str | None = None) -> CurrentVersionWriter:
        """Return what changes the current items in a transaction, as a run, or as who writes now."""
        return CurrentVersionWriter(tables, limit=self._history, now=self._clock(), run=run)

    def _changes(self, tables: StoreTables) -> ItemChanges:
        return ItemChanges(self._version_writer(tables), model=self._model_name(), clock=self._clock)

    def _adding(self, operation: Callable[[ItemChanges], T]) -> T:
        return self._writing(lambda tables: operation(self._changes(tables)))

    def _deleting(self, operation: Callable[[ItemChanges], T]) -> T:
        return self._removing(lambda tables: operation(self._changes(tables)))

    def set_embeddings(self, embeddings: Mapping[str, PassageEmbeddings | EmbeddingRefusal]) -> int:
        """Store the embeddings of waiting items."""
        return self._writing(lambda tables: store_embeddings(tables, self._model_name(), embeddings, CURRENT))

    def trim(self, *, keep: int | None = None, stored_before: float | None = None) -> int:
        """Delete all but the newest items, and those stored before a time."""

        def is_due(tables: StoreTables) -> bool:
            query = f"SELECT 1 FROM items WHERE {tables.of} AND ({NOW} OR archived) AND created_at < ? LIMIT 1"
            if stored_before is not None and tables.execute(query, (stored_before,)):
                return True
            return keep is not None and tables.count(CURRENT, self._clock()) > keep

        # Asked without locks, which others may hold: most stores are within their limits.
        return super().trim(keep=keep, stored_before=stored_before) if self._reading(is_due) else 0

    def erase(self, *, ids: Sequence[str] | None = None, where: Filter | None = None) -> int:
        """Delete the named or the matching items permanently, with every version that they ever had."""
        if ids is None and where is None:
            check_deletion(ids, where)

        def erase(tables: StoreTables) -> int:
            """Erase the versions that match, and all of items that are not there without them."""
            condition, values = tables.dialect.where(where or NO_FILTER, self._clock())
            if ids is not None:
                named, listed = tables.dialect.among("id", list(ids))
                condition, values = f"{named} AND {condition}", [*listed, *values]
            query = f"SELECT row, id, slot, archived FROM items WHERE {tables.of} AND {condition}"
            found = tables.execute(query, values)
            there = {item_id for _, item_id, slot, _ in found if slot == "now"}
            whole = {item_id for _, item_id, *_ in found}
            whole -= ids_among(tables, whole - there, NOW)
            every, listed = planned(tables, sorted(whole), [row for row, *_ in found])
            Runs(tables).erase_versions(every, listed)
            return len(there) + sum(bool(archived) for *_, archived in found)

        return self._removing(erase)

    def runs(self, limit: int = 100) -> list[RunInfo]:
        """Return the runs that began last, newest first."""
        return self._reading(lambda tables: Runs(tables).newest(max(limit, 0)))

    def find_run(self, run: str) -> RunInfo | None:
        """Return what is known of a run; None when it has written nothing."""
        return self._reading(lambda tables: Runs(tables).find(run))

    def conflicts(self, run: str) -> list[str]:
        """Return the ids of the items that keep a run from being committed, or reverted."""
        return self._reading(lambda tables: Runs(tables).conflicts(run))

    def commit(self, run: str, *, then: Callable[[], object] | None = None) -> RunInfo:
        """Make what a pending run wrote the current items."""

        def commit_run(tables: StoreTables) -> RunInfo:
            Runs(tables).commit(run, self._version_writer(tables, run), self._clock)
            return _ended(tables, run, then)

        return self._writing(commit_run)

    def discard(self, run: str) -> RunInfo:
        """Drop what a pending run wrote."""

        def discard_run(tables: StoreTables) -> RunInfo:
            Runs(tables).discard(run, recorded(self._clock()))
            return Runs(tables).read(run)

        return self._writing(discard_run)

    def revert(self, run: str, *, then: Callable[[], object] | None = None) -> RunInfo:
        """Undo a committed run by changes that follow it."""
        inverse = undoing(run)

        def revert_run(tables: StoreTables) -> RunInfo:
            Runs(tables).revert(run, self._version_writer(tables, inverse), self._clock)
            return _ended(tables, inverse, then)

        return self._writing(revert_run)

    def restore(self, ids: Sequence[str], *, then: Callable[[], object] | None = None) -> list[WriteOutcome]:
        """Make archived items current ones again."""

        def restore_items(tables: StoreTables) -> list[WriteOutcome]:
            done = list(self._restored(tables, ids))
            if then is not None:
                then()
            return done

        return self._writing(restore_items)

    def _restored(self, tables: StoreTables, ids: Sequence[str]) -> Iterator[WriteOutcome]:
        """Make archived items current ones, in a write transaction; yield what becomes of each."""
        among, values = tables.dialect.among("id", list(ids))
        found = dict(tables.execute(f"SELECT id, row FROM items WHERE {tables.of} AND archived AND {among}", values))
        erased = tables.erased_among(tables.fetch_items(found.values()).values())
        writer = self._version_writer(tables)
        for item_id in dict.fromkeys(ids):
            if item_id not in found:
                yield NOT_ARCHIVED
            elif item_id in erased:
                yield WriteOutcome(status=WriteStatus.SKIPPED, reason=ERASED_BEFORE)
            else:
                tables.copy(found[item_id], writer.origin(Operation.RESTORE, None, current_actor().name))
                yield stored_outcome(item_id, replaced=None, waiting=False)

    def history(self, item_id: str) -> list[ItemVersion]:
        """Return the versions of an item, oldest first."""

        def read(tables: StoreTables) -> list[ItemVersion]:
            columns = "operation, change_run, began, change_actor, ended, end_operation, end_run, end_actor, row"
            of_item = f"FROM items WHERE {tables.of} AND id = ? AND began IS NOT NULL ORDER BY began, row"
            found = tables.execute(f"SELECT {columns}, {tables.dialect.body} {of_item}", (item_id,))
            runs, values = tables.dialect.among("run", [run for each in found for run in (each[1], each[6]) if run])
            actors = dict(tables.execute(f"SELECT run, actor FROM runs WHERE {tables.of} AND {runs}", values))
            return [_version(tables, actors, *each) for each in found]

        versions = self._reading(read)
        items = self._with_attachments([version.item for version in versions])
        return [replace(version, item=item) for version, item in zip(versions, items, strict=True)]

    def diff(self, before: float | str, after: float | str | None = None) -> list[ItemDifference]:
        """Return the items that differ between two states, or that a run changed."""

        def read(tables: StoreTables) -> list[tuple[MemoryItem | None, MemoryItem | None]]:
            if isinstance(before, str) and after is None:
                one, other = _around(tables, before)
            else:
                one, other = _state_at(tables, before), CURRENT.shown if after is None else _state_at(tables, after)
            rows = f"SELECT row, id FROM items WHERE {tables.of} AND"
            found = tables.execute(
                f"WITH earlier AS ({rows} {one}), later AS ({rows} {other}) SELECT earlier.row, later.row FROM earlier "
                "LEFT JOIN later ON later.id = earlier.id WHERE COALESCE(later.row, 0) <> earlier.row "
                "UNION ALL SELECT NULL, later.row FROM later LEFT JOIN earlier ON earlier.id = later.id "
                "WHERE earlier.row IS NULL"
            )
            items = tables.fetch_items(sorted({row for pair in found for row in pair if row is not None}))
            return [(items.get(one), items.get(other)) for one, other in found]

        pairs = [
            [None if item is None else self._with_attachments([item])[0] for item in pair]
            for pair in self._reading(read)
        ]
        changed = (ItemDifference(before=one, after=other) for one, other in pairs if _differ(one, other))
        return sorted(changed, key=lambda each: each.item_id)


class StoredStates:
    """The values of a store; see `StateTable`."""

    def __init__(self, store: VersionedStore) -> None:
        """Take the store."""
        self._store = store

    def get(self, keys: Sequence[StateKey]) -> dict[StateKey, bytes]:
        """Return the values that are there, as of one moment."""
        return self._store.read(lambda tables: _values(tables, keys))

    def names(self, kind: str) -> list[str]:
        """Return the names of all values of a kind, in order."""
        return [name for name, _ in self._all(kind, "NULL")]

    def scan(self, kind: str) -> Iterator[tuple[str, bytes]]:
        """Return all values of a kind with their names, in the order of these, as of one moment."""
        return ((name, bytes(value)) for name, value in self._all(kind, "value"))

    def _all(self, kind: str, column: str) -> list[tuple[str, bytes]]:
        def read(tables: StoreTables) -> list[tuple[str, bytes]]:
            query = f"SELECT name, {column} FROM states WHERE {tables.of} AND kind = ? ORDER BY name"
            return [(name, value) for name, value in tables.execute(query, (kind,))]

        return self._store.read(read)

    def exclusive(self, purpose: str) -> AbstractContextManager[None]:
        """Exclude every other process that names the same purpose until the block ends."""
        return self._store.exclusive(purpose)

    def write(
        self, values: Mapping[StateKey, bytes | None], *, expected: Mapping[StateKey, bytes | None] | None = None
    ) -> bool:
        """Write values in one transaction, if those that are expected are there; return whether they were."""

        def write(tables: StoreTables) -> bool:
            there = _values(tables, list(expected or ()))
            if any(there.get(key) != value for key, value in (expected or {}).items()):
                return False
            into, own = tables.dialect.into, tables.dialect.own
            gone = [key for key, value in values.items() if value is None]
            tables.change_many(f"DELETE FROM states WHERE {tables.of} AND kind = ? AND name = ?", gone)
            tables.change_many(
                f"INSERT INTO states({into}kind, name, value) VALUES ({own}?, ?, ?) "
                f"ON CONFLICT ({into}kind, name{tables.dialect.tail}) DO UPDATE SET value = excluded.value",
                [(*key, value) for key, value in values.items() if value is not None],
            )
            return True

        return self._store.write(write)


def _values(tables: StoreTables, keys: Sequence[StateKey]) -> dict[StateKey, bytes]:
    found: dict[StateKey, bytes] = {}
    for kind in dict.fromkeys(kind for kind, _ in keys):
        among, names = tables.dialect.among("name", [name for of, name in keys if of == kind])
        query = f"SELECT name, value FROM states WHERE {tables.of} AND kind = ? AND {among}"
        found |= {(kind, name): bytes(value) for name, value in tables.execute(query, (kind, *names))}
    return found


def ids_among(tables: StoreTables, ids: Collection[str], condition: str) -> set[str]:
    """Return those of some ids of which a version matches a condition."""
    among, values = tables.dialect.among("id", sorted(ids))
    found = tables.execute(f"SELECT id FROM items WHERE {tables.of} AND {among} AND {condition}", values)
    return {item_id for (item_id,) in found}


def planned(tables: StoreTables, ids: Sequence[str], rows: Sequence[int]) -> tuple[str, list[object]]:
    """Return the condition of all versions of some items, and of some versions."""
    of_items, names = tables.dialect.among("id", ids)
    if not rows:
        # SQLite would read every item for the sake of a list that is empty.
        return of_items, names
    of_rows, numbers = tables.dialect.among("row", rows)
    return f"{of_items} OR {of_rows}", [*names, *numbers]


def _ended(tables: StoreTables, run: str, then: Callable[[], object] | None) -> RunInfo:
    """Return what is known of a run that this transaction ended, after the last thing that may refuse."""
    info = Runs(tables).read(run)
    if then is not None:
        then()
    return info


def _state_at(tables: StoreTables, point: float | str) -> str:
    """Return the condition of the items at a time, or as a run left them."""
    if not isinstance(point, str):
        return as_of(recorded(point)).shown
    if _is_pending(tables, point):
        return of_run(tables.dialect, point).shown
    at = Runs(tables).committed_at(point)
    return "false" if at is None else as_of(at).shown


def _around(tables: StoreTables, run: str) -> tuple[str, str]:
    """Return the conditions of the items that a run changed, before it and after it."""
    if _is_pending(tables, run):
        return CURRENT.shown, of_run(tables.dialect, run).shown
    times = Runs(tables).span(run)
    if times is None:
        return "false", "false"
    # Where the changes of the run were seen at once, others may have changed other items between them.
    touched = f"id IN ({Runs(tables).touched(tables.dialect.literal(run))})"
    return f"{as_of(times[0] - 1).shown} AND {touched}", f"{as_of(times[1]).shown} AND {touched}"


def _is_pending(tables: StoreTables, run: str) -> bool:
    """Whether a run is pending; it is refused where it is neither that nor was ever committed."""
    info = Runs(tables).read(run)
    if info.state is RunState.PENDING:
        return True
    Runs(tables).require(info, RunState.COMMITTED, RunState.REVERTED)
    return False


def _differ(one: MemoryItem | None, other: MemoryItem | None) -> bool:
    """Whether two versions tell apart: one that was restored has another row."""
    if one is None or other is None:
        return one is not other
    return version_hash(one) != version_hash(other)


def _version(tables: StoreTables, actors: Mapping[str, str | None], *columns: Any) -> ItemVersion:  # noqa: ANN401
    operation, run, began, actor, ended, end_operation, end_run, end_actor, row, body = columns
    item, by = tables.load(row, body), actors.get(run)
    # Who wrote a new item is known best from itself: a command, or an import, acts for somebody else.
    is_new = operation == Operation.ADD
    known = by or _author_of(item) or actor if is_new else actor or by or _author_of(item)
    begun = Change(operation=Operation(operation), at=seconds(began), run=run, actor=known)
    if ended is None:
        return ItemVersion(item=item, began=begun)
    ended_by = end_actor or actors.get(end_run)
    end = Change(operation=Operation(end_operation), at=seconds(ended), run=end_run, actor=ended_by)
    return ItemVersion(item=item, began=begun, ended=end)


def _author_of(item: MemoryItem) -> str | None:
    """Return who wrote an item, as far as it says so itself; the name of a file or an import is not a writer."""
    is_place = item.provenance.kind in (SourceKind.FILE, SourceKind.IMPORT)
    return (None if is_place else item.provenance.name) or item.scope.agent
