"""The protocol of a collection: a durable, ordered, searchable set of items."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Final, Literal, Protocol, Self, TypeAlias, runtime_checkable
from uuid import uuid4

from pydantic import TypeAdapter

from devmem.model.conditions import Order, Scalar
from devmem.model.filters import Filter
from devmem.model.items import MemoryItem, Scope
from devmem.model.results import HitGroup, SearchReport, WriteOutcome
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
        form: dict[str, Any] = TypeAdapter(ExportRecord).dump_python(self, mode="json", exclude_none=True)
        return {key: value for key, value in form.items() if value not in ([], {})}


def _hashed(value: str, salt: str) -> str:
    return hashlib.sha256(f"{salt}{value}".encode("utf-8", "surrogatepass")).hexdigest()


def _hashed_scope(scope: Scope, salt: str) -> Scope:
    return Scope(**{part: None if value is None else _hashed(value, salt) for part, value in asdict(scope).items()})


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
