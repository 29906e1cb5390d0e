"""The tables of a store, and what differs between databases in using them.

`items` holds every version of every item; `slot` tells which one it is: `now` of the current version, `run:ID` of what
a pending run wrote, and `was:ROW` of one that ended. What a state of the collection shows, now, at a time, in a run or
in the archive, is a condition on this table (`State`). A version keeps its row number, and with it its passages,
vectors and token codes, until it is removed. Recorded times are microseconds since the epoch and differ between any two
transactions of a store; a pending version has none.
"""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Final, NamedTuple, TypeVar

from devmem.errors import EmbeddingMismatchError
from devmem.model.conditions import Scalar
from devmem.model.filters import Filter
from devmem.model.items import MemoryItem
from devmem.model.versions import GONE
from devmem.models.embedder import EmbeddingRefusal, PassageEmbeddings
from devmem.search.indexes.scoring import EncodedTerms
from devmem.search.query import SearchQuery
from devmem.storage.attachments import inlined
from devmem.storage.protocol import CollectionInfo
from devmem.storage.sql import Dialect, Sql
from devmem.storage.tombstones import erased_items
from devmem.storage.writing import PreparedItem, VersionEnd

if TYPE_CHECKING:
    from devmem.search.source import SearchSource

NOW: Final = "slot = 'now'"
"""Condition of the current versions."""
TOMBSTONE_KEYS: Final = "tombstone_keys"
"""Property with the keys of the tombstones, as JSON."""
_BODIES: Final = 1000
"""Number of bodies that one statement reads."""
MISSING: Final = MemoryItem(id="", content_summary="", created_at=0.0)
"""Stands for a row that is damaged or not there, while a search ranks it."""
GONE_SQL: Final = ", ".join(f"'{operation.value}'" for operation in GONE)
"""The changes after which there is no current version, as a list of SQL."""


@dataclass(frozen=True, slots=True, kw_only=True)
class State:
    """A state of the collection: the versions that it shows, as conditions on `items`."""

    shown: str
    """The versions that it shows."""
    hidden: str = ""
    """Current versions that it does not show."""
    added: str = ""
    """Versions that it shows and that are not current."""
    is_past: bool = False
    """Whether later versions count in no statistics of words; those of a pending run are as after its commit."""


CURRENT: Final = State(shown=NOW)
ARCHIVED: Final = State(shown="archived", hidden=NOW, added="archived")


def as_of(at: int) -> State:
    """Return the state at a recorded time."""
    # The rows of current versions are in the order in which they began.
    begun = f"FROM items AS before WHERE before.{NOW} AND before.began <= {at}"
    last = f"SELECT before.row {begun} ORDER BY before.row DESC LIMIT 1"
    return State(
        shown=f"began <= {at} AND (ended IS NULL OR ended > {at})",
        hidden=f"{NOW} AND row > COALESCE(({last}), 0)",
        added=f"began <= {at} AND ended > {at}",
        is_past=True,
    )


def of_run(dialect: Dialect, run: str) -> State:
    """Return the state that a pending run sees: its own versions, and those that it did not change."""
    own = f"slot = {dialect.literal(slot_of(run))}"
    changed = f"id IN (SELECT own.id FROM items AS own WHERE {dialect.of} AND own.began IS NULL AND own.{own})"
    added = f"began IS NULL AND {own} AND operation NOT IN ({GONE_SQL})"
    return State(shown=f"({NOW} AND NOT {changed} OR {added})", hidden=f"{NOW} AND {changed}", added=added)


def slot_of(run: str) -> str:
    """Return the slot of the versions that a pending run wrote."""
    return f"run:{run}"


class Origin(NamedTuple):
    """The change that begins a version, and the place of the version among those of its item.

    The values are those of the columns `ORIGIN`.
    """

    operation: str
    run: str | None
    actor: str | None
    at: int | None
    """Recorded time; None while its run is pending."""
    slot: str = "now"
    base: int | None = None
    """Row of the current version that a pending one replaces."""


