"""Versions of a store: histories, earlier states, runs and the archive, on the transactions of a database."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from typing import Any, Protocol, TypeVar, runtime_checkable

from devmem.errors import CollectionError
from devmem.model.caller import current_actor
from devmem.model.filters import NO_FILTER, Filter
from devmem.model.items import MemoryItem, SourceKind, version_hash
from devmem.model.results import ERASED_BEFORE, NOT_ARCHIVED, WriteOutcome, WriteStatus
from devmem.model.versions import Change, ItemDifference, ItemVersion, Operation, RunInfo, RunState
from devmem.models.embedder import EmbeddingRefusal, PassageEmbeddings
from devmem.storage.changes import CurrentVersionWriter, ItemChanges, RunVersionWriter, store_embeddings
from devmem.storage.erasing import ErasableStore
from devmem.storage.erasure import EraseRequest
from devmem.storage.properties import (
    lacks_words_only,
    record_fields,
    record_words_only,
    replace_fields,
    replace_model,
)
from devmem.storage.protocol import NO_STATES, Collection, StateKey
from devmem.storage.reading import SqlReader, View
from devmem.storage.runs import Runs, ids_among, planned, undoing
from devmem.storage.tables import ARCHIVED, CURRENT, NOW, StoreDatabase, StoreTables, as_of, of_run
from devmem.storage.writing import (
    HistoryLimit,
    PreparedItem,
    Unique,
    check_deletion,
    recorded,
    seconds,
    stored_outcome,
)

T = TypeVar("T")


class SqlWriter(SqlReader):
    """The writing methods of `Collection`, with what changes the items within a transaction."""

    @abstractmethod
    def _changes(self, tables: StoreTables) -> ItemChanges:
        """Return what changes the items in a write transaction."""

    def _change(self, operation: Callable[[ItemChanges], T]) -> T:
        return self.database.remove(lambda tables: operation(self._changes(tables)))

    def add(
        self,
        items: Sequence[MemoryItem | PreparedItem],
        *,
        unique: Unique = Unique.ID,
        expected: Mapping[str, str | None] | None = None,
        absent: Filter | None = None,
    ) -> list[WriteOutcome]:
        """Store the items, all or none of them."""
        if not items:
            return []
        # Analysed before the transaction begins, as that takes longer than to insert them; a version that replaces
        # another one mostly has its texts, and takes its terms.
        replaced = {item_id for item_id, version in (expected or {}).items() if version is not None}
        cut = [PreparedItem.of(item) for item in items]
        prepared = [each if each.item.id in replaced else each.analysed() for each in cut]
        outcomes = self.database.write(
            lambda tables: self._changes(tables).add(prepared, unique, expected or {}, absent)
        )
        self.database.note(len(prepared))
        return outcomes

    def set_embeddings(self, embeddings: Mapping[str, PassageEmbeddings | EmbeddingRefusal]) -> int:
        """Store the embeddings of waiting items, which everybody sees where the items are not a run's own."""
        model = self.database.model
        return self.database.write(lambda tables: store_embeddings(tables, model, embeddings, self._viewed))

    def pop(self, count: int = 1, where: Filter | None = None) -> list[MemoryItem]:
        """Delete the items stored last, and return them."""
        return self._change(lambda changes: changes.pop(count, where or NO_FILTER))

    def delete(self, *, ids: Sequence[str] | None = None, where: Filter | None = None) -> int:
        """Delete the named or the matching items."""
        check_deletion(ids, where)
        return self._change(lambda changes: changes.delete(ids, where))

    def clear(self) -> int:
        """Delete everything."""
        return self._change(lambda changes: changes.delete(None, None))

    def archive(self, ids: Sequence[str]) -> int:
        """Move the named items into the archive, where their last version is kept; return their number.

        They are in no index, and no method of the collection returns them, until they are restored. How long versions
        are kept does not concern them. What stores an item of the same id takes the archived one out of the archive.
        """
        return self._change(lambda changes: changes.archive(ids))

    def trim(self, *, keep: int | None = None, stored_before: float | None = None) -> int:
        """Delete all but the newest items, and those stored before a time."""
        return self._change(lambda changes: changes.trim(keep, stored_before))


class RunView(SqlWriter, View):
    """The items that a pending run sees; what it writes is seen by others from its commit on.

    What others commit meanwhile is seen at once, except for items that the run has changed itself.
    """

    def __init__(self, database: StoreDatabase, run: str, actor: str | None) -> None:
        """Take the run; nothing is written yet."""
        super().__init__(database, of_run(database.dialect, run), f"run {run!r} is pending", database.clock)
        self._run, self._actor = run, actor

    def _changes(self, tables: StoreTables) -> ItemChanges:
        Runs(tables).begin(self._run, self._actor, recorded(self._clock()))
        return ItemChanges(RunVersionWriter(tables, self._run), model=self.database.model, clock=self._clock)


