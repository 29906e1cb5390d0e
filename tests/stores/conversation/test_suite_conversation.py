"""The contract of a store type, kept by `conversation`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from pydantic import JsonValue

from devmem.testing import StoreSuite
from devmem_stores.conversation import ConversationMemory

SEARCHING: dict[str, JsonValue] = {"order": "search"}


class TestInSqlite(StoreSuite):
    store_class = ConversationMemory
    config: ClassVar[Mapping[str, JsonValue]] = {"memory_path": "memory.db", "view": SEARCHING}


class TestInJson(StoreSuite):
    store_class = ConversationMemory
    config: ClassVar[Mapping[str, JsonValue]] = {"memory_path": "memory.json", "view": SEARCHING}


class TestChronological(StoreSuite):
    store_class = ConversationMemory
    searches = embeds = False
    config: ClassVar[Mapping[str, JsonValue]] = {"memory_path": "memory.db"}
