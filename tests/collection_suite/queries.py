"""Shared by the tests of ranking: items with token codes, and queries with token vectors."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any, Final

from pydantic import JsonValue

from devmem import MemoryItem, Scope, SearchReport
from devmem.model.fields import embedded_hash
from devmem.models.embedder import token_codes
from devmem.storage import Collection, PreparedItem, Ranking, SearchQuery
from devmem.stores import PassageEmbeddings
from devmem.testing import HashTokenEmbedder
from tests.collection_suite.fixtures import MODEL

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
