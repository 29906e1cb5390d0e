"""Shared by the parts of the suite: the opening of a collection, items to store, and queries with token vectors."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any, ClassVar, Final, Protocol

import pytest
from pydantic import JsonValue

from devmem import MemoryItem, Scope, SearchReport
from devmem.model.fields import embedded_hash
from devmem.models.embedder import token_codes
from devmem.storage import Collection, PreparedItem, Ranking, SearchQuery
from devmem.stores import ModelIdentity, PassageEmbeddings
from devmem.testing import HashEmbedder, HashTokenEmbedder
from devmem.testing.abilities import OnlyWhatApplies

EMBEDDER: Final = HashEmbedder(dimension=32, name="suite:hash")
MODEL: Final = EMBEDDER.identity


class OpenCollection(Protocol):
    """Opens the same place each time it is called; the suite closes what it opens."""

    def __call__(self, *, model: ModelIdentity | None = None, clock: Callable[[], float] = time.time) -> Collection:
        """Open it for vectors of `model`; `clock` gives the time in seconds since the epoch, for expiry."""
        ...


def item(text: str, **fields: Any) -> MemoryItem:
    """Return an item with its embedding."""
    return MemoryItem(content_summary=text, **{"embedding": EMBEDDER.vector(text), **fields})


def waiting_item(text: str, **fields: Any) -> MemoryItem:
    """Return an item that waits for its embedding."""
    return MemoryItem(content_summary=text, **fields)


def ids(items: Sequence[MemoryItem]) -> list[str]:
    """Return the items' ids, in order."""
    return [one.id for one in items]


class Opening(OnlyWhatApplies):
    """The fixtures; the test class that uses the suite supplies `open_collection`."""

    persists: ClassVar[bool] = True
    """Items are there again when the place is opened again, also while it is still open elsewhere."""
    records_fields: ClassVar[bool] = True
    """The collection is a `SupportsFieldIndex`."""

    @pytest.fixture
    def opened(self, open_collection: OpenCollection) -> Iterator[OpenCollection]:
        """Open collections that are closed when the test is over."""
        collections: list[Collection] = []

        def opened(*, model: ModelIdentity | None = None, clock: Callable[[], float] = time.time) -> Collection:
            collections.append(open_collection(model=model, clock=clock))
            return collections[-1]

        yield opened
        for collection in collections:
            collection.close()

    @pytest.fixture
    def collection(self, opened: OpenCollection) -> Collection:
        """A new collection for vectors of `MODEL`."""
        return opened(model=MODEL)


NOW: Final = datetime(2024, 3, 13, 12, tzinfo=UTC).timestamp()
"""A Wednesday."""
TOKENS: Final = HashTokenEmbedder(dimension=32, name=MODEL.name)
"""Makes the vectors of the suite's embedder, and those of tokens."""
PLAIN: Final = Ranking(recency=0.0)
"""New and old items count the same: the tests add them in the same moment, or nearly."""


def encoded(items: list[MemoryItem]) -> list[PreparedItem]:
    """Return the items with embeddings as a store makes them, with token codes."""
    found = []
    for prepared in map(PreparedItem.of, items):
        tokens = tuple(map(token_codes, TOKENS.embed_tokens(prepared.passages)))
        made = PassageEmbeddings(
            vectors=TOKENS.embed(prepared.passages), tokens=tokens, content_hash=embedded_hash(prepared.item)
        )
        found.append(replace(prepared, embeddings=made))
    return found


def asked(text: str, **fields: Any) -> SearchQuery:
    """Ask by words, vector and tokens."""
    (tokens,) = TOKENS.embed_tokens([text])
    return SearchQuery(text=text, vector=tokens.vector, tokens=tokens, **{"ranking": PLAIN, "now": NOW, **fields})


def found(collection: Collection, query: SearchQuery) -> list[str]:
    """Return the hits' ids, best first."""
    return [hit.item.id for hit in collection.search(query)]


def explained(collection: Collection, query: SearchQuery) -> SearchReport:
    """Search, and report what was cut and why."""
    return collection.search(replace(query, explain=True))


def add_encoded(collection: Collection, items: list[MemoryItem]) -> None:
    """Store items with their token codes."""
    collection.add(encoded(items))


def record(
    name: str,
    text: str,
    at: float,
    *,
    kind: str = "event",
    user: str = "u",
    about: Mapping[str, JsonValue] | None = None,
) -> MemoryItem:
    """Return a record of something that happened at a time, without an embedding; `about` is added to its metadata."""
    return turn(name, text, user=user, conversation=None, event_time=at, metadata={"kind": kind, **(about or {})})


def turn(name: str, text: str, *, user: str = "u", conversation: str | None = "c", **fields: Any) -> MemoryItem:
    """Return a turn of a conversation, without an embedding."""
    return MemoryItem(
        id=name, content_summary=text, scope=Scope(user=user, conversation=conversation), created_at=NOW, **fields
    )
