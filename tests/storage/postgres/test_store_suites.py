"""The contracts of the store types, kept in a PostgreSQL database."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

import pytest
from pydantic import JsonValue

from devmem.testing import StoreSuite
from devmem_stores.brain import BrainMemory
from devmem_stores.conversation import ConversationMemory
from devmem_stores.simple import SimpleMemory

pytestmark = pytest.mark.postgres


class InDatabase(StoreSuite):
    @pytest.fixture(autouse=True)
    def _place(self, store_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(type(self), "config", {**self.config, "memory_path": store_url})


class TestSimple(InDatabase):
    store_class = SimpleMemory


class TestConversation(InDatabase):
    store_class = ConversationMemory
    config: ClassVar[Mapping[str, JsonValue]] = {"view": {"order": "search"}}


class TestBrain(InDatabase):
    store_class = BrainMemory