ORIGIN: Final = "operation, change_run, change_actor, began, slot, base"


@dataclass(frozen=True, slots=True, kw_only=True)
class NewItem:
    """An item that is about to be inserted."""

    prepared: PreparedItem
    embeddings: PassageEmbeddings | None
    """Of unit length; None for an item that waits for them, or has no text."""
    waiting: bool
    replaces: bool
    """Whether it takes the place of an older version."""
    like: int | None = None
    """Row of a version with the same indexed texts, which may be gone by now; None where none is known."""


class StoreTables(ABC):
    """The tables of a store within one transaction, which writes unless only reading methods are called.

    Statements name each value `?`, and restrict every table by `dialect.of`.
    """

    dialect: Dialect
    location: str
    restamp_after: ClassVar[int]
    """Microseconds for which a transaction takes the time of its first change for that of its commit."""

    def __init__(self, dialect: Dialect, location: str) -> None:
        """Take how statements are written, and the place of the store, for errors."""
        self.dialect, self.location = dialect, location
        self.of = dialect.of

    @abstractmethod
    def execute(self, statement: str, values: Sequence[object] = ()) -> list[tuple[Any, ...]]:
        """Run a statement; return its rows, if it has any."""

    @abstractmethod
    def change(self, statement: str, values: Sequence[object] = ()) -> int:
        """Run a statement that changes rows; return their number."""

    @abstractmethod
    def change_many(self, statement: str, values: Sequence[Sequence[object]]) -> None:
        """Run a statement that changes rows once with each of some values."""

    @abstractmethod
    def fetch_items(self, rows: Iterable[int]) -> dict[int, MemoryItem]:
        """Return versions by row number, without their embeddings; one that is not there is `MISSING`."""

    @abstractmethod
    def load(self, row: int, body: Any) -> MemoryItem:  # noqa: ANN401 - as the database returns `dialect.body`
        """Return the item of a row.

        Raises:
            CollectionDamagedError: it cannot be read.
        """

    @abstractmethod
    def whole(self, clause: str, values: Sequence[object]) -> list[tuple[int, MemoryItem]]:
        """Return the rows and the items, with embeddings and attachments, that a clause after `WHERE` selects."""

    @abstractmethod
    def embeddings(self, ids: Sequence[str], shown: str) -> dict[str, PassageEmbeddings]:
        """Return the embeddings of those of some items of a state that have them, by id."""

    def check_embeddings(
        self, model: str | None, embeddings: Iterable[PassageEmbeddings | EmbeddingRefusal | None]
    ) -> bool:
        """Refuse embeddings of another model or length; the first embedding of all sets the length.

        Args:
            model: name of the model that made the embeddings; None when it is not known.
            embeddings: embeddings that are to be stored.

        Returns:
            Whether the store has a model.

        Raises:
            EmbeddingMismatchError: the model or the length is another.
        """
        lengths = {encoding.vectors.shape[1] for encoding in embeddings if isinstance(encoding, PassageEmbeddings)}
        made = self.property("model")
        if lengths:
            check_name(self.location, made=made, given=model)
            known = self.property("dimension")
            if known is None:
                known = min(lengths)
                self.set_property("dimension", known)
            for length in lengths:
                check_length(self.location, made=int(known), given=length)
        return made is not None

    @abstractmethod
    def values(
        self, state: State, key: str, where: Filter, now: float, *, prefix: str, limit: int | None, offset: int
    ) -> list[Scalar]:
        """Return the distinct values that the items of a state have; see `Collection.values`."""

    @abstractmethod
    def value_counts(self, key: str, where: Sql) -> Iterable[tuple[Scalar | None, int]]:
        """Return how many items have each value of a key, which is not a path; a value may come more than once."""

    @abstractmethod
    def size_bytes(self, items: int) -> int:
        """Return the size of the store on disk, given the number of its items."""

    def info(self, state: State) -> CollectionInfo:
        """Report what the collection is and how many items a state shows."""
        count = f"SELECT count(*) FROM items WHERE {self.of} AND"
        query = f"SELECT ({count} {state.shown}), ({count} waiting AND {state.shown}), ({count} archived)"
        ((items, waiting, archived),) = self.execute(query)
        model, dimension = self.property("model"), self.property("dimension")
        return CollectionInfo(
            location=self.location,
            items=items,
            waiting=waiting if model else 0,
            size_bytes=self.size_bytes(items),
            embedding=str(model) if model else None,
            dimension=int(dimension) if dimension else None,
            archived=archived,
        )

    @abstractmethod
    def property(self, name: str) -> str | int | None:
        """Return a recorded property of the store; None where it has none of the name."""

    @abstractmethod
    def set_property(self, name: str, value: str | int | None) -> None:
        """Record a property of the store."""

    def count(self, state: State, now: float) -> int:
        """Return the number of items of a state; what has expired at `now` is not there."""
        # Of all and of the expired ones, which have indexes: a condition on each would read every row.
        shown = f"SELECT count(*) FROM items WHERE {self.of} AND {state.shown}"
        ((number,),) = self.execute(f"SELECT ({shown}) - ({shown} AND expires_at <= ?)", (now,))
        return int(number)

    @abstractmethod
    def insert(self, new: Sequence[NewItem], origins: Sequence[Origin]) -> list[int]:
        """Insert versions with their passages and embeddings, each as its origin says; return their rows."""

    @abstractmethod
    def copy(self, row: int, origin: Origin) -> None:
        """Insert a copy of a version as the current one, with all that belongs to it."""

    @abstractmethod
    def mark_deleted(self, rows: Sequence[int], origin: Origin) -> None:
        """Insert, for each of some current versions, the mark of a pending run that it deletes the item."""

    @abstractmethod
    def end(self, condition: str, values: Sequence[object], ending: VersionEnd, at: int) -> int:
        """End the current versions that match a condition; return their number."""

    @abstractmethod
    def delete(self, condition: str, values: Sequence[object]) -> int:
        """Delete the versions that match a condition permanently, with what only they use; return their number."""

    @abstractmethod
    def embed(self, embeddings: Sequence[tuple[int, PassageEmbeddings]]) -> None:
        """Insert the embeddings of versions that have none, by row."""

    def bodies(self) -> Iterator[tuple[int, Any]]:
        """Yield row number and body of every version, reading them in batches."""
        query = f"SELECT row, {self.dialect.body} FROM items WHERE {self.of} AND row > ? ORDER BY row LIMIT {_BODIES}"
        last = 0
        while found := self.execute(query, (last,)):
            yield from ((row, body) for row, body in found)
            last = found[-1][0]

    @abstractmethod
    def replace_terms(self, row: int, terms: Sequence[EncodedTerms]) -> None:
        """Replace the terms of a version's passages, given in their order."""

    @abstractmethod
    def replace_passages(self, changed: Mapping[int, PreparedItem]) -> None:
        """Replace the passages of some versions, by row, which lose their embeddings."""

    @abstractmethod
    def delete_embeddings(self) -> None:
        """Delete every vector and token code."""

    @abstractmethod
    def note_other_terms(self) -> None:
        """Count the terms again, or have caches built again: those of passages were replaced."""

    def drop_vector_index(self) -> None:  # noqa: B027 - most have none
        """Drop what the database itself keeps to find vectors; the commit comes next."""

    def insert_attachments(self, row: int, contents: Mapping[str, bytes]) -> None:
        """Insert the attachments of a new version, by SHA-256; those that are there already are used again."""
        into, own = self.dialect.into, self.dialect.own
        inserted = f"INSERT INTO attachments({into}sha256, content) VALUES ({own}?, ?) ON CONFLICT DO NOTHING"
        self.change_many(inserted, list(contents.items()))
        used = f"INSERT INTO attachment_uses({into}sha256, row) VALUES ({own}?, ?)"
        self.change_many(used, [(name, row) for name in contents])

    def read_attachments(self, names: Sequence[str]) -> dict[str, bytes]:
        """Return the contents of attachments by SHA-256."""
        among, values = self.dialect.among("sha256", names)
        query = f"SELECT sha256, content FROM attachments WHERE {self.of} AND {among}"
        return {name: bytes(content) for name, content in self.execute(query, values)}

    def note_hidden(self, rows: Sequence[int]) -> None:  # noqa: B027 - a database without caches has nothing to note
        """Note that a pending run does not show some current versions any more."""

    def find_tombstones(self, digests: Sequence[str]) -> set[str]:
        """Return those of some digests for which a tombstone stands."""
        among, values = self.dialect.among("digest", digests)
        found = self.execute(f"SELECT digest FROM tombstones WHERE {self.of} AND {among}", values)
        return {digest for (digest,) in found}

    def tombstone_keys(self) -> tuple[bytes, ...]:
        """Return the keys of the store's tombstones; none where it has no tombstones."""
        found = self.property(TOMBSTONE_KEYS)
        return tuple(map(bytes.fromhex, json.loads(found))) if isinstance(found, str) else ()

    def erased_among(self, items: Iterable[MemoryItem]) -> frozenset[str]:
        """Return the ids of the items that a tombstone keeps out."""
        keys = self.tombstone_keys()
        return erased_items(keys, items, self.find_tombstones) if keys else frozenset()


