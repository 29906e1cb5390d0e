"""The contract of a collection, kept by several SQLite files, and by several stores of PostgreSQL.

What differs is overridden: between shards the time of creation decides the order, and an item keeps its tenant.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import count
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from devmem.config.shards import ShardsConfig
from devmem.errors import CollectionError
from devmem.model.filters import Filter
from devmem.model.items import MemoryItem, Scope, version_hash
from devmem.storage.opening import CollectionOptions
from devmem.storage.sharding.collection import ShardedCollection
from devmem.storage.sharding.opener import open_shards
from devmem.testing import ArchiveSuite, CollectionSuite, ManualClock, OpenCollection, TombstoneSuite
from devmem.testing.collection_suite.agreement import _SHARED, FILTERS, ITEMS, NOW, check_agreement
from devmem.testing.collection_suite.fixtures import MODEL
from tools.postgres_server import PostgresServer

_NUMBERS = count()


class _ShardedSuite(CollectionSuite, ArchiveSuite, TombstoneSuite):
    @settings(max_examples=10, suppress_health_check=_SHARED, deadline=None)
    @given(items=ITEMS, filters=st.lists(FILTERS, min_size=8, max_size=8))
    def test_any_filter(self, opened: OpenCollection, items: list[MemoryItem], filters: list[Filter]) -> None:
        """Every operator, nested in any way, compares as `Filter.admits` does."""
        clock = ManualClock(NOW - 1)
        collection = opened(model=MODEL, clock=clock)
        collection.clear()
        created = [replace(item, created_at=1.0 + at) for at, item in enumerate(items)]
        collection.add(created)
        clock.now = NOW
        for where in filters:
            check_agreement(collection, created, where)

    def test_the_same_text_with_another_field_is_an_update(self, opened: OpenCollection) -> None:  # type: ignore[override]
        """But for the tenant: whoever replaces a known version by one of another tenant is refused."""
        collection = opened()
        (old, new) = (
            MemoryItem(id="1", content_summary="tea", scope=Scope(user=user), created_at=5.0) for user in ("ann", "bob")
        )
        collection.add([old])
        assert isinstance(collection, ShardedCollection)
        if collection.shards.map.shard_of("ann") == collection.shards.map.shard_of("bob"):
            pytest.fail("choose users of two shards")
        with pytest.raises(CollectionError, match="is of another user, whose shard is"):
            collection.add([new], expected={"1": version_hash(old)})
        assert list(collection.scan()) == [old]

    def test_parts_of_any_of_are_whole_filters(self, opened: OpenCollection) -> None:  # type: ignore[override]
        """In the order of their creation, which decides between shards."""
        collection = opened()
        scopes = [Scope(user="u"), Scope(), Scope(), Scope(user="v")]
        times = [("mine", 5.0), ("old", 1.0), ("new", 9.0), ("theirs", 9.5)]
        collection.add(
            [
                MemoryItem(id=name, content_summary=name, scope=scope, created_at=time)
                for (name, time), scope in zip(times, scopes, strict=True)
            ]
        )
        free = Filter(unbound=("user",), any_of=(Filter(before=2.0), Filter(after=8.0)))
        found = collection.scan(Filter(any_of=(Filter(scope=Scope(user="u")), free)))
        assert [item.id for item in found] == ["old", "mine", "new"]


class TestFiles(_ShardedSuite):
    @pytest.fixture
    def open_collection(self, tmp_path: Path) -> OpenCollection:
        url = "shards://user?" + "&".join(f"{name}={tmp_path / name}.db" for name in ("a", "b", "c"))
        return lambda **options: open_shards(url, CollectionOptions(**options))


@pytest.mark.postgres
class TestPostgres(_ShardedSuite):
    @pytest.fixture
    def open_collection(self, postgres_server: PostgresServer) -> OpenCollection:
        number = next(_NUMBERS)
        places = {name: postgres_server.url(store=f"suite {name} {number}") for name in ("a", "b", "c")}
        url = ShardsConfig(shards=places).url()
        return lambda **options: open_shards(url, CollectionOptions(**options))
