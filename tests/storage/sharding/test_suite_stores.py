"""The contract of a store type, kept by stores on three shards."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from pydantic import JsonValue

from devmem.testing import StoreSuite
from devmem_stores.blackboard import BlackboardMemory
from devmem_stores.conversation import ConversationMemory
from devmem_stores.simple import SimpleMemory

SHARDS: dict[str, JsonValue] = {"shards": {"a": "a.db", "b": "b.db", "c": "c.db"}}


class TestSimple(StoreSuite):
    store_class = SimpleMemory
    config: ClassVar[Mapping[str, JsonValue]] = {"memory_path": {**SHARDS, "by": "user"}}


class TestBlackboard(StoreSuite):
    store_class = BlackboardMemory
    searches = embeds = False
    config: ClassVar[Mapping[str, JsonValue]] = {"memory_path": {**SHARDS, "by": "agent"}}


class TestConversation(StoreSuite):
    store_class = ConversationMemory
    config: ClassVar[Mapping[str, JsonValue]] = {
        "memory_path": {**SHARDS, "by": "conversation"},
        "view": {"order": "search"},
    }
