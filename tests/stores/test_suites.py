"""The contract of a store type, kept by each of ours wherever it keeps its items."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import closing
from dataclasses import replace
from typing import ClassVar, cast

import pytest
from pydantic import JsonValue

from devmem import MemoryBase, MemoryItem, MemoryWritePayload, WriteOutcome
from devmem.stores import skipped
from devmem.testing import StoreSuite
from devmem_stores.blackboard import BlackboardMemory
from devmem_stores.brain import BrainMemory
from devmem_stores.conversation import ConversationMemory
from devmem_stores.long_term import LongTermMemory
from devmem_stores.role_zero import RoleZeroMemory
from devmem_stores.simple import SimpleMemory
from tests.stores.brain.conftest import RedisServer

IN_SQLITE, IN_JSON, IN_MEMORY, OF_THE_SESSION = "memory.db", "memory/memory.json", None, "auto"


def suite(kind: type[MemoryBase], path: str | None, *, searches: bool = True, **config: JsonValue) -> type[StoreSuite]:
    """Make the suite of a store type whose items are at a path."""

    abilities = {"persists": path is not None, "searches": searches, "embeds": searches}
    made = type("Suite", (StoreSuite,), {"store_class": kind, "config": {"memory_path": path, **config}, **abilities})
    return cast("type[StoreSuite]", made)


TestSimpleInSqlite = suite(SimpleMemory, IN_SQLITE)
TestSimpleInJson = suite(SimpleMemory, IN_JSON)
TestSimpleInMemory = suite(SimpleMemory, IN_MEMORY)
TestSimpleOfTheSession = suite(SimpleMemory, OF_THE_SESSION)
TestBlackboardInSqlite = suite(BlackboardMemory, IN_SQLITE, searches=False)
TestBlackboardInJson = suite(BlackboardMemory, IN_JSON, searches=False)
TestBlackboardInMemory = suite(BlackboardMemory, IN_MEMORY, searches=False)
TestBlackboardOfTheSession = suite(BlackboardMemory, OF_THE_SESSION, searches=False)
TestLongTermInSqlite = suite(LongTermMemory, IN_SQLITE)
TestLongTermInJson = suite(LongTermMemory, IN_JSON)
TestLongTermInMemory = suite(LongTermMemory, IN_MEMORY)
TestRoleZeroInSqliteWithASmallWindow = suite(RoleZeroMemory, IN_SQLITE, memory_k=2)
TestRoleZeroInJson = suite(RoleZeroMemory, IN_JSON)
TestRoleZeroInMemory = suite(RoleZeroMemory, IN_MEMORY)
TestRoleZeroOfTheSession = suite(RoleZeroMemory, OF_THE_SESSION)
TestConversationInSqlite = suite(ConversationMemory, IN_SQLITE, view={"order": "search"})
TestConversationInJson = suite(ConversationMemory, IN_JSON, view={"order": "search"})
TestChronologicalConversation = suite(ConversationMemory, IN_SQLITE, searches=False)
TestBrainInSqlite = suite(BrainMemory, IN_SQLITE)
TestBrainInJson = suite(BrainMemory, IN_JSON)
TestBrainInMemory = suite(BrainMemory, IN_MEMORY)
TestBrainWithRedisDown = suite(BrainMemory, IN_SQLITE, redis={"url": "redis://127.0.0.1:1"})


class TestSimpleWithTooLittleRoom(StoreSuite):
    """The suite says how many items a store must have room for."""

    store_class = SimpleMemory
    config: ClassVar[Mapping[str, JsonValue]] = {"memory_path": IN_MEMORY, "max_items": 50}
    persists = False

    def test_many_threads(self, store: MemoryBase) -> None:
        with pytest.raises(AssertionError, match="50 of 80 items are left: the suite needs a store with room for 80"):
            super().test_many_threads(store)


class MarkedMemory(SimpleMemory):
    """Selective by design: it keeps only exchanges that are marked as important."""

    def compose(self, payload: MemoryWritePayload) -> MemoryItem | WriteOutcome:
        if not payload.metadata.get("important"):
            return skipped("it is not marked as important")
        return super().compose(payload)


class TestSelective(StoreSuite):
    store_class = MarkedMemory
    config: ClassVar[Mapping[str, JsonValue]] = {"memory_path": IN_SQLITE}

    def kept(self, payload: MemoryWritePayload) -> MemoryWritePayload:
        return replace(payload, metadata={**payload.metadata, "important": True})


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