class VersionedCollection(SqlWriter, ErasableStore):
    """A collection that keeps what an item was when it is replaced or deleted, an archive, and values of its store.

    `add` begins versions, `delete` and `clear` end them. What `trim` and expiry remove is gone at once, versions
    included: retention is there to free space.
    """

    def __init__(self, database: StoreDatabase) -> None:
        """Take the database."""
        super().__init__(database)
        self._history = HistoryLimit(days=database.history_days)

    @property
    def states(self) -> StateTable:
        """Values of the store beside its items."""
        return StateTable(self.database)

    def replace_model(self, model: str, dimension: int | None) -> int:
        """Delete every embedding and record the model of the new ones."""
        waiting = self.database.write(lambda tables: replace_model(tables, model, dimension))
        self.database.model = model
        return waiting

    def index_fields(self, fields: Sequence[str]) -> int:
        """Search the items by other fields of theirs."""
        return self.database.write(lambda tables: replace_fields(tables, tuple(fields)))

    def record_fields(self, fields: Sequence[str]) -> None:
        """Record that items are written with other fields, too."""
        self.database.write(lambda tables: record_fields(tables, tuple(fields)))

    def record_words_only(self) -> None:
        """Record that the store has no model on purpose."""
        if self.database.read(lacks_words_only):
            self.database.write(record_words_only)

    @property
    def keeps_versions(self) -> bool:
        """Whether versions are kept after another one took their place."""
        return self._history.keeps

    def close(self) -> None:
        """Release the files and connections."""
        self.database.close()

    def as_of(self, time: float) -> View:
        """Return the collection as it was at a time (seconds since the epoch), as far as its versions are kept.

        What had expired by then is left out. It is read only: its writing methods raise `CollectionReadOnlyError`. The
        caller closes it; the collection stays open.
        """
        shown = f"it is shown as of {time:.6f} (seconds since the epoch)"
        return View(self.database, as_of(recorded(time)), shown, lambda: time)

    def archived(self) -> View:
        """Return the archived items, read only. The caller closes it; the collection stays open.

        The first search makes a temporary index of all of them.
        """
        return View(self.database, ARCHIVED, "it shows what is archived", self._clock)

    def run(self, run: str, *, actor: str | None = None) -> RunView:
        """Return the collection as a pending run sees and changes it.

        What is written to it is seen by this run alone, in every process, until it is committed. Of what others commit
        meanwhile it sees all but the items that it has changed itself. The caller closes it; the run stays pending.

        Args:
            run: id of the run, which begins with its first write, or is pending already.
            actor: the node, tool or user that makes the changes, for the history.

        Raises:
            RunStateError: the run has ended.
        """
        self.database.read(lambda tables: Runs(tables).check_open(run))
        return RunView(self.database, run, actor)

    def _version_writer(self, tables: StoreTables, run: str | None = None) -> CurrentVersionWriter:
        """Return what changes the current items in a transaction, as a run, or as who writes now."""
        return CurrentVersionWriter(tables, limit=self._history, now=self._clock(), run=run)

    def _changes(self, tables: StoreTables) -> ItemChanges:
        return ItemChanges(self._version_writer(tables), model=self.database.model, clock=self._clock)

    def trim(self, *, keep: int | None = None, stored_before: float | None = None) -> int:
        """Delete all but the newest items, and those stored before a time."""

        def is_due(tables: StoreTables) -> bool:
            query = f"SELECT 1 FROM items WHERE {tables.of} AND ({NOW} OR archived) AND created_at < ? LIMIT 1"
            if stored_before is not None and tables.execute(query, (stored_before,)):
                return True
            return keep is not None and tables.count(CURRENT, self._clock()) > keep

        # Asked without locks, which others may hold: most stores are within their limits.
        return super().trim(keep=keep, stored_before=stored_before) if self.database.read(is_due) else 0

    def erase(self, *, ids: Sequence[str] | None = None, where: Filter | None = None) -> int:
        """Delete the named or the matching items permanently, with every version that they ever had.

        A version that matches is removed too where the item has changed since and does not match any more. A filter
        that admits everything erases everything. Return the number of deleted items.

        Raises:
            FilterError: there are neither ids nor a filter.
        """
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
            every, listed = planned(tables.dialect, sorted(whole), [row for row, *_ in found])
            Runs(tables).erase_versions(every, listed)
            return len(there) + sum(bool(archived) for *_, archived in found)

        return self.database.remove(erase)

    def keep_out(self, request: EraseRequest, selected: Sequence[MemoryItem], derived: Sequence[MemoryItem]) -> int:
        """Keep tombstones of items that are about to be erased, in every version; return the number of texts.

        Of an item that stays, as only earlier versions were selected, these alone are kept out. The sentences of what
        was derived from others may be those of items that stay: it is kept out as a whole only.

        Args:
            request: what is erased.
            selected: items that were selected.
            derived: items that go with them.
        """
        erased = [*selected, *derived]
        named = {item.id for item in erased}
        wholes = {item.id for item in derived} | {i.id for i in erased if not named.isdisjoint(i.provenance.parents)}
        versions = [version for item in erased for version in self._erased_versions(request, item)]
        erasure = self.keep_tombstones(versions, wholes=wholes) if versions else ""
        return sum(each.texts for each in self.tombstones() if each.id == erasure)

    def _erased_versions(self, request: EraseRequest, item: MemoryItem) -> list[MemoryItem]:
        """Return the versions of an item that are erased, given one of them."""
        earlier = (version.item for version in self.history(item.id))
        versions = [item, *(version for version in earlier if version.scope.user == item.scope.user)]
        current = self.get([item.id])
        if not current or version_hash(current[0]) == version_hash(item):
            return versions
        stays = current[0].content_hash
        return [version for version in versions if version.content_hash != stays and request.admits(version)]

    def runs(self, limit: int = 100) -> list[RunInfo]:
        """Return the runs that began last, newest first, at most `limit`; one that was never pending is committed."""
        return self.database.read(lambda tables: Runs(tables).newest(max(limit, 0)))

    def find_run(self, run: str) -> RunInfo | None:
        """Return what is known of a run; None when it has written nothing."""
        return self.database.read(lambda tables: Runs(tables).find(run))

    def conflicts(self, run: str) -> list[str]:
        """Return the ids of the items that others changed since a run did, or that build on what it wrote.

        A pending run cannot be committed then, nor a committed one reverted.

        Raises:
            RunStateError: the run has ended otherwise, or a version that it replaced is not kept any more.
        """
        return self.database.read(lambda tables: Runs(tables).conflicts(run))

    def commit(self, run: str, *, then: Callable[[], object] | None = None) -> RunInfo:
        """Make what a pending run wrote the current items, all or nothing; one that is committed stays so.

        Args:
            run: id of the run.
            then: is called within the transaction when nothing can be in its way any more; when it raises, nothing is
                committed. It may be called again where the transaction has to be repeated.

        Raises:
            RunConflictError: others changed the same items since; nothing was committed, and the run stays pending.
            RunStateError: the run was discarded or reverted, or has written nothing.
        """

        def commit_run(tables: StoreTables) -> RunInfo:
            Runs(tables).commit(run, self._version_writer(tables, run), self._clock)
            return _ended(tables, run, then)

        return self.database.write(commit_run)

    def discard(self, run: str) -> RunInfo:
        """Drop what a pending run wrote; one that is discarded stays so.

        Raises:
            RunStateError: the run was committed, or has written nothing.
        """

        def discard_run(tables: StoreTables) -> RunInfo:
            Runs(tables).discard(run, recorded(self._clock()))
            return Runs(tables).read(run)

        return self.database.write(discard_run)

    def revert(self, run: str, *, then: Callable[[], object] | None = None) -> RunInfo:
        """Undo a committed run by changes that follow it, and return the run that they make: `revert of RUN`.

        What the run added is deleted, and what it replaced or deleted is the current version again, stored last.
        A run need not have been pending: what items name as their `scope.run` when they are written is of that run,
        and so is what is deleted while `acting_as` names it. `then` is called as `commit` calls its own.

        Raises:
            RunConflictError: later versions, or items that were derived, build on what the run wrote.
            RunStateError: the run is not committed, or a version that it replaced is not kept any more.
        """
        inverse = undoing(run)

        def revert_run(tables: StoreTables) -> RunInfo:
            Runs(tables).revert(run, self._version_writer(tables, inverse), self._clock)
            return _ended(tables, inverse, then)

        return self.database.write(revert_run)

    def restore(self, ids: Sequence[str]) -> list[WriteOutcome]:
        """Make archived items current ones again, stored last, all in one transaction; return an outcome for each.

        One whose content a tombstone keeps out, or that is not archived, is skipped.
        """
        return self.database.write(lambda tables: list(self._restored(tables, ids)))

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
        """Return the committed versions of an item, oldest first; empty when none is kept.

        The current version is the last one, without `ended`; a deleted item has none.
        """

        def read(tables: StoreTables) -> list[ItemVersion]:
            columns = "operation, change_run, began, change_actor, ended, end_operation, end_run, end_actor, row"
            of_item = f"FROM items WHERE {tables.of} AND id = ? AND began IS NOT NULL ORDER BY began, row"
            found = tables.execute(f"SELECT {columns}, {tables.dialect.body} {of_item}", (item_id,))
            runs, values = tables.dialect.among("run", [run for each in found for run in (each[1], each[6]) if run])
            actors = dict(tables.execute(f"SELECT run, actor FROM runs WHERE {tables.of} AND {runs}", values))
            return [_version(tables, actors, *each) for each in found]

        versions = self.database.read(read)
        items = self.database.with_attachments([version.item for version in versions])
        return [replace(version, item=item) for version, item in zip(versions, items, strict=True)]

    def diff(self, before: float | str, after: float | str | None = None) -> list[ItemDifference]:
        """Return the items that differ between two states, in the order of their ids.

        Args:
            before: a time (seconds since the epoch), or a run: the state that it left.
            after: likewise. None is the current state after a time; after a run it is what this run changed.

        Raises:
            RunStateError: there is no such run, or it was discarded.
        """

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
            [None if item is None else self.database.with_attachments([item])[0] for item in pair]
            for pair in self.database.read(read)
        ]
        # One that was restored has another row.
        changed = (
            ItemDifference(before=one, after=other)
            for one, other in pairs
            if (one and version_hash(one)) != (other and version_hash(other))
        )
        return sorted(changed, key=lambda each: each.item_id)


