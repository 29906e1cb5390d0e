"""The protocol of a collection: a durable, ordered, searchable set of items."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass, field
from typing import Any, Final, Literal, Protocol, Self, TypeAlias, runtime_checkable
from uuid import uuid4

from devmem.errors import CollectionError
from devmem.model.conditions import Order, Scalar
from devmem.model.filters import Filter
from devmem.model.items import MemoryItem, Scope
from devmem.model.results import HitGroup, SearchReport, WriteOutcome
from devmem.model.versions import ItemDifference, ItemVersion, RunInfo
from devmem.models.embedder import EmbeddingRefusal, PassageEmbeddings
from devmem.redaction import location_without_credentials
from devmem.search.query import SearchQuery
from devmem.storage.writing import Fields, PreparedItem, Unique

Durability: TypeAlias = Literal["full", "normal"]
"""`full` survives power loss; `normal` may lose the last writes then, but never when only the process ends."""

DEFAULT_HISTORY_DAYS: Final = 30.0
"""Days for which versions are kept after another one took their place."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CollectionInfo:
    """Location, size and embedding model of a collection."""

    location: str
    """User and password of a URL are masked."""
    items: int
    waiting: int
    """Items whose embedding is pending, those whose text the model refuses included."""
    size_bytes: int
    """On disk, index snapshots and attachments included; 0 in memory."""
    embedding: str | None
    """Name of the model that made the vectors; None when there are none."""
    dimension: int | None
    archived: int = 0
    """Archived items, which `items` does not count."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "location", location_without_credentials(self.location))


@runtime_checkable
class Collection(Protocol):
    """A durable, ordered, searchable set of items.

    It is safe to use from several threads, and from several processes where it lives in a file or a server.
    Every method raises `CollectionError` (damaged, busy, unwritable, closed) when it cannot do its work.
    """

    def add(
        self,
        items: Sequence[MemoryItem | PreparedItem],
        *,
        unique: Unique = Unique.ID,
        expected: Mapping[str, str | None] | None = None,
        absent: Filter | None = None,
    ) -> list[WriteOutcome]:
        """Store the items, all or none of them; they are durable when it returns.

        An item whose id is stored already is a duplicate where nothing of it differs but the time of storing, and
        supersedes the older version otherwise; embeddings of the same content are kept.

        Args:
            items: items to store; `PreparedItem.of` makes one form of both. The own `embedding` of a plain item is that
                of its first passage. An item without embeddings is stored as waiting for them.
            unique: rule by which an item is the same as one that is stored already.
            expected: by an item's id, the `version_hash` of the version that it replaces, None for none: the items are
                stored only if that is what is stored now (compare-and-set).
            absent: the items are stored only if no stored item matches this filter. Writers exclude each other by ids:
                whoever may store what it matches has to expect the absence of an id that the other one expects, too.

        Returns:
            One outcome for each item, in their order.

        Raises:
            VersionConflictError: another version than the expected one, or what has to be absent, is stored; nothing
                was changed.
        """
        ...

    def search(self, query: SearchQuery) -> SearchReport:
        """Return the best items, best first, and how they were found; `query.explain` adds what was cut and why.

        Without text and vector there is nothing to rank by, and nothing is found.
        """
        ...

    def conversations(self, query: SearchQuery, *, hits_each: int = 3) -> list[HitGroup]:
        """Return the conversations that the query is about, best first, at most `query.limit`.

        Items with the same conversation, session, agent and user are of one conversation; an item without one is a
        group of its own. Each group has at most `hits_each` hits; the group of the best hit is the first.
        """
        ...

    def get(self, ids: Sequence[str]) -> list[MemoryItem]:
        """Return the items that are there, in the order of `ids`, embeddings included."""
        ...

    def recent(
        self, limit: int, where: Filter | None = None, *, order: Order = Order.STORED, offset: int = 0
    ) -> list[MemoryItem]:
        """Return the last items of an order, the last one first, after passing over `offset` of them."""
        ...

    def scan(
        self, where: Filter | None = None, *, order: Order = Order.STORED, offset: int = 0
    ) -> Iterator[MemoryItem]:
        """Return every item in an order, embeddings included, reading them in batches; `offset` are passed over."""
        ...

    def values(
        self, key: str, where: Filter | None = None, *, prefix: str = "", limit: int | None = None, offset: int = 0
    ) -> list[Scalar]:
        """Return the distinct values that items have: flags, then numbers, then texts, each in order.

        Args:
            key: a part of the scope, `source_kind`, `source_name` or `metadata.KEY`; lists and mappings are left out.
            where: restricts the items.
            prefix: text that the values begin with; empty for values of any type.
            limit: maximum number of values; None for all.
            offset: number of values to pass over.

        Raises:
            FilterError: items have no such key.
        """
        ...

    def value_counts(self, key: str, where: Filter | None = None) -> list[tuple[Scalar | None, int]]:
        """Return how many items have each value of a key, the most frequent value first.

        A list counts with each of its elements. None stands for items without a value, and for mappings.

        Args:
            key: as for `values`; `metadata.a.b` is the value that `value_at` finds.
            where: restricts the items.

        Raises:
            FilterError: items have no such key.
        """
        ...

    def pop(self, count: int = 1, where: Filter | None = None) -> list[MemoryItem]:
        """Delete the items stored last, and return them, newest first: at most `count`, each to one caller only."""
        ...

    def delete(self, *, ids: Sequence[str] | None = None, where: Filter | None = None) -> int:
        """Delete the named or the matching items; return the number of deleted items.

        Raises:
            FilterError: neither ids nor a filter says what to delete; see `clear`.
        """
        ...

    def clear(self) -> int:
        """Delete every item; return their number."""
        ...

    def trim(self, *, keep: int | None = None, stored_before: float | None = None) -> int:
        """Delete all but the `keep` items stored last, and those stored before a time (seconds since the epoch).

        Pinned items stay. Return the number of deleted items.
        """
        ...

    def count(self, where: Filter | None = None) -> int:
        """Return the number of items that a search could find."""
        ...

    def waiting(self, limit: int) -> list[MemoryItem]:
        """Return at most `limit` items whose embedding is pending and was not refused, oldest first."""
        ...

    def refusals(self) -> dict[str, str]:
        """Return why the model does not embed items that wait by themselves, by id, oldest first."""
        ...

    def embeddings(self, ids: Sequence[str]) -> dict[str, PassageEmbeddings]:
        """Return the embeddings of those of the items that have them, by id."""
        ...

    def set_embeddings(self, embeddings: Mapping[str, PassageEmbeddings | EmbeddingRefusal]) -> int:
        """Store embeddings of waiting items, or why they go on waiting, by id; return the number that took theirs."""
        ...

    def replace_model(self, model: str, dimension: int | None) -> int:
        """Delete every embedding and record the model of the new ones; return the number of items that now wait."""
        ...

    def info(self) -> CollectionInfo:
        """Report what the collection is and how much it holds."""
        ...

    def close(self) -> None:
        """Release the files; the collection cannot be used afterwards. Closing twice is allowed."""
        ...


NO_STATES: Final = (
    "keeps items alone, and this store has to keep more: use the path of a SQLite file, or a URL of PostgreSQL."
)

StateKey: TypeAlias = tuple[str, str]
"""Kind and name of a value."""


class StateTable(Protocol):
    """Values of a store by kind and name; safe to use from several threads and processes."""

    def get(self, keys: Sequence[StateKey]) -> dict[StateKey, bytes]:
        """Return the values that are there, as of one moment."""
        ...

    def scan(self, kind: str) -> Iterator[tuple[str, bytes]]:
        """Return all values of a kind with their names, in the order of these, as of one moment."""
        ...

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
        ...

    def names(self, kind: str) -> list[str]:
        """Return the names of all values of a kind, in order."""
        ...

    def exclusive(self, purpose: str) -> AbstractContextManager[None]:
        """Exclude every other process that names the same purpose until the block ends; waits as long as it takes.

        Where the connection to the database is lost meanwhile, others may begin before the block ends.
        """
        ...


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


@runtime_checkable
class VersionedCollection(Collection, Protocol):
    """A collection that keeps what an item was when it is replaced or deleted.

    `add` begins versions, `delete` and `clear` end them. What `trim` and expiry remove is gone at once, versions
    included: retention is there to free space.
    """

    def history(self, item_id: str) -> list[ItemVersion]:
        """Return the committed versions of an item, oldest first; empty when none is kept.

        The current version is the last one, without `ended`; a deleted item has none.
        """
        ...

    def as_of(self, time: float) -> Collection:
        """Return the collection as it was at a time (seconds since the epoch), as far as its versions are kept.

        What had expired by then is left out. It is read only: its writing methods raise `CollectionReadOnlyError`. The
        caller closes it; the collection stays open.
        """
        ...

    def run(self, run: str, *, actor: str | None = None) -> Collection:
        """Return the collection as a pending run sees and changes it.

        What is written to it is seen by this run alone, in every process, until it is committed. Of what others commit
        meanwhile it sees all but the items that it has changed itself. The caller closes it; the run stays pending.

        Args:
            run: id of the run, which begins with its first write, or is pending already.
            actor: the node, tool or user that makes the changes, for the history.

        Raises:
            RunStateError: the run has ended.
        """
        ...

    def runs(self, limit: int = 100) -> list[RunInfo]:
        """Return the runs that began last, newest first, at most `limit`; one that was never pending is committed."""
        ...

    def find_run(self, run: str) -> RunInfo | None:
        """Return what is known of a run; None when it has written nothing."""
        ...

    def conflicts(self, run: str) -> list[str]:
        """Return the ids of the items that others changed since a run did, or that build on what it wrote.

        A pending run cannot be committed then, nor a committed one reverted.

        Raises:
            RunStateError: the run has ended otherwise, or a version that it replaced is not kept any more.
        """
        ...

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
        ...

    def discard(self, run: str) -> RunInfo:
        """Drop what a pending run wrote; one that is discarded stays so.

        Raises:
            RunStateError: the run was committed, or has written nothing.
        """
        ...

    def revert(self, run: str, *, then: Callable[[], object] | None = None) -> RunInfo:
        """Undo a committed run by changes that follow it, and return the run that they make: `revert of RUN`.

        What the run added is deleted, and what it replaced or deleted is the current version again, stored last.
        A run need not have been pending: what items name as their `scope.run` when they are written is of that run,
        and so is what is deleted while `acting_as` names it. `then` is called as `commit` calls its own.

        Raises:
            RunConflictError: later versions, or items that were derived, build on what the run wrote.
            RunStateError: the run is not committed, or a version that it replaced is not kept any more.
        """
        ...

    def diff(self, before: float | str, after: float | str | None = None) -> list[ItemDifference]:
        """Return the items that differ between two states, in the order of their ids.

        Args:
            before: a time (seconds since the epoch), or a run: the state that it left.
            after: likewise. None is the current state after a time; after a run it is what this run changed.

        Raises:
            RunStateError: there is no such run, or it was discarded.
        """
        ...

    def erase(self, *, ids: Sequence[str] | None = None, where: Filter | None = None) -> int:
        """Delete the named or the matching items permanently, with every version that they ever had.

        A version that matches is removed too where the item has changed since and does not match any more. A filter
        that admits everything erases everything. Return the number of deleted items.

        Raises:
            FilterError: there are neither ids nor a filter.
        """
        ...


@runtime_checkable
class SupportsArchiving(Protocol):
    """A collection, or a run's view of one, whose items can be moved into an archive."""

    def archive(self, ids: Sequence[str]) -> int:
        """Move the named items into the archive, where their last version is kept; return their number.

        They are in no index, and no method of the collection returns them, until they are restored. How long versions
        are kept does not concern them. What stores an item of the same id takes the archived one out of the archive.
        """
        ...


