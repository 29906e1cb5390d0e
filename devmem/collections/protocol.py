"""What a place to keep items implements, and what one asks of it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol, runtime_checkable

from devmem.embedding import PassageEmbeddings
from devmem.model.items import MemoryItem
from devmem.model.results import Hit, HitGroup, SearchReport, WriteOutcome
from devmem.search.query import Filter, SearchQuery


class Unique(StrEnum):
    """What makes an item the same as one that is there already."""

    ID = "id"
    """Its id: the same id with other content supersedes the older item."""
    CONTENT = "content"
    """Its content, for the same agent and user: it is not stored again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CollectionInfo:
    """What a collection is and how much it holds."""

    location: str
    items: int
    waiting: int
    """Items whose embedding is still to be made."""
    size_bytes: int
    """On disk, index snapshots and attachments included; 0 in memory."""
    embedding: str | None
    """Name of the model that made the vectors; None when there are none."""
    dimension: int | None


@runtime_checkable
class Collection(Protocol):
    """A durable, ordered, searchable set of items.

    It is safe to use from several threads, and from several processes where it lives in a file or a server.
    Every method raises `CollectionError` (damaged, busy, unwritable, closed) when it cannot do its work.
    """

    def add(
        self,
        items: Sequence[MemoryItem],
        *,
        unique: Unique = Unique.ID,
        embeddings: Mapping[str, PassageEmbeddings] | None = None,
    ) -> list[WriteOutcome]:
        """Store the items, all or none of them; they are durable when it returns.

        Args:
            items: what to store.
            unique: what makes an item the same as one that is there.
            embeddings: by an item's id, what the model made of its passages (`passages_of`); where it says nothing, the
                item's own `embedding` is that of its first passage. An item without either is stored as waiting when
                the collection has an embedding model.
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
        """Give the conversations that the query is about, best first, at most `query.limit`.

        A conversation is what has the same conversation, session, agent and user; an item of none stands for itself.
        Each comes with its best items, at most `hits_each`; that of the best item is the first.
        """
        ...

    def get(self, ids: Sequence[str]) -> list[MemoryItem]:
        """Give the items that are there, in the order of `ids`, embeddings included."""
        ...

    def recent(self, limit: int, where: Filter | None = None) -> list[MemoryItem]:
        """Give the items that were stored last, newest first."""
        ...

    def scan(self, where: Filter | None = None) -> Iterator[MemoryItem]:
        """Give every item in the order in which they were stored, embeddings included, a few at a time."""
        ...

    def delete(self, *, ids: Sequence[str] | None = None, where: Filter | None = None) -> int:
        """Delete the named or the matching items; with neither, nothing. Gives how many there were."""
        ...

    def clear(self) -> int:
        """Delete everything; gives how many items there were."""
        ...

    def trim(self, *, keep: int | None = None, stored_before: float | None = None) -> int:
        """Delete all but the `keep` items stored last, and those stored before a time (seconds since the epoch)."""
        ...

    def count(self, where: Filter | None = None) -> int:
        """Count the items that a search could find."""
        ...

    def waiting(self, limit: int) -> list[MemoryItem]:
        """Give items whose embedding is still to be made, oldest first."""
        ...

    def embeddings(self, ids: Sequence[str]) -> dict[str, PassageEmbeddings]:
        """Give what a model made of those of the items that are embedded, by id."""
        ...

    def set_embeddings(self, embeddings: Mapping[str, PassageEmbeddings]) -> int:
        """Give waiting items, named by id, their embeddings; gives how many there were."""
        ...

    def replace_model(self, model: str, dimension: int | None) -> int:
        """Forget every embedding and name the model that will make the new ones; gives how many items now wait."""
        ...

    def info(self) -> CollectionInfo:
        """Say what the collection is and how much it holds."""
        ...

    def close(self) -> None:
        """Release the files; the collection cannot be used afterwards. Closing twice is allowed."""
        ...
