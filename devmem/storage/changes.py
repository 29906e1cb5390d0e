"""Changing items within one write transaction: what is replaced or deleted stays as a version."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from typing import Final, TypeAlias

from devmem.errors import VersionConflictError
from devmem.model.caller import Actor, current_actor
from devmem.model.fields import embedded_hash
from devmem.model.filters import Filter
from devmem.model.items import PINNED, MemoryItem, version_hash
from devmem.model.results import ERASED_BEFORE, WriteOutcome, WriteStatus
from devmem.model.versions import Operation
from devmem.models.embedder import EmbeddingRefusal, PassageEmbeddings
from devmem.search.indexes.passages import has_text
from devmem.storage.sql import Sql
from devmem.storage.tables import CURRENT, NOW, NewItem, Origin, State, StoreTables, of_run, slot_of
from devmem.storage.writing import (
    HistoryLimit,
    PreparedItem,
    StoredVersion,
    Unique,
    VersionEnd,
    check_item,
    recorded,
    stored_hash,
    stored_outcome,
    usable_embeddings,
)

_SWEEP_LIMIT: Final = 200
"""Maximum number of items, and of versions, that one write removes because they expired or are too old."""
_STAMP: Final = (
    "UPDATE items SET began = ? WHERE {of} AND row > ? AND began = ?",
    "UPDATE items SET ended = ? WHERE {of} AND ended = ?",
)
_FORGOTTEN: Final = VersionEnd(operation=Operation.FORGET)
_ARCHIVED: Final = VersionEnd(operation=Operation.ARCHIVE)
RECORDED: Final = "recorded"
"""Property with the recorded time of the last change."""


class VersionWriter(ABC):
    """Changes the items of a state within one write transaction."""

    tables: StoreTables
    state: State

    @abstractmethod
    def insert(self, new: Sequence[NewItem]) -> list[int]:
        """Insert items, each of another id; return their rows."""

    @abstractmethod
    def end(self, condition: str, values: Sequence[object], ending: VersionEnd) -> int:
        """Delete the items that match a condition, which stay as versions where these are kept; return their number."""

    @abstractmethod
    def remove(self, condition: str, values: Sequence[object]) -> int:
        """Delete the items that match a condition permanently, as retention does; return their number."""

    def stamp(self, now: float) -> None:  # noqa: B027 - what a run writes is recorded when it is committed
        """Record what was changed as of `now` (seconds since the epoch); the commit comes next."""

    def prune(self) -> None:  # noqa: B027 - what others see is not a run's to remove
        """Remove some of what retention removes, where that is due."""


class CurrentVersionWriter(VersionWriter):
    """Changes the items that everybody sees."""

    state = CURRENT

    def __init__(self, tables: StoreTables, *, limit: HistoryLimit, now: float, run: str | None = None) -> None:
        """Prepare the changes of one write transaction.

        Args:
            tables: of the store, in a write transaction.
            limit: how long versions are kept.
            now: seconds since the epoch.
            run: the run that is being committed or reverted; None takes that of each item's scope.
        """
        self.tables, self._limit, self._now = tables, limit, now
        self._at: int | None = None
        self._newest = 0
        # What a run writes on commit has the actors that wrote it.
        self._actor = Actor(run=run) if run is not None else current_actor()

    @property
    def at(self) -> int:
        """Recorded time of the transaction."""
        if self._at is None:
            newest = f"SELECT COALESCE(max(row), 0) FROM items WHERE {self.tables.of}"
            ((self._newest,),) = self.tables.execute(newest)
            # Later than that of every one before: where the clock was set back, the last recorded time counts on.
            self._at = max(recorded(self._now), int(self.tables.property(RECORDED) or -1) + 1)
            self.tables.set_property(RECORDED, self._at)
        return self._at

    def stamp(self, now: float) -> None:
        """Record what was changed as of `now`, where it took long: no one sees it before the commit."""
        before, until = self._at, recorded(now)
        if before is None or until - before < self.tables.restamp_after:
            return
        self._at = until
        began, ended = (statement.format(of=self.tables.of) for statement in _STAMP)
        self.tables.change(began, (until, self._newest, before))
        self.tables.change(ended, (until, before))
        self.tables.set_property(RECORDED, until)

    def origin(self, operation: Operation, item_run: str | None, actor: str | None = None) -> Origin:
        """Return the change that begins a version now; `actor` made it, where that is not who changes items now."""
        run, by = self._actor.run or item_run, actor or self._actor.name
        return Origin(operation=operation.value, run=run, actor=by, at=self.at)

    def insert(self, new: Sequence[NewItem]) -> list[int]:
        """Insert current items."""
        origins = [
            self.origin(Operation.UPDATE if one.replaces else Operation.ADD, one.prepared.item.scope.run) for one in new
        ]
        return self.tables.insert(new, origins)

    def end(self, condition: str, values: Sequence[object], ending: VersionEnd) -> int:
        """End the current versions; delete them where no versions are kept, unless they are archived."""
        if not (self._limit.keeps or ending.operation is Operation.ARCHIVE):
            return self.remove(condition, values)
        by = replace(ending, run=self._actor.run or ending.run, actor=ending.actor or self._actor.name)
        return self.tables.end(condition, values, by, self.at)

    def remove(self, condition: str, values: Sequence[object]) -> int:
        """Delete items and what only they use."""
        return self.tables.delete(f"{NOW} AND {condition}", values)

    def keeps_since(self, at: int) -> bool:
        """Whether every version that ended at a recorded time, or later, is still kept."""
        return self._limit.keeps_since(at, self._now)

    def prune(self) -> None:
        """Remove some of what is past its `expires_at`, and of the versions that ended too long ago.

        At most `_SWEEP_LIMIT` of each go with one write, so that none is slow; what is left is not found meanwhile.
        """
        if self._is_due("expires_at <= ?", self._now):
            rows = f"SELECT row FROM items WHERE {self.tables.of} AND"
            part = f"{rows} {NOW} AND expires_at <= ? ORDER BY expires_at, row LIMIT {_SWEEP_LIMIT}"
            # What replaces an expired item is in no conflict with its expiry.
            forgotten = f"UPDATE items SET base = NULL WHERE {self.tables.of} AND began IS NULL AND base IN ({part})"
            self.tables.change(forgotten, (self._now,))
            self.remove(f"row IN ({part})", [self._now])
            self._prune_versions("expires_at <= ? AND ended IS NOT NULL", self._now)
        if (oldest := self._limit.oldest(self._now)) is not None:
            self._prune_versions("ended < ? AND archived IS NULL", oldest)

    def _is_due(self, condition: str, value: object) -> bool:
        return bool(
            self.tables.execute(f"SELECT 1 FROM items WHERE {self.tables.of} AND {condition} LIMIT 1", (value,))
        )

    def _prune_versions(self, condition: str, value: object) -> None:
        """Remove some of the versions that match a condition: a write that does a little is never slow."""
        if self._is_due(condition, value):
            some = f"SELECT row FROM items WHERE {self.tables.of} AND {condition} LIMIT {_SWEEP_LIMIT}"
            self.tables.delete(f"row IN ({some})", [value])


class RunVersionWriter(VersionWriter):
    """Changes the items that a pending run sees."""

    def __init__(self, tables: StoreTables, run: str) -> None:
        """Prepare the changes of one write transaction."""
        self.tables, self.state = tables, of_run(tables.dialect, run)
        self._run, self._slot, self._actor = run, slot_of(run), current_actor().name

    def _origin(self, operation: Operation, base: int | None = None) -> Origin:
        return Origin(operation=operation.value, run=self._run, actor=self._actor, at=None, slot=self._slot, base=base)

    def insert(self, new: Sequence[NewItem]) -> list[int]:
        """Insert versions of the run in the place of those that it has of the items."""
        ids = [one.prepared.item.id for one in new]
        own, values = self.tables.dialect.among("id", ids)
        own, values = f"{own} AND slot = ?", [*values, self._slot]
        query = f"SELECT id, base FROM items WHERE {self.tables.of} AND {own}"
        bases: dict[str, int | None] = dict(self.tables.execute(query, values))
        if bases:
            self.tables.delete(own, values)
        found = [bases.get(item_id) for item_id in ids]
        origins = [self._origin(Operation.ADD if base is None else Operation.UPDATE, base) for base in found]
        return self.tables.insert(new, origins)

    def end(self, condition: str, values: Sequence[object], ending: VersionEnd) -> int:
        """Hide items from the run, by a mark where others have them; the rest is decided on commit."""
        of = self.tables.of
        query = f"SELECT row, slot FROM items WHERE {of} AND {self.state.shown} AND {condition}"
        found: dict[int, str] = dict(self.tables.execute(query, values))
        if not found:
            return 0
        own_rows = [row for row, slot in found.items() if slot == self._slot]
        if len(own_rows) < len(found):
            self.tables.mark_deleted([row for row in found if found[row] != self._slot], self._origin(ending.operation))
        if own_rows:
            own, rows = self.tables.dialect.among("row", own_rows)
            # The row that a version replaces stays recorded, so that a commit sees what others changed meanwhile.
            there = f"id IN (SELECT now.id FROM items AS now WHERE {of} AND now.{NOW})"
            mark = f"UPDATE items SET operation = ?, change_actor = ? WHERE {of} AND {own}"
            marked = (ending.operation.value, self._actor, *rows)
            self.tables.change(f"{mark} AND (base IS NOT NULL OR {there})", marked)
            self.tables.delete(f"{own} AND operation <> ?", [*rows, ending.operation.value])
        self.tables.note_hidden(list(found))
        return len(found)

    def remove(self, condition: str, values: Sequence[object]) -> int:
        """Hide items from the run."""
        return self.end(condition, values, _FORGOTTEN)


_Content: TypeAlias = tuple[str, str | None, str | None]
"""Hash of a content, agent and user: what is the same for `Unique.CONTENT`."""


def _content(item: MemoryItem) -> _Content:
    return item.content_hash, item.scope.agent, item.scope.user


class ItemChanges:
    """Changes items by a version writer, within one write transaction."""

    def __init__(self, writer: VersionWriter, *, model: str | None, clock: Callable[[], float]) -> None:
        """Take what the changes need.

        Args:
            writer: that of the write transaction.
            model: name of the model that made the embeddings; None when it is not known.
            clock: current time in seconds since the epoch; what has expired by now is not there.
        """
        self._writer, self._tables, self._model, self._clock = writer, writer.tables, model, clock
        self._now, self._shown = clock(), f"{writer.tables.of} AND {writer.state.shown}"

    def add(
        self,
        batch: Sequence[PreparedItem],
        unique: Unique,
        expected: Mapping[str, str | None],
        absent: Filter | None,
    ) -> list[WriteOutcome]:
        """Store the items that are not stored already; see `Collection.add`."""
        for prepared in batch:
            check_item(prepared.item)
        has_model = self._tables.check_embeddings(self._model, (item.embeddings for item in batch))
        self._writer.prune()
        adding = _Addition(self._writer, self._shown, self._now, has_model=has_model)
        adding.read(batch, expected, unique)
        if absent is not None:
            condition, values = self._condition(absent)
            found = self._tables.execute(f"SELECT id FROM items WHERE {self._shown} AND {condition} LIMIT 1", values)
            if found:
                raise VersionConflictError(found[0][0], expected=None, found="")
        outcomes = [adding.add(prepared, unique) for prepared in batch]
        adding.write()
        self._writer.stamp(self._clock())
        return outcomes

    def pop(self, count: int, where: Filter) -> list[MemoryItem]:
        """Delete the items that match and were stored last; return them with attachments, newest first."""
        condition, values = self._condition(where)
        clause = f"{self._shown} AND {condition} ORDER BY items.row DESC LIMIT ?"
        found = self._tables.whole(clause, (*values, max(count, 0)))
        if found:
            self._writer.end(*self._tables.dialect.among("row", [row for row, _ in found]), _FORGOTTEN)
        self._writer.stamp(self._clock())
        return [item for _, item in found]

    def delete(self, ids: Sequence[str] | None, where: Filter | None) -> int:
        """Delete the items with these ids that match the filter; None for either does not restrict."""
        condition, values = self._condition(where)
        if ids is not None:
            named, listed = self._tables.dialect.among("id", list(ids))
            condition, values = f"{named} AND {condition}", [*listed, *values]
        deleted = self._writer.end(condition, values, _FORGOTTEN)
        self._writer.stamp(self._clock())
        return deleted

    def archive(self, ids: Sequence[str]) -> int:
        """Move the items with these ids into the archive; return their number."""
        moved = self._writer.end(*self._tables.dialect.among("id", list(ids)), _ARCHIVED)
        self._writer.stamp(self._clock())
        return moved

    def trim(self, keep: int | None, stored_before: float | None) -> int:
        """Delete all but the newest items, and those stored before a time, permanently.

        What has expired and is still there takes no item's place; pinned items stay beside the newest.
        """
        deleted = 0
        pinned, values = self._tables.dialect.metadata({PINNED: True})
        unpinned = f"({pinned}) IS NOT TRUE"
        if stored_before is not None:
            deleted += self._writer.remove(f"created_at < ? AND {unpinned}", [stored_before, *values])
            deleted += self._tables.delete("archived AND created_at < ?", [stored_before])
        if keep is not None and (surplus := self._tables.count(self._writer.state, self._now) - keep) > 0:
            lives = f"{self._shown} AND (expires_at IS NULL OR expires_at > ?)"
            oldest = f"row IN (SELECT row FROM items WHERE {lives} ORDER BY row LIMIT ?)"
            deleted += self._writer.remove(f"{oldest} AND {unpinned}", [self._now, surplus, *values])
        return deleted

    def _condition(self, where: Filter | None) -> Sql:
        return ("true", []) if where is None else self._tables.dialect.where(where, self._now)


class _Addition:
    """Adds a batch of items: decides on each in its turn, then ends and inserts all at once."""

    def __init__(self, writer: VersionWriter, shown: str, now: float, *, has_model: bool) -> None:
        self._writer, self._tables, self._shown, self._now = writer, writer.tables, shown, now
        self._has_model = has_model
        self._stored: dict[str, StoredVersion] = {}
        """Versions that are there, by id."""
        self._embeddings: dict[str, PassageEmbeddings] = {}
        """Embeddings of those that items without embeddings replace, by id."""
        self._holders: dict[_Content, list[str]] = {}
        """Ids of the items with a content."""
        self._new: dict[str, NewItem] = {}
        self._erased: Collection[str] = ()
        """Ids of the items that a tombstone keeps out."""
        self._expired: list[int] = []
        self._superseded: dict[str | None, list[int]] = {}
        """Rows of versions that are replaced, by the run that does so."""

    def read(self, batch: Sequence[PreparedItem], expected: Mapping[str, str | None], unique: Unique) -> None:
        """Read what the batch is compared with.

        Raises:
            VersionConflictError: another version than an expected one is stored.
        """
        ids = list(dict.fromkeys((*(prepared.item.id for prepared in batch), *expected)))
        among, values = self._tables.dialect.among("id", ids)
        query = f"SELECT row, content_hash, {self._tables.dialect.body} FROM items WHERE {self._shown} AND {among}"
        for row, content_hash, body in self._tables.execute(query, values):
            found = StoredVersion(row=row, content_hash=content_hash, item=self._tables.load(row, body))
            if found.item.expired(self._now):
                self._expired.append(row)
            else:
                self._stored[found.item.id] = found
        for item_id, wanted in expected.items():
            version = self._stored[item_id].version if item_id in self._stored else None
            if version != wanted:
                raise VersionConflictError(item_id, expected=wanted, found=version)
        self._erased = self._tables.erased_among(prepared.item for prepared in batch)
        without = (prepared.item.id for prepared in batch if prepared.embeddings is None)
        if kept := [item_id for item_id in without if item_id in self._stored]:
            self._embeddings = self._tables.embeddings(kept, self._writer.state.shown)
        if unique is not Unique.CONTENT:
            return
        hashes = sorted({prepared.item.content_hash for prepared in batch})
        among, values = self._tables.dialect.among("content_hash", hashes)
        query = (
            f'SELECT id, content_hash, agent, "user" FROM items WHERE {among} AND {self._shown} '
            "AND (expires_at IS NULL OR expires_at > ?) ORDER BY row"
        )
        for item_id, *content in self._tables.execute(query, (*values, self._now)):
            self._holders.setdefault((content[0], content[1], content[2]), []).append(item_id)

    def add(self, prepared: PreparedItem, unique: Unique) -> WriteOutcome:
        """Decide on an item."""
        item = prepared.item
        if item.id in self._new:
            self.write()
        older = self._stored.get(item.id)
        refused = self._refused(item, older, unique)
        if refused is not None:
            return refused
        if older is not None:
            self._superseded.setdefault(item.scope.run, []).append(older.row)
            for holders in self._holders.values():
                if item.id in holders:
                    holders.remove(item.id)
        embeddings = usable_embeddings(item.id, self._embeddings_of(prepared))
        # Without a model the item is marked too: one may be added to the workflow later.
        waiting = embeddings is None and has_text(item)
        is_like = (
            older is not None
            and prepared.encoded is None
            and prepared.indexed_texts() == PreparedItem.of(older.item).indexed_texts()
        )
        self._new[item.id] = NewItem(
            prepared=prepared,
            embeddings=embeddings,
            waiting=waiting,
            replaces=older is not None,
            like=older.row if older is not None and is_like else None,
        )
        self._holders.setdefault(_content(item), []).append(item.id)
        replaced = older.content_hash if older else None
        return stored_outcome(item.id, replaced=replaced, waiting=waiting and self._has_model)

    def _refused(self, item: MemoryItem, older: StoredVersion | None, unique: Unique) -> WriteOutcome | None:
        """Return the outcome of an item that is not to be stored; None for one that is."""
        item_id, reason = "", ""
        if older is not None and older.version == version_hash(item):
            item_id, reason = item.id, "this item is stored already"
        elif item.id in self._erased and (older is None or older.content_hash != item.content_hash):
            return WriteOutcome(status=WriteStatus.SKIPPED, reason=ERASED_BEFORE)
        elif unique is Unique.CONTENT:
            # Another item with the same content.
            item_id = next((holder for holder in self._holders.get(_content(item), ()) if holder != item.id), "")
            reason = "the same content is stored already" if item_id else ""
        return WriteOutcome(status=WriteStatus.DUPLICATE, item_id=item_id, reason=reason) if reason else None

    def _embeddings_of(self, prepared: PreparedItem) -> PassageEmbeddings | None:
        """Return the embeddings of an item, or else those of its older version where that has the same content."""
        found = self._embeddings.get(prepared.item.id)
        if prepared.embeddings is None and found is not None and found.is_of(embedded_hash(prepared.item)):
            return found
        return prepared.embeddings

    def write(self) -> None:
        """End what is replaced, and insert what was decided on."""
        if self._expired:
            self._writer.remove(*self._tables.dialect.among("row", self._expired))
        for run, rows in self._superseded.items():
            ending = VersionEnd(operation=Operation.UPDATE, run=run)
            self._writer.end(*self._tables.dialect.among("row", rows), ending)
        new = list(self._new.values())
        for row, one in zip(self._writer.insert(new) if new else (), new, strict=True):
            item = one.prepared.item
            self._stored[item.id] = StoredVersion(row=row, content_hash=item.content_hash, item=item)
            if one.embeddings is not None:
                self._embeddings[item.id] = replace(one.embeddings, content_hash=embedded_hash(item))
        self._expired, self._superseded, self._new = [], {}, {}


def store_embeddings(
    tables: StoreTables,
    model: str | None,
    embeddings: Mapping[str, PassageEmbeddings | EmbeddingRefusal],
    state: State,
) -> int:
    """Store the embeddings of waiting items, by id, or why they get none; return the number that took embeddings.

    Raises:
        EmbeddingMismatchError: they are of another model than `model`, or of another length.
    """
    tables.check_embeddings(model, embeddings.values())
    among, values = tables.dialect.among("id", list(embeddings))
    columns = f"id, row, content_hash, {tables.dialect.body}"
    query = f"SELECT {columns} FROM items WHERE {tables.of} AND {among} AND waiting AND {state.shown} ORDER BY row"
    done: list[tuple[int, PassageEmbeddings]] = []
    for item_id, row, content_hash, body in tables.execute(query, values):
        given = embeddings[item_id]
        usable = given if isinstance(given, EmbeddingRefusal) else usable_embeddings(item_id, given)
        if usable is None or not usable.is_of(stored_hash(content_hash, body)):
            continue
        if isinstance(usable, EmbeddingRefusal):
            tables.change(f"UPDATE items SET refusal = ? WHERE {tables.of} AND row = ?", (usable.reason, row))
        else:
            done.append((row, usable))
    if done:
        tables.embed(done)
        among, values = tables.dialect.among("row", [row for row, _ in done])
        tables.change(f"UPDATE items SET waiting = ?, refusal = NULL WHERE {tables.of} AND {among}", (False, *values))
    return len(done)