@runtime_checkable
class ArchivingCollection(VersionedCollection, SupportsArchiving, Protocol):
    """A collection with an archive: items that are kept with their versions, and are in no index."""

    def archived(self) -> Collection:
        """Return the archived items, read only. The caller closes it; the collection stays open.

        The first search makes a temporary index of all of them.
        """
        ...

    def restore(self, ids: Sequence[str], *, then: Callable[[], object] | None = None) -> list[WriteOutcome]:
        """Make archived items current ones again, stored last, all in one transaction; return an outcome for each.

        One whose content a tombstone keeps out, or that is not archived, is skipped. `then` is called within the
        transaction; when it raises, nothing is restored.
        """
        ...


@runtime_checkable
class UnlabelledEmbeddings(Protocol):
    """A collection that keeps embeddings of an unknown model aside: who has the model settles whether it made them."""

    location: str

    def unlabelled(self) -> list[MemoryItem]:
        """Return the items whose embedding names no model and was not settled, with that embedding."""
        ...

    def settle_unlabelled(self, items: Sequence[MemoryItem], *, same_model: bool) -> None:
        """Search by the embeddings of `unlabelled` items from now on, or keep them in the file alone.

        It writes nothing. The next write labels those of the same model.
        """
        ...

    def kept_vectors(self) -> int:
        """Return the number of embeddings that stand in the file, but are not known to be of the collection's model."""
        ...


