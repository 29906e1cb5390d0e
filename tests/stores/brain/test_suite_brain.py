"""The contract of a store type, kept by `brain`: with a file, without one, and with Redis up or down."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import closing
from typing import ClassVar

import pytest
from pydantic import JsonValue

from devmem.testing import StoreSuite
from devmem_stores.brain import BrainMemory

from .redis_server import RedisServer


class TestInSqlite(StoreSuite):
    store_class = BrainMemory
    config: ClassVar[Mapping[str, JsonValue]] = {"memory_path": "memory.db"}


class TestInJson(StoreSuite):
    store_class = BrainMemory
    config: ClassVar[Mapping[str, JsonValue]] = {"memory_path": "memory/memory.json"}


class TestInMemory(StoreSuite):
    store_class = BrainMemory
    config: ClassVar[Mapping[str, JsonValue]] = {"memory_path": None}
    persists = False


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RedisServer]:
    server = RedisServer(tmp_path_factory.mktemp("redis"))
    server.start()
    yield server
    server.kill()


class TestWithRedis(StoreSuite):
    store_class = BrainMemory

    @pytest.fixture(autouse=True)
    def _redis(self, server: RedisServer, monkeypatch: pytest.MonkeyPatch) -> None:
        with closing(server.client()) as client:
            client.flushall()
        config = {"memory_path": "memory.db", "redis": {"url": server.url}}
        monkeypatch.setattr(TestWithRedis, "config", config)


class TestWithRedisDown(StoreSuite):
    store_class = BrainMemory
    config: ClassVar[Mapping[str, JsonValue]] = {"memory_path": "memory.db", "redis": {"url": "redis://127.0.0.1:1"}}
