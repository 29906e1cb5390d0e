"""Shards in PostgreSQL: the moves and searches of SQLite shards, on stores of a server."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count
from pathlib import Path

import pytest

from devmem.config.shards import ShardsConfig
from devmem.model.filters import Filter
from devmem.model.items import MemoryItem, Scope
from devmem.search.query import SearchQuery
from devmem.storage.fencing import StaleMapError, expecting_map
from devmem.storage.opening import CollectionOptions
from devmem.storage.sharding.collection import ShardedCollection
from devmem.storage.sharding.moving import move_tenant
from devmem.storage.sharding.opener import open_shards
from devmem.storage.sharding.ring import statuses
from devmem.testing import HashEmbedder
from tools.postgres_server import PostgresServer

pytestmark = pytest.mark.postgres

_EMBEDDER = HashEmbedder(dimension=16)
_NUMBERS = count()


@pytest.fixture(params=["follow", "server"])
def store(
    postgres_server: PostgresServer, tmp_path: Path, request: pytest.FixtureRequest
) -> Iterator[ShardedCollection]:
    """Two stores of a server and a file."""
    number = next(_NUMBERS)
    shards = {name: postgres_server.url(store=f"shard {name} {number}", mode=request.param) for name in ("a", "b")}
    url = ShardsConfig(shards={**shards, "c": str(tmp_path / "c.db")}).url()
    opened = open_shards(url, CollectionOptions(model=_EMBEDDER.identity))
    yield opened
    opened.close()


def _items(user: str, number: int) -> list[MemoryItem]:
    texts = [f"{user} takes train {at} to work" for at in range(number)]
    vectors = _EMBEDDER.embed(texts)
    return [
        MemoryItem(
            id=f"{user} {at}", content_summary=text, scope=Scope(user=user), created_at=1e9 + at, embedding=vectors[at]
        )
        for at, text in enumerate(texts)
    ]


def test_a_tenant_moves_through_every_kind_of_shard(store: ShardedCollection) -> None:
    users = [f"user {number}" for number in range(6)]
    store.add([item for user in users for item in _items(user, 8)])
    store.delete(ids=["user 0 1"])
    store.add(
        [MemoryItem(id="user 0 2", content_summary="on foot", scope=Scope(user="user 0"), created_at=2e9)]
    )  # a second version, which waits for its embedding
    history = {name: store.history(name) for name in ("user 0 1", "user 0 2", "user 0 3")}
    vectors = store.embeddings(["user 0 3"])["user 0 3"]
    where = Filter(scope=Scope(user="user 0"))
    before = [item.id for item in store.scan(where)]
    for target in ("a", "c", "b", "c", "a"):
        move_tenant(store.shards, "user 0", target)
        assert store.shards.map.shard_of("user 0") == target
        assert [item.id for item in store.scan(where)] == before
        assert {name: store.history(name) for name in history} == history
        found = store.embeddings(["user 0 3"])["user 0 3"]
        # A SQLite file rounds them to a byte a component.
        assert found.vectors == pytest.approx(vectors.vectors, abs=0.005)
        assert store.count() == 47
        hits = store.search(SearchQuery(text="train to work", vector=_EMBEDDER.embed(["train"])[0], limit=60))
        assert len({hit.item.id for hit in hits}) == len(hits) >= 40
    assert sum(each.items for each in statuses(store.shards)) == 47
    shard = store.shards["a"]
    with expecting_map(1), pytest.raises(StaleMapError):
        shard.delete(ids=["user 0 3"])
    assert store.count() == 47