MOST_EXPORTS: Final = 1_000
"""Maximum number of exports that are remembered, the latest ones."""


_MOST_IDS: Final = 100


_FOREVER: Final = float("-inf")


@dataclass(frozen=True, slots=True, kw_only=True)
class ExportRecord:
    """An export or a backup that was made."""

    kind: Literal["export", "backup"]
    place: str
    """Path of the file; empty where it was printed."""
    made_at: float
    """Seconds since the epoch, as all times here."""
    items: int
    """Number of items."""
    scope: Scope = field(default_factory=Scope)
    """Scope that the items were selected by, as salted hashes: it outlives a user who is forgotten."""
    after: float | None = None
    before: float | None = None
    """End of the time that they were selected by, as `Filter` has it."""
    ids: tuple[str, ...] = ()
    """Ids that they were selected by, hashed too; empty where there were none, or too many to record."""
    salt: str = ""
    """Salt of the hashes."""

    @classmethod
    def of_selection(cls, place: str, *, made_at: float, items: int, where: Filter, ids: Sequence[str] = ()) -> Self:
        """Return the record of an export of the items that have some ids, if there are any, and match a filter."""
        salt = uuid4().hex
        return cls(
            kind="export",
            place=place,
            made_at=made_at,
            items=items,
            scope=_hashed_scope(where.scope, salt),
            after=where.after,
            before=where.before,
            ids=tuple(_hashed(each, salt) for each in ids) if len(ids) <= _MOST_IDS else (),
            salt=salt,
        )

    def may_hold(self, item: MemoryItem) -> bool:
        """Whether an item may be in it, as far as its scope and its times tell."""
        if item.created_at > self.made_at or (self.ids and _hashed(item.id, self.salt) not in self.ids):
            return False
        if self.scope != Scope() and not self.scope.admits(_hashed_scope(item.scope, self.salt)):
            return False
        return Filter(after=self.after, before=self.before).admits(item, _FOREVER)

    def to_json(self) -> dict[str, Any]:
        """Return the JSON form; what does not apply is left out."""
        form = {key: value for key, value in asdict(self).items() if value not in (None, ()) and key != "scope"}
        scope = {key: value for key, value in asdict(self.scope).items() if value is not None}
        return {**form, **({"scope": scope} if scope else {})}

    @classmethod
    def from_json(cls, raw: dict[str, Any]) -> Self:
        """Read the JSON form.

        Raises:
            TypeError: it is none.
        """
        return cls(**{**raw, "scope": Scope(**raw.get("scope", {})), "ids": tuple(raw.get("ids", ()))})


