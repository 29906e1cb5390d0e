"""The protocol of a collection: a durable, ordered, searchable set of items."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, Literal, Protocol, TypeAlias, runtime_checkable

from devmem.collections.prepared import PreparedItem
from devmem.credentials import location_without_credentials
from devmem.embedding import PassageEmbeddings
from devmem.model.items import MemoryItem
from devmem.model.results import Hit, HitGroup, SearchReport, WriteOutcome
from devmem.search.conditions import Scalar
from devmem.search.filters import Filter, Order
from devmem.search.query import SearchQuery

Durability: TypeAlias = Literal["full", "normal"]
"""`full` survives power loss; `normal` may lose the last writes then, but never when only the process ends."""

DEFAULT_HISTORY_DAYS: Final = 30.0
"""Days for which versions are kept after another one took their place."""


class Unique(StrEnum):
    """Rule by which an item is the same as one that is stored already."""

    ID = "id"
    """The same id; with other content the item supersedes the older one."""
    CONTENT = "content"
    """The same content for the same agent and user; the item is not stored again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CollectionInfo:
    """Location, size and embedding model of a collection."""

    location: str
    """User and password of a URL are masked."""
    items: int
    waiting: int
    """Items whose embedding is still to be made."""
    size_bytes: int
    """On disk, index snapshots and attachments included; 0 in memory."""
    embedding: str | None
    """Name of the model that made the vectors; None when there are none."""
    dimension: int | None
    damaged: int = 0
    """Rows that were found damaged since the collection was opened, and are left out."""
    mode: str | None = None
    """How a database that many processes share is searched: `follow` or `server`; None for other places."""

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

    def find(self, query: SearchQuery) -> SearchReport:
        """Return the best items, best first, and how they were found; `query.explain` adds what was cut and why.

        Without text and vector there is nothing to rank by, and nothing is found.
        """
        ...

    def search(self, query: SearchQuery) -> list[Hit]:
        """Return the hits of `find` alone."""
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

        Return the number of deleted items.
        """
        ...

    def count(self, where: Filter | None = None) -> int:
        """Return the number of items that a search could find."""
        ...

    def waiting(self, limit: int) -> list[MemoryItem]:
        """Return at most `limit` items whose embedding is still to be made, oldest first."""
        ...

    def embeddings(self, ids: Sequence[str]) -> dict[str, PassageEmbeddings]:
        """Return the embeddings of those of the items that have them, by id."""
        ...

    def set_embeddings(self, embeddings: Mapping[str, PassageEmbeddings]) -> int:
        """Store the embeddings of waiting items, by id; return the number of items that took theirs."""
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