class StateTable:
    """Values of a store by kind and name; safe to use from several threads and processes."""

    def __init__(self, database: StoreDatabase) -> None:
        """Take the database of the store."""
        self._database = database

    def get(self, keys: Sequence[StateKey]) -> dict[StateKey, bytes]:
        """Return the values that are there, as of one moment."""
        return self._database.read(lambda tables: _values(tables, keys))

    def names(self, kind: str) -> list[str]:
        """Return the names of all values of a kind, in order."""
        return [name for name, _ in self._all(kind, "NULL")]

    def scan(self, kind: str) -> Iterator[tuple[str, bytes]]:
        """Return all values of a kind with their names, in the order of these, as of one moment."""
        return ((name, bytes(value)) for name, value in self._all(kind, "value"))

    def _all(self, kind: str, column: str) -> list[tuple[Any, ...]]:
        return self._database.read(
            lambda tables: tables.execute(
                f"SELECT name, {column} FROM states WHERE {tables.of} AND kind = ? ORDER BY name", (kind,)
            )
        )

    def exclusive(self, purpose: str) -> AbstractContextManager[None]:
        """Exclude every other process that names the same purpose until the block ends; waits as long as it takes.

        Where the connection to the database is lost meanwhile, others may begin before the block ends.
        """
        return self._database.exclusive(purpose)

    def write(
        self, values: Mapping[StateKey, bytes | None], *, expected: Mapping[StateKey, bytes | None] | None = None
    ) -> bool:
        """Write values in one transaction, durable when it returns.

        Args:
            values: the new values; None deletes one.
            expected: values that have to be there, None for none; only then anything is written.

        Returns:
            Whether the expected values were there.
        """

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

        return self._database.write(write)


@runtime_checkable
class StatefulCollection(Protocol):
    """A collection that keeps further values of its store."""

    @property
    def states(self) -> StateTable:
        """The values of the store."""
        ...


def states_of(collection: Collection) -> StateTable:
    """Return the values of a store that its collection keeps.

    Raises:
        CollectionError: it keeps none.
    """
    if not isinstance(collection, StatefulCollection):
        raise CollectionError(collection.info().location, NO_STATES)
    return collection.states


def _values(tables: StoreTables, keys: Sequence[StateKey]) -> dict[StateKey, bytes]:
    found: dict[StateKey, bytes] = {}
    for kind in dict.fromkeys(kind for kind, _ in keys):
        among, names = tables.dialect.among("name", [name for of, name in keys if of == kind])
        query = f"SELECT name, value FROM states WHERE {tables.of} AND kind = ? AND {among}"
        found |= {(kind, name): bytes(value) for name, value in tables.execute(query, (kind, *names))}
    return found


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