def _hashed(value: str, salt: str) -> str:
    return hashlib.sha256(f"{salt}{value}".encode("utf-8", "surrogatepass")).hexdigest()


def _hashed_scope(scope: Scope, salt: str) -> Scope:
    return Scope(**{part: None if value is None else _hashed(value, salt) for part, value in asdict(scope).items()})


@runtime_checkable
class ExportLog(Protocol):
    """A collection that remembers its exports."""

    def record_export(self, export: ExportRecord) -> None:
        """Remember an export, durably."""
        ...

    def exports(self) -> list[ExportRecord]:
        """Return the exports that were made, the oldest first."""
        ...


@runtime_checkable
class SupportsFieldIndex(Protocol):
    """A collection that records the fields of all items that were written without a choice of their own."""

    def indexed_fields(self) -> Fields:
        """Return the fields that are recorded; none in a new collection."""
        ...

    def index_fields(self, fields: Sequence[str]) -> int:
        """Search the items by other fields of theirs, and record these; return the number of items that now wait.

        Items and versions keep what they were written with, unless that was left to the store: no fields of their own,
        or some that are or were recorded. Only items whose passages change lose their embeddings.
        """
        ...

    def record_fields(self, fields: Sequence[str]) -> None:
        """Record that items are written with other fields, too, which `index_fields` then takes for the store's."""
        ...


@runtime_checkable
class SupportsDerivedItems(Protocol):
    """A collection that finds derived items without reading the others."""

    def derived(self, after: int = 0) -> list[MemoryItem]:
        """Return the items in rows after one that name what they were derived from, oldest first."""
        ...

    def change_mark(self) -> tuple[int, object]:
        """Return the newest row, and what tells the newest removal or change of an item from the one before."""
        ...


@runtime_checkable
class SupportsWordsOnly(Protocol):
    """A collection that records whether it has no embedding model on purpose."""

    def record_words_only(self) -> None:
        """Record that whoever opens the collection without naming a model searches by words; a model replaces this.

        Nothing is written where that is recorded, or where there is a model.
        """
        ...
