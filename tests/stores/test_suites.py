"""The contract of a store type, kept by each of ours wherever it keeps its items."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import closing
from dataclasses import replace
from typing import ClassVar

import pytest
from pydantic import JsonValue

from devmem import MemoryItem, MemoryWritePayload, WriteOutcome
from devmem.stores import skipped
from devmem.testing import StoreSuite
from devmem_stores.blackboard import BlackboardMemory
from devmem_stores.brain import BrainMemory
from devmem_stores.conversation import ConversationMemory
from devmem_stores.long_term import LongTermMemory
from devmem_stores.role_zero import RoleZeroMemory
from devmem_stores.simple import SimpleMemory
from tests.stores.brain.redis_server import RedisServer


class InSqlite(StoreSuite):
    config: ClassVar[Mapping[str, JsonValue]] = {"memory_path": "memory.db"}


class InJson(StoreSuite):
    config: ClassVar[Mapping[str, JsonValue]] = {"memory_path": "memory/memory.json"}


class InMemory(StoreSuite):
    config: ClassVar[Mapping[str, JsonValue]] = {"memory_path": None}
    persists = False


class OfTheSession(StoreSuite):
    config: ClassVar[Mapping[str, JsonValue]] = {"memory_path": "auto"}


class TestSimpleInSqlite(InSqlite):
    store_class = SimpleMemory


class TestSimpleInJson(InJson):
    store_class = SimpleMemory


class TestSimpleInMemory(InMemory):
    store_class = SimpleMemory


class TestSimpleOfTheSession(OfTheSession):
    store_class = SimpleMemory


class MarkedMemory(SimpleMemory):
    """Selective by design: it keeps only exchanges that are marked as important."""

    def compose(self, payload: MemoryWritePayload) -> MemoryItem | WriteOutcome:
        if not payload.metadata.get("important"):
            return skipped("it is not marked as important")
        return super().compose(payload)


class TestSelective(InSqlite):
    store_class = MarkedMemory

    def kept(self, payload: MemoryWritePayload) -> MemoryWritePayload:
        return replace(payload, metadata={**payload.metadata, "important": True})


class TestBlackboardInSqlite(InSqlite):
    store_class = BlackboardMemory
    searches = embeds = False


class TestBlackboardInJson(InJson):
    store_class = BlackboardMemory
    searches = embeds = False


class TestBlackboardInMemory(InMemory):
    store_class = BlackboardMemory
    searches = embeds = False


class TestBlackboardOfTheSession(OfTheSession):
    store_class = BlackboardMemory
    searches = embeds = False


class TestLongTermInSqlite(InSqlite):
    store_class = LongTermMemory


class TestLongTermInJson(InJson):
    store_class = LongTermMemory


class TestLongTermInMemory(InMemory):
    store_class = LongTermMemory


@pytest.mark.kit
class TestLongTermOfTheSession(OfTheSession):
    """The file that `auto` names is chosen in one place for all store types, which `make test` checks with `simple`."""

    store_class = LongTermMemory


class TestRoleZeroInSqliteWithASmallWindow(StoreSuite):
    store_class = RoleZeroMemory
    config: ClassVar[Mapping[str, JsonValue]] = {"memory_path": "memory.db", "memory_k": 2}


class TestRoleZeroInJson(InJson):
    store_class = RoleZeroMemory


class TestRoleZeroInMemory(InMemory):
    store_class = RoleZeroMemory


class TestRoleZeroByDefault(StoreSuite):
    store_class = RoleZeroMemory


class TestConversationInSqlite(StoreSuite):
    store_class = ConversationMemory
    config: ClassVar[Mapping[str, JsonValue]] = {"memory_path": "memory.db", "view": {"order": "search"}}


class TestConversationInJson(StoreSuite):
    store_class = ConversationMemory
    config: ClassVar[Mapping[str, JsonValue]] = {"memory_path": "memory.json", "view": {"order": "search"}}


class TestChronologicalConversation(InSqlite):
    store_class = ConversationMemory
    searches = embeds = False


class TestBrainInSqlite(InSqlite):
    store_class = BrainMemory


class TestBrainInJson(InJson):
    store_class = BrainMemory


class TestBrainInMemory(InMemory):
    store_class = BrainMemory


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RedisServer]:
    server = RedisServer(tmp_path_factory.mktemp("redis"))
    server.start()
    yield server
    server.kill()


class TestBrainWithRedis(StoreSuite):
    store_class = BrainMemory

    @pytest.fixture(autouse=True)
    def _redis(self, server: RedisServer, monkeypatch: pytest.MonkeyPatch) -> None:
        with closing(server.client()) as client:
            client.flushall()
        config = {"memory_path": "memory.db", "redis": {"url": server.url}}
        monkeypatch.setattr(type(self), "config", config)


class TestBrainWithRedisDown(StoreSuite):
    store_class = BrainMemory
    config: ClassVar[Mapping[str, JsonValue]] = {"memory_path": "memory.db", "redis": {"url": "redis://127.0.0.1:1"}}