def check_name(location: str, *, made: str | int | None, given: str | None) -> None:
    """Refuse another model than the one that is recorded now.

    While a collection is open another process may have embedded it with another model.
    """
    if made is not None and given is not None and made != given:
        raise EmbeddingMismatchError(location, recorded=str(made), wanted=given)


def check_length(location: str, *, made: int, given: int) -> None:
    """Refuse an embedding of another length than those in the collection."""
    if given != made:
        raise EmbeddingMismatchError(
            location, recorded=f"a model of {made} dimensions", wanted=f"one of {given} dimensions", same_name=True
        )


T = TypeVar("T")


class StoreDatabase(ABC):
    """The database of a store: its transactions, and what else databases do in their own ways."""

    location: str
    dialect: Dialect
    clock: Callable[[], float]
    """Current time in seconds since the epoch, for expiry."""
    history_days: float | None
    """Days for which versions are kept after another one took their place; None permanently, 0 not at all."""
    model: str | None
    """Name of the model that queries are embedded with; None when it is not known."""

    @abstractmethod
    def read(self, operation: Callable[[StoreTables], T]) -> T:
        """Run an operation that sees the database as of one commit."""

    @abstractmethod
    def write(self, operation: Callable[[StoreTables], T]) -> T:
        """Run an operation in a write transaction."""

    def remove(self, operation: Callable[[StoreTables], T]) -> T:
        """Run an operation that deletes in a write transaction, on a full disk too."""
        return self.write(operation)

    def note(self, written: int) -> None:  # noqa: B027 - most have nothing to do
        """Note how many items a committed transaction wrote."""

    @abstractmethod
    def search(
        self, state: State, query: SearchQuery, clock: Callable[[], float], run: Callable[[SearchSource, float], T]
    ) -> T:
        """Call a function with a state as one search sees it, whose indexes are up to date, and its time.

        The source is valid until the function returns; the time is in seconds since the epoch.
        """

    def with_attachments(self, items: Sequence[MemoryItem]) -> list[MemoryItem]:
        """Return the items with their attachments as they were stored."""
        return inlined(items, lambda names: self.read(lambda tables: tables.read_attachments(names)))

    @abstractmethod
    def exclusive(self, purpose: str) -> AbstractContextManager[None]:
        """Exclude every other process that names the same purpose until the block ends."""

    @abstractmethod
    def close(self) -> None:
        """Release the files and connections; closing twice is allowed."""
