"""The contract of a collection, kept by several SQLite files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from devmem.storage.opening import CollectionOptions
from devmem.storage.sharding.collection import ShardedCollection
from devmem.storage.sharding.opener import open_shards
from devmem.testing import CollectionSuite, OpenCollection, TombstoneSuite


class TestShards(CollectionSuite, TombstoneSuite):
    @pytest.fixture
    def open_collection(self, tmp_path: Path) -> OpenCollection:
        url = "shards://user?" + "&".join(f"{name}={tmp_path / name}.db" for name in ("a", "b", "c"))

        def opened(**options: Any) -> ShardedCollection:
            return open_shards(url, CollectionOptions(**options))

        return opened
